"""From a resource to what a proxy acts on: durations in seconds, defaults filled in, fingerprints that follow."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_connections.mounts.conditions import connection_status
from mcp_connections.mounts.desire import desired_mounts
from mcp_connections.mounts.report import PolicyReport
from mcp_connections.mounts.spec import (
    CircuitBreaker,
    DesiredMounts,
    MountSpec,
    RateLimit,
    RequestPolicy,
    Retry,
    SessionLimits,
)
from tests.mounts.resources import at, connection, mounted, proxy, report

EVERYTHING: dict[str, Any] = {
    "retry": {"maxAttempts": 3, "backoff": "100ms", "maxBackoff": "2s"},
    "rateLimit": {"requests": 10, "per": "1m", "burst": 20},
    "maxConcurrency": 8,
    "circuitBreaker": {"consecutiveFailures": 3, "openFor": "10s"},
}


PIN = "sha256:" + "0" * 64


def spec_of(**spec: Any) -> MountSpec:
    (mount,) = desired_mounts(proxy(), [connection("a", **spec)], {}, "Cluster").mounts
    return mount


def test_nothing_is_limited_unless_it_is_said() -> None:
    assert (spec_of().policy, spec_of().session_limits) == (RequestPolicy(), SessionLimits())


def test_every_limit_reaches_the_proxy() -> None:
    mount = spec_of(policy=EVERYTHING, session={"idleTimeout": "10m", "maxSessions": 4})
    assert mount.policy == RequestPolicy(
        max_concurrency=8,
        rate_limit=RateLimit(requests=10, per=60.0, burst=20),
        circuit_breaker=CircuitBreaker(consecutive_failures=3, open_for=10.0),
        retry=Retry(max_attempts=3, backoff=0.1, max_backoff=2.0),
    )
    assert mount.session_limits == SessionLimits(idle_timeout=600.0, max_sessions=4)
    assert MountSpec.model_validate_json(mount.model_dump_json(by_alias=True)) == mount


def test_defaults_of_what_is_switched_on() -> None:
    policy = spec_of(policy={"retry": {}, "circuitBreaker": {}, "rateLimit": {"requests": 7}}).policy
    assert policy.retry == Retry(max_attempts=1, backoff=0.2, max_backoff=5.0)
    assert policy.circuit_breaker == CircuitBreaker(consecutive_failures=5, open_for=30.0)
    assert policy.rate_limit == RateLimit(requests=7, per=1.0, burst=7)


def test_a_proxy_of_an_older_version_has_no_limits() -> None:
    """What it knows nothing of it leaves out, and what it leaves out means no limit."""
    body = spec_of(policy=EVERYTHING).model_dump(mode="json", by_alias=True)
    del body["policy"], body["sessionLimits"]
    assert MountSpec.model_validate(body).policy == RequestPolicy()


CHANGES: tuple[dict[str, Any], ...] = (
    {"policy": {"maxConcurrency": 9}},
    {"policy": {"rateLimit": {"requests": 10}}},
    {"policy": {"rateLimit": {"requests": 10, "burst": 11}}},
    {"policy": {"rateLimit": {"requests": 10, "per": "2s"}}},
    {"policy": {"circuitBreaker": {}}},
    {"policy": {"circuitBreaker": {"openFor": "31s"}}},
    {"policy": {"circuitBreaker": {"consecutiveFailures": 6}}},
    {"policy": {"retry": {"maxAttempts": 2}}},
    {"policy": {"retry": {"maxAttempts": 2, "backoff": "1s"}}},
    {"policy": {"retry": {"maxAttempts": 2, "maxBackoff": "6s"}}},
    {"session": {"idleTimeout": "10m"}},
    {"session": {"idleTimeout": "11m"}},
    {"session": {"maxSessions": 4}},
)


def test_each_change_of_a_policy_is_another_mount() -> None:
    prints = [spec_of(**change).fingerprint for change in ({}, *CHANGES)]
    assert len(set(prints)) == len(prints)


def test_the_same_policy_in_other_words_is_the_same_mount() -> None:
    one = spec_of(policy={"circuitBreaker": {"openFor": "60s"}, "rateLimit": {"requests": 1}})
    same = spec_of(policy={"rateLimit": {"per": "1000ms", "requests": 1}, "circuitBreaker": {"openFor": "1m"}})
    assert one.fingerprint == same.fingerprint


def test_the_limit_of_clients_is_the_proxys_and_no_mounts() -> None:
    subject = connection("a")
    without = desired_mounts(proxy(), [subject], {}, "Cluster")
    limited = desired_mounts(proxy(rateLimit={"requests": 5, "per": "1m"}), [subject], {}, "Cluster")
    assert without.client_rate_limit is None
    assert limited.client_rate_limit == RateLimit(requests=5, per=60.0, burst=5)
    assert limited.mounts == without.mounts
    assert DesiredMounts.model_validate_json(limited.model_dump_json(by_alias=True)) == limited


# status


def status_of(*circuits: str | None) -> dict[str, Any]:
    """The status of a connection by the states of its circuit breaker in several replicas."""
    subject = connection("a", policy={"circuitBreaker": {}})
    desired = desired_mounts(proxy(), [subject], {}, "Cluster")
    policies = [PolicyReport.model_validate({"circuit": circuit}) for circuit in circuits]
    reports = [report(mounted(desired.mounts[0], policy=policy)) for policy in policies]
    return connection_status(subject, desired, reports, None, at(30))


@pytest.mark.parametrize(
    ("circuits", "shown"),
    [
        (["Closed"], "Closed"),
        (["Closed", "Open", "HalfOpen"], "Open"),
        (["HalfOpen", "Closed"], "HalfOpen"),
        ([None], None),
        ([None, "Closed"], "Closed"),
    ],
)
def test_status_shows_the_circuit_where_it_is_worst(circuits: list[str | None], shown: str | None) -> None:
    status = status_of(*circuits)
    assert status.get("circuitBreaker") == shown
    assert status["conditions"][0]["status"] == "True", "an open circuit is a limit, not the backend's health"


def test_status_shows_every_policy_with_its_values() -> None:
    subject = connection(
        "a",
        policy=EVERYTHING,
        session={"mode": "Isolated", "idleTimeout": "10m", "maxSessions": 4},
        catalog={"removalGrace": "2m", "pin": PIN},
    )
    desired = desired_mounts(proxy(), [subject], {}, "Cluster")
    status = connection_status(subject, desired, [report(mounted(desired.mounts[0]))], None, at(30))
    assert status["mount"]["policies"] == [
        "timeouts: connect 5s, request 60s, max 600s",
        "maxConcurrency: 8",
        "rateLimit: 10 per 60s, burst 20",
        "circuitBreaker: 3 failures in a row, open for 10s",
        "retry: 3 attempts, backoff 0.1s to 2s",
        "session: Isolated",
        "session.idleTimeout: 600s",
        "session.maxSessions: 4",
        "catalog.removalGrace: 120s",
        f"catalog.pin: {PIN}",
    ]


def test_status_stays_as_it_is_while_policies_count() -> None:
    """What ticks with every call stays in metrics: a busy connection must not write status all the time."""
    subject = connection("a", policy=EVERYTHING)
    desired = desired_mounts(proxy(), [subject], {}, "Cluster")

    def status(busy: int, previous: dict[str, Any] | None) -> dict[str, Any]:
        policy = PolicyReport.model_validate(
            {"circuit": "Closed", "waiting": busy, "refused": {"rate": busy, "sessions": busy}, "retries": busy}
        )
        seen = report(mounted(desired.mounts[0], policy=policy, in_flight=busy, sessions=busy))
        return connection_status(subject, desired, [seen], previous, at(30 + busy))

    first = status(0, None)
    assert status(7, first) == first
