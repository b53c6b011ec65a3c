"""Tests of the policies of connections: pure parts with a fake clock, the whole against misbehaving backends."""
