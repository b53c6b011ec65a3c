"""``python -m mcp_connections``: the command line where the console script is not on the PATH."""

from __future__ import annotations

from mcp_connections.cli.main import main

if __name__ == "__main__":
    main()
