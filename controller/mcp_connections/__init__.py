"""mcp-connections: many MCP servers behind one endpoint, declared and operated the Kubernetes way.

The packages point one way: api <- mounts <- proxy, operator, folder <- cli (docs/architecture.md).
"""

from __future__ import annotations

__version__ = "0.1.0"
