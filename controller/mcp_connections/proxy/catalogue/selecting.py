"""The part of a backend's catalogue that may be shown: selected once for each change, never for each call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_connections.mounts.patterns import MAX_TEXT
from mcp_connections.mounts.report import CatalogNote
from mcp_connections.mounts.selection import MAX_TEMPLATE_TEXT, ResourceSelector, Selector
from mcp_connections.mounts.spec import MountSpec
from mcp_connections.proxy.catalogue.catalogue_hash import INSTRUCTIONS, Part, digest, hash_of
from mcp_connections.proxy.catalogue.discovery import BackendCatalogue, Item, Kind, discover
from mcp_connections.proxy.upstream.session import UpstreamSession
from mcp_connections.proxy.wire import jsonrpc
from mcp_connections.proxy.wire.envelope import HeaderMap

_FIELD_OF: Final[dict[Kind, str]] = {
    "tool": "tools",
    "resource": "resources",
    "resourceTemplate": "resources",
    "prompt": "prompts",
}


@dataclass(frozen=True)
class SelectedCatalogue:
    """What of one backend may be shown, under its own names."""

    source: tuple[object, ...]
    """What it was made from; compared only."""
    items: dict[Kind, tuple[Item, ...]]
    skipped: tuple[CatalogNote, ...]
    notices: tuple[CatalogNote, ...]
    instructions: str | None
    arguments_in_headers: Mapping[str, HeaderMap]
    digests: Mapping[Part, bytes]
    hash: str
    """Over the items and the instructions; what is hidden, or only named otherwise, does not count."""
    may_read: Callable[[str], bool] | None
    """Whether a URI that is not listed may be asked for, by the backend's own spelling. None: any."""
    lists_resources: bool
    """The backend has resources or templates, shown or hidden."""

    def is_like(self, other: SelectedCatalogue) -> bool:
        """Whether a client sees the same, but for the order of items and the spelling of their JSON."""
        return (self.hash, self.skipped, self.notices) == (other.hash, other.skipped, other.notices)


async def read_selected(
    session: UpstreamSession, spec: MountSpec, seconds: float, before: SelectedCatalogue | None
) -> SelectedCatalogue:
    """Read the backend's lists and select; the very same object as ``before`` if nothing changed for clients.

    Raises ChannelError.
    """
    found = await discover(session, seconds, spec.limits)
    source = (found.digest, found.notes, session.instructions)
    if before is not None and before.source == source:
        return before
    # Tens of thousands of items with large schemas take seconds, which calls to other backends do not have.
    selected = await asyncio.to_thread(select, found, spec, session.instructions)
    return before if before is not None and before.is_like(selected) else selected


def select(found: BackendCatalogue, spec: MountSpec, instructions: str | None) -> SelectedCatalogue:
    """Apply the patterns of ``spec`` to what a backend has."""
    templates = [item.identity for item in found.items.get("resourceTemplate", ())]
    selectors: dict[str, Selector] = {
        "tools": Selector(spec.tools),
        "prompts": Selector(spec.prompts),
        "resources": (resources := ResourceSelector(spec.resources, templates)),
    }
    shown_templates = frozenset(resources.shown_templates)
    items: dict[Kind, tuple[Item, ...]] = {}
    skipped = [note for note in found.notes if note.kind != "list"]
    for kind, all_of_kind in found.items.items():
        selector = selectors[_FIELD_OF[kind]]
        shows = shown_templates.__contains__ if kind == "resourceTemplate" else selector.shows
        items[kind] = tuple(item for item in all_of_kind if shows(item.identity))
        if not selector.shows_all:
            skipped += _overlong(kind, all_of_kind)
    skipped += _surplus(resources.surplus_templates)
    digests = {
        Part(kind, item.identity): digest(jsonrpc.encode(item.members)) for kind, few in items.items() for item in few
    }
    if instructions:
        digests[Part(INSTRUCTIONS)] = digest(jsonrpc.encode(instructions))
    tools = frozenset(item.identity for item in items.get("tool", ()))
    return SelectedCatalogue(
        source=(found.digest, found.notes, instructions),
        items=items,
        skipped=tuple(skipped),
        notices=(
            *_unused(selectors, found),
            *_unused_names(spec.tools.rename, tools, found),
            *(note for note in found.notes if note.kind == "list"),
        ),
        instructions=instructions,
        arguments_in_headers=found.arguments_in_headers,
        digests=digests,
        hash=hash_of(digests),
        may_read=None if resources.shows_all else resources.may_read,
        lists_resources=any(found.items.get(kind) for kind in ("resource", "resourceTemplate")),
    )


def _unused(selectors: Mapping[str, Selector], found: BackendCatalogue) -> Iterable[CatalogNote]:
    kinds: tuple[tuple[Kind, str, str], ...] = (
        ("tool", "tools", "no tool of the backend"),
        ("resource", "resources", "no resource or resource template that the backend lists"),
        ("prompt", "prompts", "no prompt of the backend"),
    )
    for kind, field, nothing in kinds:
        names = [item.identity for each in found.items if _FIELD_OF[each] == field for item in found.items[each]]
        for list_name, pattern in selectors[field].unused(names):
            reason = f"spec.{field}.{list_name}: the pattern matches {nothing}. Correct or remove it."
            yield CatalogNote(kind=kind, name=pattern, reason=reason)


def _unused_names(rename: Mapping[str, str], shown: frozenset[str], found: BackendCatalogue) -> Iterable[CatalogNote]:
    for own in sorted(frozenset(rename) - shown):
        there = any(item.identity == own for item in found.items.get("tool", ()))
        what = "is hidden by include or exclude" if there else "is none that the backend has"
        reason = f"spec.tools.rename: the tool {what}. Correct or remove the entry."
        yield CatalogNote(kind="tool", name=own, reason=reason)


def _overlong(kind: Kind, items: Sequence[Item]) -> Iterable[CatalogNote]:
    for item in items:
        if len(item.identity) > MAX_TEXT:
            reason = f"hidden: include and exclude match no more than {MAX_TEXT} characters"
            yield CatalogNote(kind=kind, name=item.identity, reason=reason)


def _surplus(templates: Iterable[str]) -> Iterable[CatalogNote]:
    for each in templates:
        reason = f"hidden: all templates before it have {MAX_TEMPLATE_TEXT} characters, the most that can be filtered"
        yield CatalogNote(kind="resourceTemplate", name=each, reason=reason)
