"""The desired mounts as a pod finds them: the operator's Secrets, mounted as files.

The kubelet swaps all files of one Secret at once, but several Secrets at different moments: parts that do not belong
together are seen now and then, and are right a moment later.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.mount_secrets import MAX_PARTS, MOUNTS_KEY, part_key, unpack
from mcp_connections.proxy.admin.control import SourceError


class MountedFiles:
    """The mounts files below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._applied = b""

    def peek(self) -> DesiredMounts:
        """What the files say now. Raises SourceError."""
        return self._read()[0]

    def read(self) -> DesiredMounts:
        """What the files say now, to be applied. Raises SourceError."""
        desired, self._applied = self._read()
        return desired

    def read_if_changed(self) -> DesiredMounts | None:
        """As ``read``, or None where the content is what was read last: what was pushed since then stays."""
        desired, digest = self._read()
        if digest == self._applied:
            return None
        self._applied = digest
        return desired

    def _read(self) -> tuple[DesiredMounts, bytes]:
        parts = self._parts()
        try:
            return unpack(parts), hashlib.sha256(b"".join(parts)).digest()
        except (ValueError, OSError, EOFError) as error:
            # The text of a validation error holds values, and these may be credentials.
            kind = type(error).__name__
            raise SourceError(
                f"The {len(parts)} part(s) of {self.folder / MOUNTS_KEY} do not make a DesiredMounts ({kind}). While "
                "they are being replaced this passes by itself; otherwise let the operator write them again."
            ) from error

    def _parts(self) -> list[bytes]:
        parts: list[bytes] = []
        for number in range(MAX_PARTS):
            path = self.folder / part_key(number)
            try:
                parts.append(path.read_bytes())
            except FileNotFoundError:
                break
            except OSError as error:
                raise SourceError(f"Cannot read {path}: {error.strerror}.") from error
        if not parts:
            raise SourceError(f"There is no {MOUNTS_KEY} in {self.folder}. The operator puts it there.")
        return parts
