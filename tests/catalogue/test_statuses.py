"""What status says of catalogues that replicas withhold."""

from __future__ import annotations

from typing import Any

from mcp_connections.mounts.conditions import connection_status
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.report import CatalogReport, MountReport
from mcp_connections.operator.events import transitions
from tests.mounts.resources import at, conditions_of, connection, failing, messages_of, mounted, proxy, report

PIN = "a" * 64
SEEN = "b" * 64
SUBJECT = connection("a", catalog={"pin": PIN})
DESIRED = desired_mounts(proxy(), [SUBJECT], {}, "Cluster")
SPEC = DESIRED.mounts[0]
WITHHELD = failing(
    SPEC,
    "CatalogChanged",
    f"The hash is {SEEN}.",
    phase="Discover",
    catalog=CatalogReport(tools=2, hash=SEEN, names=("a", "b")),
    last_error=None,
    next_retry=None,
)


def status(*mounts: MountReport) -> dict[str, Any]:
    return connection_status(SUBJECT, DESIRED, [report(mount) for mount in mounts], None, at(100))


def test_a_pin_is_part_of_what_is_mounted() -> None:
    assert SPEC.catalog.pin == PIN
    (other,) = desired_mounts(proxy(), [connection("a")], {}, "Cluster").mounts
    assert other.catalog.pin is None
    assert other.fingerprint != SPEC.fingerprint


def test_a_selection_is_part_of_what_is_mounted() -> None:
    tools = {"include": ["a*"], "exclude": ["b"], "rename": {"a": "c"}}
    subject = connection("a", tools=tools, resources={"exclude": ["x"]}, prompts={"include": ["y"]})
    (spec,) = desired_mounts(proxy(), [subject], {}, "Cluster").mounts
    assert (spec.tools.include, spec.tools.exclude, spec.tools.rename) == (("a*",), ("b",), {"a": "c"})
    assert (spec.resources.include, spec.resources.exclude) == ((), ("x",))
    assert (spec.prompts.include, spec.prompts.exclude) == (("y",), ())


def test_ready_is_false_with_reason_and_the_seen_hash_can_be_copied() -> None:
    body = status(WITHHELD)
    assert conditions_of(body)["Ready"] == ("False", "CatalogChanged")
    assert messages_of(body)["Ready"] == f"The hash is {SEEN}."
    assert body["catalog"]["hash"] == SEEN
    assert "lastError" not in body


def test_of_several_replicas_the_one_that_withholds_speaks_and_shows_its_hash() -> None:
    up = mounted(SPEC, catalog=CatalogReport(tools=2, hash=PIN))
    down = failing(SPEC, "Unauthorized")
    for mounts in ((up, down, WITHHELD), (WITHHELD, down, up)):
        body = status(*mounts)
        assert conditions_of(body)["Ready"] == ("False", "CatalogChanged")
        assert body["catalog"]["hash"] == SEEN


def test_the_change_is_an_event() -> None:
    (event,) = transitions(status(mounted(SPEC)), status(WITHHELD))
    assert (event.type, event.reason, event.message) == ("Warning", "CatalogChanged", f"The hash is {SEEN}.")
