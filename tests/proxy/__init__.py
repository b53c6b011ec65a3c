"""The relay as its users see it: a whole proxy process between real clients and real backends."""
