"""How a command fails: one line for the person at the terminal, and an exit code for the script around it."""

from __future__ import annotations

from typing import Final

FAILED: Final = 1
"""The input is fine, and what was asked for did not work."""
BAD_INPUT: Final = 2
"""Something that was given (an option, a manifest, a file) has to be corrected first."""


class CommandError(Exception):
    """Ends the command. The text says what happened, to what, and what to do next."""

    exit_code = FAILED


class InputError(CommandError):
    """Ends the command because of what it was given."""

    exit_code = BAD_INPUT
