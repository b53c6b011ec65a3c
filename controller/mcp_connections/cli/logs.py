"""Logging of the long-running commands: to stderr, as text for people or as JSON lines for machines."""

from __future__ import annotations

import logging
import re
import sys
from enum import StrEnum

from pythonjsonlogger.json import JsonFormatter

from mcp_connections.cli.one_line import printable


class _OneLine(logging.Formatter):
    """Text that says one thing a line, whatever a client or backend put into it: nothing it says begins a line of its
    own, or moves the cursor of a terminal. Tracebacks are ours and keep their lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (as logging calls it)
        record.message = printable(record.message)
        return super().formatMessage(record)


class LogFormat(StrEnum):
    """How a log line looks."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From which severity on lines are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_CHATTY = ("asyncio", "fastmcp", "mcp", "httpx2", "watchfiles", "uvicorn.access", "uvicorn.error")
"""Libraries whose messages help only while looking for a fault."""


_ABOUT = re.compile(r"connection ([^\s:/]+/[^\s:]+)")
"""How messages about a connection begin."""


def _name_connection(record: logging.LogRecord) -> bool:
    """Give records about a connection its key as a field of their own, so that they can be searched by it."""
    about = _ABOUT.match(record.getMessage())
    if about is not None and not hasattr(record, "connection"):
        record.connection = about.group(1)
    return True


def set_up_logging(level: LogLevel, log_format: LogFormat) -> None:
    """Send all logging of the process to stderr. To be called once, before anything is logged."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format is LogFormat.JSON:
        handler.addFilter(_name_connection)
        fields = {"asctime": "time", "levelname": "level", "name": "logger"}
        formatter: logging.Formatter = JsonFormatter(
            "{asctime}{levelname}{name}{message}", style="{", rename_fields=fields
        )
    else:
        formatter = _OneLine("{asctime} {levelname:<7} {name}: {message}", style="{")
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    if level is not LogLevel.DEBUG:
        for name in _CHATTY:
            logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
