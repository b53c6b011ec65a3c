"""A sample backend over stdio: notes kept in memory, and so one set of notes for each client session."""

from __future__ import annotations

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("notes", instructions="Keeps short notes for as long as the session lasts.")
notes: dict[str, str] = {}

MAX_NOTES = 100


@server.tool
def write(title: str, text: str) -> str:
    """Keep a note. A note of the same title is replaced."""
    if title not in notes and len(notes) >= MAX_NOTES:
        raise ToolError(f"There are {MAX_NOTES} notes already. Replace one of them.")
    notes[title] = text
    return f"{len(notes)} notes"


@server.tool
def titles() -> list[str]:
    """The titles of all notes."""
    return sorted(notes)


@server.resource("notes://{title}")
def note(title: str) -> str:
    """The text of a note."""
    return notes[title]


@server.prompt
def summarise() -> str:
    """Ask for a summary of all notes."""
    return "Summarise these notes:\n\n" + "\n".join(f"- {title}: {text}" for title, text in sorted(notes.items()))


if __name__ == "__main__":
    server.run("stdio", show_banner=False, log_level="warning")
