"""Serving ASGI applications over HTTP/1.1, with bounds."""
