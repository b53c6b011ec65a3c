"""The Kubernetes shell: watches the resources, drives the proxies, writes status. Knows nothing of MCP framing."""
