"""Clients that others wrote, and clients of both eras that keep every byte, in front of backends of both eras."""
