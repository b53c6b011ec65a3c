"""The public catalogue: every mount's items under public names and URIs, serialised once per change.

A list request costs a dictionary look-up and a splice. Who owns a public name is a matter of this table, never of
splitting the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import Raw

from mcp_connections.mounts.naming import full_name, name_notice, public_name
from mcp_connections.mounts.report import CatalogNote
from mcp_connections.mounts.uris import public_uri, split_public_uri
from mcp_connections.proxy import jsonrpc
from mcp_connections.proxy.discovery import LISTINGS, BackendCatalogue, Item, Kind

CHANGE_OF: Final[dict[Kind, str]] = {
    "tool": "tools",
    "resource": "resources",
    "resourceTemplate": "resources",
    "prompt": "prompts",
}
"""Which ``notifications/*/list_changed`` tells of a change in a kind."""

Owner = TypeVar("Owner")


class PublicItem(NamedTuple):
    """One item as clients see it."""

    identity: str
    """Public name or URI."""
    own: str
    """The backend's name or URI for it."""
    body: bytes


@dataclass(frozen=True)
class PublicCatalogue:
    """One mount's contribution."""

    items: dict[Kind, tuple[PublicItem, ...]] = field(default_factory=dict)
    skipped: tuple[CatalogNote, ...] = ()
    notices: tuple[CatalogNote, ...] = ()
    digest: str = ""


def publish(catalogue: BackendCatalogue, prefix: str, separator: str) -> PublicCatalogue:
    """The backend's items under the mount's prefix; all members but names and URIs stay as they are."""
    notices: list[CatalogNote] = []
    items: dict[Kind, tuple[PublicItem, ...]] = {}
    for kind, own in catalogue.items.items():
        if kind in ("tool", "prompt"):
            items[kind] = tuple(_named(kind, item, prefix, separator, notices) for item in own)
        else:
            items[kind] = tuple(_located(kind, item, prefix) for item in own)
    skipped = tuple(note for note in catalogue.notes if note.kind != "list")
    notices.extend(note for note in catalogue.notes if note.kind == "list")
    return PublicCatalogue(items, skipped, tuple(notices), catalogue.digest)


def _named(kind: Kind, item: Item, prefix: str, separator: str, notices: list[CatalogNote]) -> PublicItem:
    name = public_name(prefix, separator, item.identity)
    if (notice := name_notice(name, full_name(prefix, separator, item.identity))) is not None:
        notices.append(CatalogNote(kind=kind, name=name, reason=notice))
    members = dict(item.members)
    members["name"] = Raw(jsonrpc.encode(name))
    if (meta := members.get("_meta")) is not None:
        members["_meta"] = _public_meta(meta, prefix)
    return PublicItem(name, item.identity, jsonrpc.encode(members))


def _located(kind: Kind, item: Item, prefix: str) -> PublicItem:
    uri = public_uri(prefix, item.identity)
    members = dict(item.members)
    members["uri" if kind == "resource" else "uriTemplate"] = Raw(jsonrpc.encode(uri))
    return PublicItem(uri, item.identity, jsonrpc.encode(members))


def _public_meta(raw: Raw, prefix: str) -> Raw:
    """MCP Apps (SEP-1865) name a tool's view by URI in ``_meta``; it must be one the client can read."""
    if b"ui://" not in bytes(raw):
        return raw
    try:
        meta = jsonrpc.decode_envelope(raw)
        for flat in ("ui/resourceUri", "openai/outputTemplate"):
            if flat in meta:
                meta[flat] = Raw(jsonrpc.encode(public_uri(prefix, jsonrpc.decode_str(meta[flat]))))
        if "ui" in meta:
            view = jsonrpc.decode_envelope(meta["ui"])
            if "resourceUri" in view:
                view["resourceUri"] = Raw(jsonrpc.encode(public_uri(prefix, jsonrpc.decode_str(view["resourceUri"]))))
                meta["ui"] = Raw(jsonrpc.encode(view))
    except jsonrpc.DecodeError:
        return raw
    return Raw(jsonrpc.encode(meta))


class Target(NamedTuple, Generic[Owner]):
    """Where a public name or URI leads: the mount, and the backend's own name or URI."""

    owner: Owner
    own: str


class Aggregate(Generic[Owner]):
    """All mounts' items together. Immutable; a change makes a new one."""

    def __init__(self, sources: Sequence[tuple[Owner, str, PublicCatalogue]]) -> None:
        """``sources``: owner, prefix and contribution, oldest first; the first to claim a name keeps it."""
        self.targets: dict[Kind, dict[str, Target[Owner]]] = {listing.kind: {} for listing in LISTINGS}
        self.results: dict[Kind, bytes] = {}
        self.clashes: list[tuple[Owner, CatalogNote, Owner]] = []
        """Items left out because an older mount has the same public name: whose, what, and who has it."""
        self._prefixes: dict[str, Owner] = {}
        self._unprefixed: list[Owner] = []
        for owner, prefix, public in sources:
            if prefix:
                self._prefixes.setdefault(prefix, owner)
            elif public.items.get("resource") or public.items.get("resourceTemplate"):
                self._unprefixed.append(owner)
        for listing in LISTINGS:
            bodies = list(self._claim(listing.kind, sources))
            self.results[listing.kind] = b'{"%s":[%s]}' % (listing.member.encode(), b",".join(bodies))

    def _claim(self, kind: Kind, sources: Iterable[tuple[Owner, str, PublicCatalogue]]) -> Iterable[bytes]:
        targets = self.targets[kind]
        for owner, _, public in sources:
            for item in public.items.get(kind, ()):
                holder = targets.setdefault(item.identity, Target(owner, item.own))
                if holder.owner is owner and holder.own == item.own:
                    yield item.body
                else:
                    note = CatalogNote(kind=kind, name=item.identity, reason="the public name is taken")
                    self.clashes.append((owner, note, holder.owner))

    def locate(self, uri: str) -> Target[Owner] | None:
        """The mount that serves a public URI, listed or not, and the URI the backend knows it by."""
        if (listed := self.targets["resource"].get(uri)) is not None:
            return listed
        if (mapped := split_public_uri(uri)) is not None and (owner := self._prefixes.get(mapped[0])) is not None:
            return Target(owner, mapped[1])
        return Target(self._unprefixed[0], uri) if self._unprefixed else None

    def changes_from(self, before: Aggregate[Owner]) -> set[str]:
        """Which lists (tools, resources, prompts) differ."""
        return {CHANGE_OF[kind] for kind, body in self.results.items() if before.results[kind] != body}
