"""What a backend has: its lists, page by page, each item decoded one level deep and checked for what routing needs.

One malformed item hides nothing of its neighbours, a cursor that never ends is cut off, and both are reported.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from msgspec import Raw

from mcp_connections.mounts.report import CatalogNote
from mcp_connections.mounts.spec import BackendLimits
from mcp_connections.proxy.channels.channel import ProtocolViolation, TimedOut
from mcp_connections.proxy.upstream.session import UpstreamSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import HeaderMap, argument_headers
from mcp_connections.proxy.wire.jsonrpc import Envelope

Kind = Literal["tool", "resource", "resourceTemplate", "prompt"]

MAX_BYTES: Final = 64 * 1024 * 1024
"""Per list, of item text."""
MAX_NOTES: Final = 100


class Listing(NamedTuple):
    """How one kind of item is listed: method, member of the result, and the member that identifies an item."""

    kind: Kind
    capability: str
    method: str
    member: str
    identity: str


LISTINGS: Final = (
    Listing("tool", "tools", "tools/list", "tools", "name"),
    Listing("resource", "resources", "resources/list", "resources", "uri"),
    Listing("resourceTemplate", "resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    Listing("prompt", "prompts", "prompts/list", "prompts", "name"),
)


class Item(NamedTuple):
    """One item as the backend described it."""

    identity: str
    members: dict[str, Raw]


@dataclass(frozen=True)
class BackendCatalogue:
    """All that one backend offers, under its own names."""

    items: dict[Kind, tuple[Item, ...]] = field(default_factory=dict)
    notes: tuple[CatalogNote, ...] = ()
    digest: str = ""
    """Of the text as it came."""
    arguments_in_headers: Mapping[str, HeaderMap] = field(default_factory=dict)
    """Tools some of whose arguments are repeated in HTTP headers (``x-mcp-header``)."""


async def discover(session: UpstreamSession, seconds: float, limits: BackendLimits | None = None) -> BackendCatalogue:
    """List everything the backend says it has, all kinds in parallel. Raises ChannelError."""
    limits = limits or BackendLimits()
    wanted = [listing for listing in LISTINGS if listing.capability in session.capabilities]
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            tasks = [group.create_task(_list(session, listing, limits)) for listing in wanted]
    except TimeoutError:
        raise TimedOut(f"the lists were not complete within {seconds:g} s") from None
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    lists = [task.result() for task in tasks]
    digest = hashlib.sha256()
    for found in lists:
        for item in found.items:
            digest.update(jsonrpc.encode(item.members))
            digest.update(b"\n")
        digest.update(b"\n")
    return BackendCatalogue(
        items={found.listing.kind: tuple(found.items) for found in lists},
        notes=tuple(note for found in lists for note in found.notes),
        digest=digest.hexdigest(),
        arguments_in_headers={name: headers for found in lists for name, headers in found.headers.items()},
    )


class _List:
    """One list while its pages come in."""

    def __init__(self, listing: Listing, session: UpstreamSession, most: int) -> None:
        """``most``: items that are taken."""
        self.listing = listing
        self._most = most
        self._quote = session.quote
        self._mirrors = session.era == "stateless" and not session.shares_stream
        self.items: list[Item] = []
        self.notes: list[CatalogNote] = []
        self.headers: dict[str, HeaderMap] = {}
        self._known: set[str] = set()
        self._size = 0

    def note(self, name: str, reason: str, *, whole_list: bool = False) -> None:
        if len(self.notes) < MAX_NOTES:
            kind = "list" if whole_list else self.listing.kind
            self.notes.append(CatalogNote(kind=kind, name=name, reason=reason))

    def add(self, raw: Raw) -> bool:
        """Take one item; False once the list is full."""
        self._size += len(bytes(raw))
        if len(self.items) >= self._most or self._size > MAX_BYTES:
            self.note(
                self.listing.method,
                f"cut off after {len(self.items)} items: the limit is {self._most} items (spec.limits.listItems)"
                f" and {MAX_BYTES} bytes",
                whole_list=True,
            )
            return False
        try:
            members = jsonrpc.decode_envelope(raw)
            identity = jsonrpc.decode_str(members[self.listing.identity])
        except (jsonrpc.DecodeError, KeyError):
            self.note(self._quote(bytes(raw)), f"{self.listing.identity} is missing or no string")
            return True
        if (defect := _defect(self.listing.kind, members) or self._header_defect(identity, members)) is not None:
            self.note(identity, defect)
        elif identity in self._known:
            self.note(identity, "listed more than once by the backend; the first one is used")
        else:
            self._known.add(identity)
            self.items.append(Item(identity, members))
        return True

    def _header_defect(self, identity: str, members: dict[str, Raw]) -> str | None:
        """Note which arguments of a tool go into headers. Why the tool must not be served for it, or None: that is so
        only where there are such headers (basic/transports/streamable-http, Custom Headers from Tool Parameters)."""
        if self.listing.kind == "tool":
            try:
                if headers := argument_headers(members["inputSchema"]):
                    self.headers[identity] = headers
            except (ValueError, jsonrpc.DecodeError) as error:
                return str(error) if self._mirrors else None
        return None


async def _list(session: UpstreamSession, listing: Listing, limits: BackendLimits) -> _List:
    found = _List(listing, session, limits.list_items)
    seen: set[bytes] = set()
    cursor: Raw | None = None
    for _ in range(limits.list_pages):
        result = await _page(session, listing, cursor, found)
        if result is None:
            return found
        try:
            items = jsonrpc.decode_items(result.get(listing.member, Raw(b"[]")))
        except jsonrpc.DecodeError:
            found.note(listing.method, f"{listing.member} is no list", whole_list=True)
            return found
        if not all(found.add(item) for item in items):
            return found
        cursor = result.get("nextCursor")
        if cursor is None or bytes(cursor) == b"null":
            return found
        if bytes(cursor) in seen:
            found.note(listing.method, "the backend repeats a cursor; stopped there", whole_list=True)
            return found
        seen.add(bytes(cursor))
    found.note(
        listing.method,
        f"the backend has more than {limits.list_pages} pages; stopped there (spec.limits.listPages)",
        whole_list=True,
    )
    return found


async def _page(session: UpstreamSession, listing: Listing, cursor: Raw | None, found: _List) -> dict[str, Raw] | None:
    params = b"{}" if cursor is None else b'{"cursor":%s}' % bytes(cursor)
    request: Envelope = {
        "jsonrpc": jsonrpc.VERSION,
        "method": Raw(jsonrpc.encode(listing.method)),
        "params": Raw(params),
    }
    answer = await session.request(request)
    error = answer.get("error")
    if error is None:
        try:
            return jsonrpc.decode_envelope(answer.get("result", jsonrpc.NULL))
        except jsonrpc.DecodeError:
            raise ProtocolViolation(f"the answer to {listing.method} holds no result object") from None
    code, text = _error_of(error, session.quote)
    if code == jsonrpc.METHOD_NOT_FOUND or found.items:
        # Declaring a capability and lacking one of its lists (templates, mostly) is common; pages that
        # did arrive are worth having.
        if code != jsonrpc.METHOD_NOT_FOUND:
            found.note(listing.method, f"a further page failed: {text}", whole_list=True)
        return None
    raise ProtocolViolation(f"{listing.method} failed: {text}")


def _defect(kind: Kind, members: dict[str, Raw]) -> str | None:
    """Why an item cannot be served, or None (server/tools, resources and prompts: required members)."""
    if kind == "tool":
        schema = members.get("inputSchema")
        if schema is None:
            return "inputSchema is missing"
        if not bytes(schema).lstrip().startswith(b"{"):
            return "inputSchema is no object"
    if kind in ("resource", "resourceTemplate") and "name" not in members:
        return "name is missing"
    return None


def _error_of(raw: Raw, quote: Callable[[bytes], str]) -> tuple[int | None, str]:
    try:
        error = jsonrpc.decode_any(raw)
    except jsonrpc.DecodeError:
        error = None
    if not isinstance(error, dict):
        return None, "the error is malformed"
    code = error.get("code")
    said = quote(str(error.get("message")).encode("utf-8", "replace"))
    return (code if isinstance(code, int) else None), f"{said} ({code})"
