"""The public catalogue: every mount's items under public names and URIs, serialised once per change.

A list request costs a dictionary look-up and a splice. Who owns a public name is a matter of this table, never of
splitting the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar

from msgspec import Raw

from mcp_connections.mounts.naming import full_name, name_notice, public_name
from mcp_connections.mounts.report import CatalogNote
from mcp_connections.mounts.uris import public_uri, split_public_uri
from mcp_connections.proxy.catalogue.discovery import LISTINGS, Item, Kind
from mcp_connections.proxy.catalogue.selecting import SelectedCatalogue
from mcp_connections.proxy.wire import jsonrpc

CHANGE_OF: Final[dict[Kind, str]] = {
    "tool": "tools",
    "resource": "resources",
    "resourceTemplate": "resources",
    "prompt": "prompts",
}
"""Which ``notifications/*/list_changed`` tells of a change in a kind."""

NO_NEW_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

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
    may_read: Callable[[str], bool] | None = None
    """Whether a URI that is not listed may be asked for, by the backend's own spelling. None: any."""
    lists_resources: bool = False
    """The backend has resources or templates, shown or hidden."""


def publish(
    catalogue: SelectedCatalogue, prefix: str, separator: str, rename: Mapping[str, str] = NO_NEW_NAMES
) -> PublicCatalogue:
    """The backend's items under the mount's prefix; all members but names and URIs stay as they are.

    ``rename``: the names of some tools, by the backend's own.
    """
    notices = list(catalogue.notices)
    skipped: list[CatalogNote] = []
    items: dict[Kind, tuple[PublicItem, ...]] = {}
    for kind, own in catalogue.items.items():
        if kind in ("tool", "prompt"):
            names = _renamed(own, rename if kind == "tool" else NO_NEW_NAMES, skipped)
            items[kind] = tuple(
                _named(kind, item, names[item.identity], prefix, separator, notices)
                for item in own
                if item.identity in names
            )
        else:
            items[kind] = tuple(_located(kind, item, prefix) for item in own)
    return PublicCatalogue(
        items=items,
        skipped=(*skipped, *catalogue.skipped),
        notices=tuple(notices),
        may_read=catalogue.may_read,
        lists_resources=catalogue.lists_resources,
    )


def _renamed(items: Sequence[Item], rename: Mapping[str, str], skipped: list[CatalogNote]) -> dict[str, str]:
    """The name of each item without the prefix. One that was given another item's name has none: of two that claim a
    name, the one keeps it whose own it is, then the one whose own name sorts first."""
    holders = {item.identity: item.identity for item in items if item.identity not in rename}
    for own in sorted(item.identity for item in items if item.identity in rename):
        holder = holders.setdefault(rename[own], own)
        if holder != own:
            reason = (
                f"spec.tools.rename calls it {rename[own]!r}, and the backend's tool {holder!r} is called that already."
                " Choose another name, or rename or exclude the other tool."
            )
            skipped.append(CatalogNote(kind="tool", name=own, reason=reason))
    return {own: name for name, own in holders.items()}


def _named(
    kind: Kind, item: Item, own_or_new: str, prefix: str, separator: str, notices: list[CatalogNote]
) -> PublicItem:
    name = public_name(prefix, separator, own_or_new)
    if (notice := name_notice(name, full_name(prefix, separator, own_or_new))) is not None:
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
        self._prefixes: dict[str, tuple[Owner, PublicCatalogue]] = {}
        self._unprefixed: list[tuple[Owner, PublicCatalogue]] = []
        for owner, prefix, public in sources:
            if prefix:
                self._prefixes.setdefault(prefix, (owner, public))
            elif public.lists_resources:
                self._unprefixed.append((owner, public))
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
        """The mount that serves a public URI, listed or not, and the URI the backend knows it by; None where there is
        none, or it hides that URI."""
        if (listed := self.targets["resource"].get(uri)) is not None:
            return listed
        if (mapped := split_public_uri(uri)) is not None and (place := self._prefixes.get(mapped[0])) is not None:
            owner, public = place
            return Target(owner, mapped[1]) if public.may_read is None or public.may_read(mapped[1]) else None
        for owner, public in self._unprefixed:
            if public.may_read is None or public.may_read(uri):
                return Target(owner, uri)
        return None

    def changes_from(self, before: Aggregate[Owner]) -> set[str]:
        """Which lists (tools, resources, prompts) differ."""
        return {CHANGE_OF[kind] for kind, body in self.results.items() if before.results[kind] != body}
