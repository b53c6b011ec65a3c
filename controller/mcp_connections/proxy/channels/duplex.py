"""What the transports have in common whose answers arrive on one inbound path: stdio, WebSocket, legacy SSE.

Requests wait here for the message with their id; everything else the backend says goes to ``on_message``. The life
of the transport is here too: one attempt to connect, at most one loss, one close that always comes to its end.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from abc import abstractmethod
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mcp_connections.proxy.channels.attribution import EDGE, answered_id
from mcp_connections.proxy.channels.channel import (
    Channel,
    ChannelError,
    MessageHandler,
    ProtocolViolation,
    TimedOut,
    Unreachable,
)
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.wire.jsonrpc import DecodeError, Envelope, as_utf8, decode_envelope, int_id, is_response

log = logging.getLogger(__name__)

MESSAGE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one message."""
MAX_PENDING: Final = 4096
"""Exchanges waiting at one time on one channel."""
WRITE_SECONDS: Final = 10.0
"""How long a message may wait for a peer that does not read."""

_CLOSED: Final = "the proxy closed this session"
_LOGGED_AT_ONCE: Final = 5
_LOG_INTERVAL: Final = 60.0


class DuplexChannel(Channel):
    """A channel with one inbound path. Subclasses connect, transmit and disconnect; they call ``receive`` for each
    inbound message and ``lose`` when the transport ends. A channel is used once: it cannot be opened again."""

    def __init__(
        self, *, connection: str, place: str, connect_timeout: float, message_limit: int, redactor: Redactor
    ) -> None:
        self.on_message = _ignore
        self.on_lost = _ignore
        self._where = f"connection {connection}: {place}"
        self._connect_timeout = connect_timeout
        self._message_limit = message_limit
        self.redactor = redactor
        self._pending: dict[int, asyncio.Future[Envelope]] = {}
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._opened = False
        self._lost: ChannelError | None = None
        self._skipped = 0
        self._unlogged = 0
        self._log_again = 0.0

    # what a transport does

    @abstractmethod
    async def _connect(self) -> None:
        """Connect and start receiving. Raises ChannelError. May be cancelled."""

    @abstractmethod
    async def _transmit(self, body: bytes) -> None:
        """Hand one message to the transport, within WRITE_SECONDS. Raises ChannelError."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Release all that ``_connect``, complete or not, has acquired."""

    @property
    def skipped(self) -> int:
        """How many inbound messages were not JSON-RPC and have been skipped."""
        return self._skipped

    # connecting

    async def open(self) -> None:
        self._refuse_if_over()
        if self._opening is not None:
            raise RuntimeError(f"{self._where}: a channel is opened once")
        self._opening = asyncio.create_task(self._connect(), name=f"{self._where}: open")
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._opening
            self._refuse_if_over()
            self._opened = True
        except TimeoutError:
            raise TimedOut(
                f"{self._where}: not ready within {self._connect_timeout:g} s; check that it is up, or allow it more"
                " time to connect",
                executed=False,
            ) from None
        except asyncio.CancelledError:
            # Either the caller was cancelled, or the channel was closed or lost meanwhile.
            if not _current_task_is_cancelled():
                self._refuse_if_over()
            raise
        finally:
            if not self._opened:
                closing = self._begin_close()
                if not _current_task_is_cancelled():
                    await asyncio.shield(closing)

    # messages out

    async def exchange(
        self, request_id: int, body: bytes, on_message: MessageHandler, headers: bytes = b""
    ) -> Envelope:
        with self._answer_to(request_id) as answer:
            await self._transmit(body)
            return await answer

    async def send(self, body: bytes) -> None:
        self._refuse_unless_open()
        await self._transmit(body)

    @contextmanager
    def _answer_to(self, request_id: int) -> Iterator[asyncio.Future[Envelope]]:
        """Expect the response to a request for as long as the block lasts."""
        self._refuse_unless_open()
        if request_id in self._pending:
            raise ValueError(f"{self._where}: request id {request_id} is in use")
        if len(self._pending) >= MAX_PENDING:
            raise Unreachable(
                f"{self._where}: {MAX_PENDING} requests are waiting for an answer already; try again later",
                executed=False,
            )
        answer = self._pending[request_id] = asyncio.get_running_loop().create_future()
        try:
            yield answer
        finally:
            self._pending.pop(request_id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # the block may have failed before it looked at the answer

    def _refuse_unless_open(self) -> None:
        self._refuse_if_over()
        if not self._opened:
            raise Unreachable(f"{self._where}: the channel is not open", executed=False)

    def _refuse_if_over(self, *, executed: bool = False) -> None:
        """Raise why the channel has ended, if it has. ``executed``: a message may have reached the backend before."""
        if self._lost is not None:
            fault = copy.copy(self._lost)
            fault.executed = executed
            raise fault
        if self._closing is not None:
            raise Unreachable(f"{self._where}: {_CLOSED}", executed=executed)

    # messages in

    def receive(self, raw: bytes) -> None:
        """Take one inbound message. Never raises: whatever is wrong with it concerns at most one exchange."""
        if self._closing is not None:
            return
        try:
            message = decode_envelope(as_utf8(raw))
        except (DecodeError, RecursionError) as error:
            if not self._fail_answered(raw[:EDGE], raw[-EDGE:], f"the answer is not valid JSON ({error})"):
                self._skip(raw)
            return
        if "jsonrpc" not in message or not ("method" in message or is_response(message)):
            self._skip(raw)
        elif is_response(message):
            self._resolve(message)
        else:
            try:
                self.on_message(message)
            except Exception:
                log.exception("%s: a message could not be handled", self._where)

    def receive_oversized(self, head: bytes, tail: bytes, size: int) -> None:
        """Take note of a message that was over the limit, of which only both ends are left."""
        text = f"the answer has {size} bytes, more than the limit of {self._message_limit}; ask the tool for less"
        if not self._fail_answered(head, tail, text):
            self._skip(head)

    def _resolve(self, message: Envelope) -> None:
        request_id = int_id(message)
        answer = self._waiting_for(request_id)
        if answer is not None:
            answer.set_result(message)
            return
        log.debug("%s: dropped the response to a request that is not waited for", self._where)
        if request_id is not None:
            self.on_late(request_id)

    def _fail_answered(self, head: bytes, tail: bytes, text: str) -> bool:
        answer = self._waiting_for(answered_id(head, tail))
        if answer is None:
            return False
        answer.set_exception(ProtocolViolation(f"{self._where}: {text}"))
        return True

    def _waiting_for(self, request_id: int | None) -> asyncio.Future[Envelope] | None:
        answer = None if request_id is None else self._pending.get(request_id)
        return None if answer is None or answer.done() else answer

    def _skip(self, raw: bytes) -> None:
        self._skipped += 1
        self._unlogged += 1
        now = asyncio.get_running_loop().time()
        if self._skipped > _LOGGED_AT_ONCE and now < self._log_again:
            return
        self._log_again = now + _LOG_INTERVAL
        log.warning(
            "%s: skipped %d inbound message(s) that are not JSON-RPC, %d so far; the last: %r",
            self._where,
            self._unlogged,
            self._skipped,
            self.redactor.excerpt(raw),
        )
        self._unlogged = 0

    # the end

    def lose(self, fault: ChannelError) -> None:
        """The transport ended by itself: fail what is pending, release everything, tell the session."""
        if self._lost is not None or self._closing is not None:
            return
        self._lost = fault
        self._fail_pending(fault)
        self._begin_close()
        if not self._opened:
            return  # open() raises it
        try:
            self.on_lost(fault)
        except Exception:
            log.exception("%s: the loss could not be handled", self._where)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what receives or watches. It must not fail, so a failure ends the channel rather than hang it."""
        task = asyncio.create_task(work, name=self._where)
        task.add_done_callback(self._background_ended)
        return task

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: receiving failed", self._where, exc_info=error)
            self.lose(Unreachable(f"{self._where}: receiving failed in the proxy ({type(error).__name__})"))

    async def aclose(self) -> None:
        # Shielded: a caller that is cancelled leaves the close running, and a second call waits for it.
        await asyncio.shield(self._begin_close())

    def _begin_close(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._fail_pending(Unreachable(f"{self._where}: {_CLOSED}"))
            self._closing = asyncio.create_task(self._close(), name=f"{self._where}: close")
        return self._closing

    async def _close(self) -> None:
        try:
            if self._opening is not None and not self._opening.done():
                self._opening.cancel()
                await asyncio.wait({self._opening}, timeout=WRITE_SECONDS)
            await self._disconnect()
        except Exception:
            log.exception("%s: closing failed", self._where)

    def _fail_pending(self, fault: ChannelError) -> None:
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(copy.copy(fault))


def _ignore(_: object) -> None:
    """What an unset callback does."""


def _current_task_is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
