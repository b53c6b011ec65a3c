"""What is wrong in which file: the one form of every complaint about a folder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FileError:
    """One fault in one file. Lines and columns count from 1; None where the fault has no place in the text."""

    file: str
    """Path of the file, as the folder was given."""
    line: int | None = None
    column: int | None = None
    field: str = ""
    """Path of the field, such as ``spec.transport.http.url``; empty for the document or the file itself."""
    message: str
    """Reads on after the field ("must be …")."""

    def __str__(self) -> str:
        place = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        return f"{self.file}{place}: {self.field + ': ' if self.field else ''}{self.message}"


class Fault(Exception):
    """A FileError in the making: raised where the place in the text is known and the file's name is not."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.field = field

    def within(self, file: str) -> FileError:
        """The error, with the name of the file."""
        return FileError(file=file, line=self.line, column=self.column, field=self.field, message=self.message)
