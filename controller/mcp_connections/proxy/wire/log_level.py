"""Log levels of ``notifications/message``, in rising order (RFC 5424, section 6.2.1)."""

from __future__ import annotations

from typing import Final

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def reaches(level: object, threshold: str) -> bool:
    """Whether a message of ``level`` is to be sent to someone who asked for ``threshold`` and above."""
    return level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(threshold)
