"""One stdio program as a streamable HTTP server: what runs in the pod of a stdio connection.

Nothing is rewritten that need not be: the proxy in front sees the program as if it had started it itself.
"""
