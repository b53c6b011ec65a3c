"""One session whose every request is a connection of its own, so that any pod behind a Service may get it.

Arguments: a tool, how many calls, and the addresses (HOST:PORT) to go round. Prints the status of each call as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
from typing import Any

VERSION = "2025-11-25"


def post(address: str, session: str | None, message: dict[str, Any]) -> tuple[int, str | None, bytes]:
    """One POST on a new connection: status, session id, body."""
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if session is not None:
        headers |= {"mcp-session-id": session, "mcp-protocol-version": VERSION}
    try:
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
        response = connection.getresponse()
        return response.status, response.headers["mcp-session-id"], response.read()
    finally:
        connection.close()


def main(tool: str, calls: int, addresses: list[str]) -> None:
    """Initialise at the first address, then call round all of them."""
    client = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "wanderer", "version": "1"}}
    status, session, body = post(addresses[0], None, {"id": 0, "method": "initialize", "params": client})
    assert session is not None, (status, body)
    post(addresses[0], session, {"method": "notifications/initialized"})
    answers = []
    for number in range(1, calls + 1):
        request = {"id": number, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        status, _, body = post(addresses[number % len(addresses)], session, request)
        answers.append([status, b'"result"' in body and b'"isError":true' not in body])
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
