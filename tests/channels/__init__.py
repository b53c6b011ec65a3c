"""Channels against real processes and real servers."""
