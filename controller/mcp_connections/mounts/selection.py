"""Which of a backend's items clients may see: include and exclude patterns, decided item by item.

For tools and prompts that is their names' affair. A resource can be asked for by any spelling of its URI and through
any template that leads to it, so what is hidden has to stay hidden however it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from mcp_connections.mounts.patterns import MAX_TEXT, Patterns, glob, template
from mcp_connections.mounts.spec import Selection

MAX_TEMPLATE_TEXT: Final = 50_000
"""Characters of all templates that requests are compared with. Templates beyond that are hidden."""

_DOTS: Final = frozenset({".", ".."})
_SCHEME: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:(//)?|//")


class UnusedPattern(NamedTuple):
    """A pattern that matches nothing the backend has."""

    list_name: Literal["include", "exclude"]
    pattern: str


class Selector:
    """The include and exclude patterns of one kind of item."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self.includes = Patterns(map(glob, selection.include))
        self.excludes = Patterns(map(glob, selection.exclude))

    @property
    def shows_all(self) -> bool:
        """There are no patterns."""
        return not self.includes and not self.excludes

    def shows(self, name: str) -> bool:
        """Whether a tool or prompt is shown: one that an include pattern matches, or any without such patterns, and
        no exclude pattern. A name of more than 4096 characters is not."""
        if self.shows_all:
            return True
        return len(name) <= MAX_TEXT and not self.excludes.matches(name) and self._includes(name)

    def _includes(self, name: str) -> bool:
        return not self.includes or self.includes.matches(name)

    def unused(self, names: Sequence[str]) -> list[UnusedPattern]:
        """The patterns that match none of ``names``, in the order of the manifest."""
        unused = []
        lists: tuple[tuple[Literal["include", "exclude"], tuple[str, ...], Patterns], ...] = (
            ("include", self._selection.include, self.includes),
            ("exclude", self._selection.exclude, self.excludes),
        )
        for list_name, texts, patterns in lists:
            used = patterns.used_by(names)
            unused += [UnusedPattern(list_name, text) for text, is_used in zip(texts, used, strict=True) if not is_used]
        return unused


class ResourceSelector(Selector):
    """The same for resources and the URI templates beside them."""

    def __init__(self, selection: Selection, templates: Sequence[str]) -> None:
        super().__init__(selection)
        self.shown_templates: list[str] = []
        self.surplus_templates: list[str] = []
        """Hidden because there is too much text to compare requests with."""
        excluded: list[str] = []
        size = 0
        for each in templates:
            size += len(each)
            if size > MAX_TEMPLATE_TEXT and not self.shows_all:
                self.surplus_templates.append(each)
            elif super().shows(each):
                self.shown_templates.append(each)
            elif self.excludes.matches(each):
                excluded.append(each)
        shown = frozenset(self.shown_templates)
        self._hidden_templates = frozenset(each for each in templates if each not in shown)
        self._leading_in = Patterns(map(template, () if self.shows_all else self.shown_templates))
        self._leading_out = Patterns(map(template, excluded))

    def shows(self, uri: str) -> bool:
        """Whether a resource is shown: no exclude pattern matches its URI, however that is spelled, and an include
        pattern or a template that is shown does, if there are include patterns."""
        if self.shows_all:
            return True
        if len(uri) > MAX_TEXT:
            return False
        spellings = _Spellings(uri)
        if any(map(self.excludes.matches, spellings)):
            return False
        return all(map(self._leads_in, spellings.binding))

    def _leads_in(self, uri: str) -> bool:
        return self._includes(uri) or self._leading_in.matches(uri)

    def may_read(self, uri: str) -> bool:
        """Whether a client may ask for a URI that is not listed: one that could be shown, and is not of an excluded
        template only. Costs time in proportion to the length of the URI."""
        if uri in self._hidden_templates or not self.shows(uri):
            return False
        return not self._leading_out.matches(uri) or self._leading_in.matches(uri)


class _Spellings:
    """What a server may take a URI for, beside what it says: escapes decoded, ``..`` resolved, the fragment dropped
    (RFC 3986, sections 5.2.4 and 6.2). Iterates over all of them."""

    def __init__(self, uri: str) -> None:
        self._all: tuple[str, ...] = (uri,)
        self.binding: tuple[str, ...] = (uri,)
        """Those that have to be included: without ``.`` and ``..`` the URI itself is, whatever else it may be."""
        head, rest = _split(uri)
        if _is_plain(head, rest):
            return
        self._all = tuple(dict.fromkeys((uri, *_resolved(head, rest), *_resolved(head, rest.partition("#")[0]))))
        if not _DOTS.isdisjoint(re.split("[/?#]", unquote(rest))):
            self.binding = self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)


def _split(uri: str) -> tuple[str, str]:
    """The scheme, with the slashes behind it, and the rest."""
    end = match.end() if (match := _SCHEME.match(uri)) else 0
    return uri[:end], uri[end:]


def _is_plain(head: str, rest: str) -> bool:
    """Whether there is but one way to read it: so it is with almost every URI, and they are read often."""
    return head == head.lower() and rest[:1] != "." and not any(mark in rest for mark in ("%", "#", "/.", "//"))


def _resolved(head: str, rest: str) -> Iterator[str]:
    head = head.lower()
    path, question, query = rest.partition("?")
    for end, tail in ((path, question + query), (rest, "")):
        segments = unquote(end).split("/")
        tail = unquote(tail)
        # What a custom scheme has behind its slashes may be an authority or the beginning of the path.
        below = _joined(segments[1:], rooted=True) if segments[1:] else ""
        yield f"{head}{segments[0]}{below}{tail}"
        yield f"{head}{_joined(segments, rooted=not segments[0] and len(segments) > 1)}{tail}"


def _joined(segments: list[str], *, rooted: bool) -> str:
    """The path without empty segments, ``.`` and ``..``."""
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment and segment != ".":
            kept.append(segment)
    closed = bool(kept) and (not segments[-1] or segments[-1] in _DOTS)
    return f"{'/' if rooted else ''}{'/'.join(kept)}{'/' if closed else ''}"
