"""The official conformance suite, against a server of the project's own and against the proxy in front of it."""
