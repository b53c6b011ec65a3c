"""A sample backend over streamable HTTP: the time in a place, and how far two moments are apart."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("clock", instructions="Tells the time anywhere. Places are IANA time zones such as Europe/Paris.")


@server.tool
def now(zone: str = "UTC") -> str:
    """The present date and time in an IANA time zone."""
    try:
        return datetime.now(ZoneInfo(zone)).isoformat(timespec="seconds")
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ToolError(f"{zone!r} is not a time zone. Use a name such as Europe/Paris.") from error


@server.tool
def seconds_between(start: datetime, end: datetime) -> float:
    """Seconds from one moment to another. A moment without an offset is taken as UTC."""
    moments = [moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in (start, end)]
    return (moments[1] - moments[0]).total_seconds()


@server.resource("clock://started")
def started() -> str:
    """When this backend was started."""
    return STARTED


STARTED = datetime.now(UTC).isoformat(timespec="seconds")


def _end_with_parent() -> None:
    """Stop once stdin is closed: whoever started this process is gone then, however it ended."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--end-with-parent", action="store_true", help="stop when stdin is closed")
    options = parser.parse_args()
    if options.end_with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    server.run("http", host="127.0.0.1", port=options.port, show_banner=False, log_level="warning")
