"""A folder that is watched: a new state soon after every change.

Notifications of the operating system make it fast, looking again makes it sure: they tell nothing of a file behind a
symbolic link that leads elsewhere, of a directory that was itself replaced, or on file systems without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar, cast

from watchfiles import awatch

from mcp_connections.folder.reader import Folder, FolderState, Signature

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.1
"""How long a directory has to be at rest before it is read, so that a half-written file is not."""
MAX_SETTLE_SECONDS = 0.4
"""A directory that never rests is read after this time."""
LOOK_SECONDS = 0.4
"""How often the directory is looked at without a notification."""
READ_TIMEOUT_SECONDS = 30.0

_GROUP_MILLISECONDS = 20

_T = TypeVar("_T")


async def watch_folder(folder: Folder, *, stop: asyncio.Event | None = None) -> AsyncGenerator[FolderState, None]:
    """The state of ``folder`` now, then a new one after every change of what its files hold or of what is wrong with
    them. Ends when ``stop`` is set. Reading is done in threads.

    Raises TimeoutError if the file system does not answer within 30 s.
    """
    stop = stop or asyncio.Event()
    signature = await _in_thread(folder.signature)
    state = await _in_thread(partial(_read, folder, None))
    assert state is not None, "the first state differs from none"
    yield state
    async with aclosing(_wakeups(folder, stop)) as wakeups:
        async for notified in wakeups:
            now = await _in_thread(folder.signature)
            if now == signature and not notified:
                continue
            signature = await _settled(folder, now)
            if fresh := await _in_thread(partial(_read, folder, state)):
                state = fresh
                yield state


def _read(folder: Folder, former: FolderState | None) -> FolderState | None:
    """The present state; None if it equals the former one."""
    state = folder.read()
    return None if state == former else state


async def _settled(folder: Folder, signature: Signature) -> Signature:
    """The signature once it has stayed the same for a while."""
    for _ in range(round(MAX_SETTLE_SECONDS / SETTLE_SECONDS)):
        await asyncio.sleep(SETTLE_SECONDS)
        now = await _in_thread(folder.signature)
        if now == signature:
            break
        signature = now
    return signature


async def _in_thread(work: Callable[[], _T]) -> _T:
    async with asyncio.timeout(READ_TIMEOUT_SECONDS):
        return await asyncio.to_thread(work)


class _Stop:
    """What watchfiles takes for the stop event. It sets it when its task is cancelled, which must not reach the
    caller's event."""

    def __init__(self, outer: asyncio.Event) -> None:
        self._outer = outer
        self._cancelled = False

    def is_set(self) -> bool:
        return self._cancelled or self._outer.is_set()

    def set(self) -> None:
        self._cancelled = True


async def _wakeups(folder: Folder, stop: asyncio.Event) -> AsyncGenerator[bool, None]:
    """True on a notification, False when it is time to look anyway."""
    try:
        notifications = awatch(
            folder.path,
            watch_filter=None,
            debounce=_GROUP_MILLISECONDS,
            step=_GROUP_MILLISECONDS,
            stop_event=cast("asyncio.Event", _Stop(stop)),
            rust_timeout=int(LOOK_SECONDS * 1000),
            yield_on_timeout=True,
            force_polling=False,
            recursive=False,
        )
        async with aclosing(notifications):
            async for changes in notifications:
                yield bool(changes)
    except (OSError, RuntimeError, ExceptionGroup) as error:
        cause = _cause(error)
        if not isinstance(cause, OSError | RuntimeError):
            raise
        log.warning("No notifications of changes in %s (%s): looking every %s s.", folder.path, cause, LOOK_SECONDS)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
        yield False


def _cause(error: Exception) -> Exception:
    """What went wrong in the task that waits for notifications, which watchfiles runs in a group of its own."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
