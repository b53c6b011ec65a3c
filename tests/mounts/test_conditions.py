"""Status bodies of connections and of the proxy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.api.connection import McpConnection
from mcp_connections.api.connection_status import McpConnectionStatus, PodStatus
from mcp_connections.api.proxy import McpProxyStatus
from mcp_connections.api.reasons import ProxyReason, Reason
from mcp_connections.mounts.acceptance import ProxyRejection
from mcp_connections.mounts.candidates import InvalidConnection
from mcp_connections.mounts.conditions import connection_status, connection_status_in, proxy_status
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.observation import Observation
from mcp_connections.mounts.report import CatalogNote, CatalogReport, RegistryReport, RetiredMount, ServerReport
from mcp_connections.mounts.spec import DesiredMounts, HttpServer, MountSpec
from tests.mounts.resources import (
    at,
    conditions_of,
    connection,
    failing,
    key,
    messages_of,
    mounted,
    proxy,
    report,
    transitions_of,
)

SUBJECT = connection("a", generation=3, transport={"http": {"url": "https://host.example/mcp?key=s3cret"}})
DESIRED = desired_mounts(proxy(), [SUBJECT], {}, "Cluster")
SPEC = DESIRED.mounts[0]


def status(
    *reports: RegistryReport | None,
    previous: dict[str, Any] | None = None,
    subject: McpConnection = SUBJECT,
    desired: DesiredMounts = DESIRED,
    now: float = 100,
) -> dict[str, Any]:
    return connection_status(subject, desired, reports, previous, at(now))


def changed_spec() -> MountSpec:
    return SPEC.model_copy(update={"fingerprint": "another"})


def test_the_whole_body_of_a_mount_that_is_up() -> None:
    body = status(report(mounted(SPEC)))

    assert body == {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-01T00:01:40Z",
                "reason": kind,
                "message": message,
            }
            for kind, message in (
                ("Ready", "Serving 2 tools, 0 resources, 0 resource templates, 1 prompt."),
                ("Accepted", "The spec is valid and its references resolve."),
                ("Mounted", "On 1 replica of the proxy."),
            )
        ],
        "mount": {
            "fingerprint": SPEC.fingerprint,
            "since": "2026-01-01T00:00:10Z",
            "replicas": 1,
            "prefix": "a",
            "transport": "http",
            "url": "https://host.example/mcp",
            "policies": [
                "timeouts: connect 5s, request 60s, max 600s",
                "session: Isolated",
                "catalog.removalGrace: 60s",
            ],
        },
        "retiredMounts": [],
        "catalog": {
            "tools": 2,
            "resources": 0,
            "resourceTemplates": 0,
            "prompts": 1,
            "hash": "h",
            "names": ["a", "b"],
            "skipped": [],
            "notices": [],
        },
        "server": {"name": "sample", "version": "1", "protocolVersion": "2025-11-25"},
        "lastHandshake": "2026-01-01T00:00:11Z",
    }


def test_the_body_of_a_mount_that_is_down() -> None:
    body = status(report(failing(SPEC, "Unreachable", "Connection refused.")))

    assert conditions_of(body) == {
        "Ready": ("False", "Unreachable"),
        "Accepted": ("True", "Accepted"),
        "Mounted": ("True", "Mounted"),
    }
    assert messages_of(body)["Ready"] == "Connection refused."
    assert (body["lastError"], body["nextRetry"]) == ("Connection refused.", "2026-01-01T00:00:20Z")
    assert "server" not in body


def test_the_pod_of_a_command_is_shown_and_what_keeps_it_from_running_is_said() -> None:
    server = HttpServer(url="http://mcp-bridge-a.default.svc:8000/mcp", bridged=True)
    spec = SPEC.model_copy(update={"server": server})
    desired = DESIRED.model_copy(update={"mounts": (spec,)})
    trouble = PodStatus(name="a-1", restarts=2, message="ImagePullBackOff: the image 'x' cannot be pulled")

    def body(pod: PodStatus) -> dict[str, Any]:
        seen = Observation(desired, [report(failing(spec, "Unreachable", "Refused"))], pods={key("a"): pod})
        return connection_status_in(seen, connection("a"), None, at(100))

    told = body(trouble)
    assert messages_of(told)["Ready"] == "Refused; its pod a-1: ImagePullBackOff: the image 'x' cannot be pulled"
    assert told["pod"] == {"name": "a-1", "ready": False, "restarts": 2, "commandExits": 0, "message": trouble.message}
    assert (told["mount"]["transport"], "url" in told["mount"]) == ("stdio", False)
    assert messages_of(body(PodStatus(message="exceeded quota")))["Ready"] == "Refused; its pod: exceeded quota"
    assert messages_of(body(PodStatus(name="a-1", ready=True)))["Ready"] == "Refused"


def test_how_often_a_command_ended_is_shown_by_the_replica_that_knows_most() -> None:
    def body(*exits: int, previous: dict[str, Any] | None = None, spec: MountSpec = SPEC) -> dict[str, Any]:
        desired = DESIRED.model_copy(update={"mounts": (spec,)})
        reports = [
            report(mounted(spec, exits=count, last_error=f"Exit {count}.", last_error_at=at(20 + count)))
            for count in exits
        ]
        seen = Observation(desired, reports, pods={key("a"): PodStatus(name="a-1", ready=True)})
        return connection_status_in(seen, connection("a"), previous, at(100))

    told = body(1, 3, 2)
    assert told["pod"] == {"name": "a-1", "ready": True, "restarts": 0, "commandExits": 3}
    assert told["lastError"] == "Exit 3."
    assert body(0, previous=told)["pod"]["commandExits"] == 3, "by a proxy that was started anew"
    assert body(previous=told)["pod"]["commandExits"] == 3, "while no replica answers"
    assert body(0, previous=told, spec=changed_spec())["pod"]["commandExits"] == 0, "of another command"


def test_without_any_report() -> None:
    for reports, message in (((), "The proxy has no pod"), ((None, None), "None of 2 replicas")):
        body = status(*reports)

        assert conditions_of(body)["Mounted"] == ("Unknown", "ProxyUnavailable")
        assert conditions_of(body)["Ready"] == ("Unknown", "ProxyUnavailable")
        assert message in messages_of(body)["Ready"]
        assert body["mount"]["replicas"] == 0
        assert "since" not in body["mount"]


def test_what_was_known_stays_while_no_replica_answers_and_goes_with_the_fingerprint() -> None:
    before = status(report(mounted(SPEC, last_error="Once failed.")))

    unknown = status(None, previous=before)
    edited = status(None, previous=before, desired=DesiredMounts(mounts=(changed_spec(),)))

    kept = ("catalog", "server", "lastHandshake", "lastError")
    assert {name: unknown[name] for name in kept} == {name: before[name] for name in kept}
    assert unknown["mount"] == {**before["mount"], "replicas": 0}
    assert not set(kept) & set(edited)
    assert edited["mount"]["fingerprint"] == "another"


def test_the_last_error_survives_a_new_process() -> None:
    before = status(report(failing(SPEC, "Timeout", "No answer in 5 s.")))

    assert status(report(mounted(SPEC)), previous=before)["lastError"] == "No answer in 5 s."


def test_an_older_fingerprint_is_not_mounted() -> None:
    body = status(report(mounted(changed_spec())))

    assert conditions_of(body)["Mounted"] == ("False", "Pending")
    assert conditions_of(body)["Ready"] == ("False", "Pending")
    assert SPEC.fingerprint in messages_of(body)["Mounted"]
    assert "catalog" not in body


def test_every_ready_replica_counts_and_a_starting_one_does_not() -> None:
    up, empty = report(mounted(SPEC)), report()
    starting = report(ready=False)

    assert conditions_of(status(up, up))["Mounted"] == ("True", "Mounted")
    assert conditions_of(status(up, empty))["Mounted"] == ("False", "Pending")
    assert conditions_of(status(up, starting))["Mounted"] == ("True", "Mounted")
    assert conditions_of(status(starting, starting))["Mounted"] == ("False", "Pending")
    assert status(up, up, starting)["mount"]["replicas"] == 2


def test_with_strict_start_policy_no_replica_is_ready_and_status_still_says_why() -> None:
    body = status(report(failing(SPEC, "Unauthorized"), ready=False))

    assert conditions_of(body) == {
        "Ready": ("False", "Unauthorized"),
        "Accepted": ("True", "Accepted"),
        "Mounted": ("True", "Mounted"),
    }


def test_a_silent_replica_confirms_nothing_new_and_denies_nothing_old() -> None:
    def seen(previous: dict[str, Any] | None) -> dict[str, Any]:
        observation = Observation(DESIRED, [report(mounted(SPEC)), None], silent=1)
        return connection_status_in(observation, SUBJECT, previous, at(100))

    assert conditions_of(seen(None))["Mounted"] == ("False", "Pending")
    assert conditions_of(seen(status(report(mounted(SPEC)))))["Mounted"] == ("True", "Mounted")
    assert conditions_of(seen(status(report(mounted(changed_spec())))))["Mounted"] == ("False", "Pending")
    assert conditions_of(status(report(mounted(SPEC)), None))["Mounted"] == ("True", "Mounted")


@pytest.mark.parametrize("turned", [False, True])
def test_the_worst_replica_speaks(turned: bool) -> None:
    reports = [
        report(mounted(SPEC, last_handshake=at(50), since=at(30))),
        report(failing(SPEC, "Timeout", "Slow.", next_retry=at(18))),
        report(failing(SPEC, "Unauthorized", "401.", next_retry=at(19))),
    ]

    body = status(*(reports[::-1] if turned else reports))

    assert conditions_of(body)["Ready"] == ("False", "Unauthorized")
    assert messages_of(body)["Ready"] == "In 2 of 3 replicas of the proxy: 401."
    assert body["catalog"]["tools"] == 2
    assert (body["mount"]["since"], body["mount"]["replicas"]) == ("2026-01-01T00:00:10Z", 3)
    assert (body["lastHandshake"], body["nextRetry"]) == ("2026-01-01T00:00:50Z", "2026-01-01T00:00:18Z")
    assert body["lastError"] == "401."


def test_rejected_disabled_invalid_and_unseen() -> None:
    off = connection("a", enabled=False)
    missing = connection("a", auth={"bearer": {"secretKeyRef": {"name": "s", "key": "k"}}})
    unreadable = InvalidConnection(connection=key("a"), message="spec.transport: must be set", generation=7)

    def of(subject: Any, desired: DesiredMounts) -> dict[str, Any]:
        return connection_status(subject, desired, [report()], None, at(0))

    disabled = of(off, desired_mounts(proxy(), [off], {}, "Cluster"))
    rejected = of(missing, desired_mounts(proxy(), [missing], {}, "Cluster"))
    invalid = of(unreadable, desired_mounts(proxy(), [unreadable], {}, "Cluster"))
    unseen = of(SUBJECT, DesiredMounts())

    assert conditions_of(disabled) == {
        "Ready": ("False", "Disabled"),
        "Accepted": ("True", "Accepted"),
        "Mounted": ("False", "Disabled"),
    }
    assert conditions_of(rejected) == {
        "Ready": ("False", "SecretNotFound"),
        "Accepted": ("False", "SecretNotFound"),
        "Mounted": ("False", "NotAccepted"),
    }
    assert conditions_of(invalid)["Accepted"] == ("False", "InvalidSpec")
    assert {each["observedGeneration"] for each in invalid["conditions"]} == {7}
    assert set(conditions_of(unseen).values()) == {("Unknown", "Pending")}
    for body in (disabled, rejected, invalid, unseen):
        assert "mount" not in body


def test_a_disabled_one_drains_until_its_last_mount_is_closed() -> None:
    off = connection("a", enabled=False)
    desired = desired_mounts(proxy(), [off], {}, "Cluster")

    def retired(state: Any) -> RetiredMount:
        return RetiredMount(
            connection=key("a"), fingerprint="f", reason="Disabled", retired_at=at(1), in_flight=2, state=state
        )

    for reports, reason in (
        ((report(mounted(SPEC)),), "Draining"),
        ((report(retired=(retired("Draining"),)),), "Draining"),
        ((report(retired=(retired("Closed"),)), report(retired=(retired("Draining"),))), "Draining"),
        ((report(retired=(retired("Closed"),)),), "Disabled"),
    ):
        body = status(*reports, subject=off, desired=desired)
        assert conditions_of(body)["Mounted"] == ("False", reason)
        assert conditions_of(body)["Ready"] == ("False", "Disabled")


def test_one_that_is_deleted_and_kept_by_a_finalizer_says_so() -> None:
    going = connection("a", deleted=True)
    desired = desired_mounts(proxy(), [going], {}, "Cluster")

    leaving = status(report(mounted(SPEC)), subject=going, desired=desired)
    gone = status(report(), subject=going, desired=desired)

    assert conditions_of(leaving) == {
        "Ready": ("False", "Terminating"),
        "Accepted": ("False", "Terminating"),
        "Mounted": ("False", "Draining"),
    }
    assert set(conditions_of(gone).values()) == {("False", "Terminating")}
    assert "mount" not in gone


def test_transition_times_move_with_the_status_only() -> None:
    first = status(report(failing(SPEC, "Connecting")), now=1)
    second = status(report(failing(SPEC, "Unreachable", "Other words.")), previous=first, now=2)
    third = status(report(mounted(SPEC)), previous=second, now=3)

    assert transitions_of(second) == transitions_of(first)
    assert messages_of(second)["Ready"] == "Other words."
    assert transitions_of(third) == {**transitions_of(first), "Ready": "2026-01-01T00:00:03Z"}


def test_a_former_status_of_another_version_is_no_hindrance() -> None:
    for strange in ({"conditions": [{"type": "Ready"}]}, {"conditions": "none", "mount": 3}, {"future": {"x": 1}}):
        assert conditions_of(status(report(mounted(SPEC)), previous=strange))["Ready"] == ("True", "Ready")


def test_bodies_stay_within_the_bounds_of_the_crd() -> None:
    notes = tuple(CatalogNote(kind="tool", name="n" * 5000, reason="r" * 5000) for _ in range(200))
    catalog = CatalogReport(tools=500, names=("t" * 5000,) * 500, skipped=notes, notices=notes)
    server = ServerReport(name="n" * 5000, version="v" * 5000, protocol_version="p" * 5000)
    flood = "x" * 100_000
    body = status(report(failing(SPEC, "Exited", flood, catalog=catalog, server=server, last_error=flood)))

    assert McpConnectionStatus.model_validate(body).dump() == body
    assert len(body["catalog"]["names"]) == len(body["catalog"]["skipped"]) == 50
    assert len(messages_of(body)["Ready"]) <= 32768


STATES = st.sampled_from(["up", "down", "old", "absent", "silent", "starting"])
REASONS = st.sampled_from(["Connecting", "Unreachable", "Timeout", "Unauthorized", "Exited", "SomethingNew"])


def retired_mount(connection: Any, fingerprint: str, reason: Any, seconds: float, state: Any) -> RetiredMount:
    return RetiredMount(
        connection=connection,
        fingerprint=fingerprint,
        reason=reason,
        retired_at=at(seconds),
        in_flight=1 if state == "Draining" else 0,
        state=state,
    )


RETIRED = st.builds(
    retired_mount,
    st.sampled_from([key("a"), key("a", "old-uid"), key("b")]),
    st.sampled_from(["f1", "f2", SPEC.fingerprint]),
    st.sampled_from(["Changed", "Disabled", "Removed"]),
    st.floats(0, 100),
    st.sampled_from(["Draining", "Closed"]),
)


def reports_of(state: str, reason: str, retired: list[RetiredMount]) -> RegistryReport | None:
    if state == "silent":
        return None
    mounts = {
        "up": (mounted(SPEC),),
        "down": (failing(SPEC, reason),),
        "old": (mounted(changed_spec()),),
        "absent": (),
        "starting": (failing(SPEC, "Connecting"),),
    }
    return report(*mounts[state], retired=tuple(retired), ready=state != "starting")


REPLICAS = st.lists(st.builds(reports_of, STATES, REASONS, st.lists(RETIRED, max_size=4)), max_size=3)


@given(history=st.lists(REPLICAS, min_size=1, max_size=4), silent=st.integers(0, 1))
@settings(max_examples=100, deadline=None)
def test_any_history_gives_valid_stable_bodies(history: list[list[RegistryReport | None]], silent: int) -> None:
    body: dict[str, Any] | None = None
    proxy_body: dict[str, Any] | None = None
    for moment, reports in enumerate(history):
        seen = Observation(DESIRED, reports, silent=silent)

        def bodies(
            before: dict[str, Any] | None,
            proxy_before: dict[str, Any] | None,
            now: float,
            seen: Observation = seen,
            reports: list[RegistryReport | None] = reports,
        ) -> tuple[dict[str, Any], dict[str, Any]]:
            one = connection_status_in(seen, SUBJECT, before, at(now))
            return one, proxy_status(proxy(), DESIRED, reports, {key("a"): one}, proxy_before, at(now))

        former, proxy_former = body, proxy_body
        body, proxy_body = bodies(former, proxy_former, moment * 10)
        again = bodies(body, proxy_body, moment * 10 + 5.5)

        assert again == (body, proxy_body)
        assert McpConnectionStatus.model_validate(body).dump() == body
        assert McpProxyStatus.model_validate(proxy_body).dump() == proxy_body
        assert [each["type"] for each in body["conditions"]] == ["Ready", "Accepted", "Mounted"]
        assert conditions_of(body)["Ready"][0] != "True" or conditions_of(body)["Mounted"][0] == "True"
        if former:
            for kind, moved in transitions_of(body).items():
                flipped = conditions_of(former)[kind][0] != conditions_of(body)[kind][0]
                assert flipped == (moved != transitions_of(former)[kind])


def test_every_reason_is_a_documented_one() -> None:
    body = status(report(failing(SPEC, "Timeout")))
    proxy_body = proxy_status(proxy(), DESIRED, [report()], {key("a"): body}, None, at(0))

    assert {reason for _, reason in conditions_of(body).values()} <= set(Reason)
    assert {reason for _, reason in conditions_of(proxy_body).values()} <= set(ProxyReason)


def test_the_body_of_a_proxy() -> None:
    second = connection("b", age=1)
    desired = desired_mounts(proxy(), [SUBJECT, second], {}, "Cluster")
    gone = RetiredMount(connection=key("gone"), fingerprint="g", reason="Removed", retired_at=at(3), in_flight=1)
    here = RetiredMount(connection=key("a"), fingerprint="h", reason="Changed", retired_at=at(4))
    seen = report(mounted(desired.mounts[0]), failing(desired.mounts[1], "Timeout"), retired=(gone, here))
    statuses = {
        key(each.metadata.name): connection_status(each, desired, [seen], None, at(0)) for each in (SUBJECT, second)
    }

    body = proxy_status(proxy(), desired, [seen], statuses, None, at(5), endpoint="http://x/mcp", ready_pods=1)

    assert conditions_of(body) == {
        "Available": ("True", "Available"),
        "Accepted": ("True", "Accepted"),
        "Programmed": ("True", "Programmed"),
    }
    assert (body["endpoint"], body["replicas"]) == ("http://x/mcp", 1)
    assert body["connections"] == {"total": 2, "mounted": 2, "ready": 1}
    assert body["catalog"] == {"tools": 2, "resources": 0, "resourceTemplates": 0, "prompts": 1}
    assert [each["connection"]["name"] for each in body["retiredMounts"]] == ["gone"]


@pytest.mark.parametrize(
    ("spec", "reports", "condition", "expected"),
    [
        ({}, (), "Available", ("False", "Unavailable")),
        ({"replicas": 0}, (), "Available", ("False", "ScaledToZero")),
        ({}, (report(mounted(SPEC), ready=False),), "Available", ("False", "Unavailable")),
        (
            {"startPolicy": "Strict"},
            (report(failing(SPEC, "Timeout"), ready=False),),
            "Available",
            ("False", "ConnectionsNotReady"),
        ),
        ({}, (report(mounted(SPEC)), None), "Available", ("True", "Available")),
        ({}, (report(mounted(SPEC)), None), "Programmed", ("False", "ProxyUnreachable")),
        ({}, (report(mounted(SPEC)), report()), "Programmed", ("False", "Pending")),
        ({}, (report(mounted(SPEC)), report(ready=False)), "Programmed", ("True", "Programmed")),
        ({}, (report(mounted(SPEC), separator="."),), "Programmed", ("False", "Pending")),
        ({}, (), "Programmed", ("Unknown", "Pending")),
    ],
)
def test_conditions_of_a_proxy(
    spec: dict[str, Any], reports: tuple[RegistryReport | None, ...], condition: str, expected: tuple[str, str]
) -> None:
    statuses = {key("a"): status(*reports)}

    body = proxy_status(proxy(**spec), DESIRED, reports, statuses, None, at(0))

    assert conditions_of(body)[condition] == expected
    if expected[1] == "ConnectionsNotReady":
        assert "default/a" in messages_of(body)["Available"]


def test_a_proxy_that_is_not_accepted_is_not_programmed() -> None:
    rejection = ProxyRejection(reason=ProxyReason.INVALID_SECRET, message="spec.auth: …")

    body = proxy_status(proxy(), DESIRED, [report(mounted(SPEC))], {}, None, at(0), rejection=rejection)

    assert conditions_of(body)["Accepted"] == ("False", "InvalidSecret")
    assert conditions_of(body)["Programmed"][0] == "False"
