"""Many MCP servers behind one endpoint, declared and operated the Kubernetes way."""

__version__ = "0.1.0"
