"""Events tell of transitions, once each."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_connections.operator.cluster import CONFIG_MAP, EVENT, Cluster
from mcp_connections.operator.events import Recorder, Transition, transitions


def status(**conditions: tuple[str, str]) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": kind, "status": value, "reason": reason, "message": f"{kind} is {reason}"}
            for kind, (value, reason) in conditions.items()
        ]
    }


GOOD = status(Ready=("True", "Ready"), Accepted=("True", "Accepted"), Mounted=("True", "Mounted"))
WAITING = status(Ready=("Unknown", "Pending"), Accepted=("Unknown", "Pending"), Mounted=("Unknown", "Pending"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(WAITING, GOOD, [("Normal", "Ready")], id="ready at last"),
        pytest.param(None, GOOD, [("Normal", "Ready")], id="ready at first sight"),
        pytest.param(GOOD, GOOD, [], id="nothing new"),
        pytest.param(
            GOOD,
            status(Ready=("False", "Unreachable"), Accepted=("True", "Accepted"), Mounted=("True", "Mounted")),
            [("Warning", "Unreachable")],
            id="lost",
        ),
        pytest.param(
            status(Ready=("False", "Unreachable")),
            status(Ready=("False", "Unauthorized")),
            [("Warning", "Unauthorized")],
            id="fails otherwise",
        ),
        pytest.param(
            WAITING, status(Ready=("False", "Connecting"), Accepted=("True", "Accepted")), [], id="on its way"
        ),
        pytest.param(
            GOOD,
            status(
                Ready=("False", "PrefixConflict"),
                Accepted=("False", "PrefixConflict"),
                Mounted=("False", "NotAccepted"),
            ),
            [("Warning", "PrefixConflict")],
            id="refused, told once",
        ),
        pytest.param(
            status(Ready=("False", "PrefixConflict"), Accepted=("False", "PrefixConflict")),
            status(Ready=("False", "Connecting"), Accepted=("True", "Accepted")),
            [("Normal", "Accepted")],
            id="accepted at last",
        ),
        pytest.param(
            GOOD,
            status(Ready=("False", "Disabled"), Accepted=("True", "Accepted"), Mounted=("False", "Disabled")),
            [("Normal", "Disabled")],
            id="disabled on purpose",
        ),
        pytest.param(
            GOOD,
            status(Ready=("False", "Terminating"), Accepted=("False", "Terminating"), Mounted=("False", "Draining")),
            [("Normal", "Terminating")],
            id="deleted on purpose",
        ),
        pytest.param(
            status(Available=("False", "Unavailable")),
            status(Available=("True", "Available")),
            [("Normal", "Available")],
            id="a proxy becomes available",
        ),
        pytest.param(
            status(Programmed=("True", "Programmed")),
            status(Programmed=("False", "ProxyUnreachable")),
            [("Warning", "ProxyUnreachable")],
            id="a pod does not answer",
        ),
    ],
)
def test_transitions(before: dict[str, Any] | None, after: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(each.type, each.reason) for each in transitions(before, after)] == expected


async def test_the_same_event_again_is_counted_and_not_another(cluster: Cluster, namespace: str) -> None:
    regarding = await cluster.create(
        CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "subject", "namespace": namespace}}
    )
    recorder = Recorder(cluster)
    lost = Transition("Warning", "Unreachable", "x" * 5000)

    for _ in range(3):
        await recorder.record(regarding, [lost])
    await recorder.record(regarding, [Transition("Normal", "Ready", "")])

    events = {event["reason"]: event for event in await cluster.list_all(EVENT, namespace)}
    assert events["Unreachable"]["count"] == 3
    assert events["Unreachable"]["involvedObject"]["uid"] == regarding["metadata"]["uid"]
    assert len(events["Unreachable"]["message"]) <= 1024
    assert events["Ready"]["count"] == 1
    assert len(events) == 2


async def test_an_event_that_was_deleted_is_written_anew(cluster: Cluster, namespace: str) -> None:
    regarding = await cluster.create(
        CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "subject", "namespace": namespace}}
    )
    recorder = Recorder(cluster)
    news = [Transition("Normal", "Ready", "there")]
    await recorder.record(regarding, news)
    recorder._counts[next(iter(recorder._counts))] = ("gone.123", 4)  # noqa: SLF001  (as after the hour an Event lives)

    await recorder.record(regarding, news)

    assert [event["count"] for event in await cluster.list_all(EVENT, namespace)] == [1, 1]


async def test_an_event_that_cannot_be_written_fails_nothing(cluster: Cluster, namespace: str) -> None:
    missing = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "subject", "namespace": f"{namespace}-not-there", "uid": "u"},
    }

    await Recorder(cluster).record(missing, [Transition("Normal", "Ready", "there")])
