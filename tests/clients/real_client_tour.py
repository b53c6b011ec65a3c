"""What every client that others wrote is led through, and what it has to come home with.

Each client, in whatever language, goes the same way once for each backend behind the proxy and reports what each step
gave. The comments in the programs beside this file say nothing more: this is where the steps are described.
"""

from __future__ import annotations

from typing import Any

from tests.clients.site import BACKENDS, ROOTS

LISTS: dict[str, list[str]] = {
    "tools": sorted(f"{prefix}_echo" for prefix in BACKENDS),
    "prompts": sorted(f"{prefix}_{name}" for prefix in BACKENDS for name in ("asking", "greet")),
    "resources": sorted(uri for prefix in BACKENDS for uri in (f"doc://{prefix}/live", f"urn:{prefix}:x:1")),
    "templates": sorted(f"doc://{prefix}/items/{{id}}" for prefix in BACKENDS),
}
"""The first step: everything is listed, once, under public names and URIs."""


def steps(prefix: str) -> dict[str, Any]:
    """The steps at one backend, and what each gives."""
    live = f"doc://{prefix}/live"
    return {
        # a call with arguments; reading a listed resource, a binary one, and one of a template
        "echo": {"n": 1, "é": "日本"},
        "read": [[live, "text of doc://live"]],
        "blob": "AAEC",
        "expanded": "text of doc://items/7",
        # a prompt that links to a resource, and completions for its argument and for that of the template
        "prompt": ["Hello, Ada", live],
        "complete": [["xa", "xb"], ["xa", "xb"]],
        # being asked for a completion of a model, a form, a page to visit, roots; and three rounds of it in one call
        "sample": ["model-1", "endTurn", {"type": "text", "text": "not much"}],
        "form": ["accept", {"name": "Ada"}],
        "login": "accept",
        "roots": ROOTS,
        "rounds": ["Ada", 1, "accept"],
        # progress, log messages, an error with code and data
        "progress": [[number, 3, f"step {number}"] for number in (1, 2, 3)],
        "logs": [{"at": "start"}, "oh no"],
        "error": [-5, {"why": [1, None]}],
        # an update of a subscribed resource under its public URI; a change of all lists, and the new tool in its list
        "update": live,
        "changes": True,
    }


EXPECTED: dict[str, Any] = {"lists": LISTS, **{prefix: steps(prefix) for prefix in BACKENDS}}
