"""The admin port: mounts for an operator, MCP tools for an assistant, probes and metrics."""
