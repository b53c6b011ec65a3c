"""Real MCP servers that tests put behind the proxy: well-behaved ones, scripted ones and broken ones."""
