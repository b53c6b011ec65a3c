"""Each policy in front of a real backend that misbehaves: what the backend saw, and what the client was told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_connections.mounts.spec import CircuitBreaker, RateLimit, RequestPolicy, Retry, Timeouts
from tests.backends.calls import Call
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen, text
from tests.proxy.client import Answer, Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import http
from tests.proxy.running import RunningProxy, eventually

IDEMPOTENT: dict[str, Any] = {"annotations": {"idempotentHint": True}}
QUICK = Retry(max_attempts=4, backoff=0.01, max_backoff=0.05)


def reasons(answers: list[Answer]) -> list[str]:
    """What each call came to: ok, or the reason of its error."""
    return ["ok" if "result" in answer.response else answer.error["data"]["reason"] for answer in answers]


def value(proxy: RunningProxy, name: str, **labels: str) -> float | None:
    """A metric of the connection team/one."""
    labels = {"connection": "team/one", **labels}
    return proxy.process.metrics.registry.get_sample_value(f"mcp_connections_{name}", labels)


async def outages(backend: ScriptedBackend, *failures: HttpAnswer) -> None:
    """The next tool calls fail like this, those after them do not."""
    left = list(failures)

    async def fail(seen: Seen) -> HttpAnswer | None:
        return left.pop(0) if seen.rpc == "tools/call" and left else None

    backend.intercept = fail


# concurrency


async def test_a_backend_never_has_more_calls_than_it_may(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    running: list[str] = []
    most = 0

    async def handler(call: Call) -> Any:
        nonlocal most
        running.append(call.session.id)
        most = max(most, len(running))
        await asyncio.sleep(0.01)
        running.pop()
        return text("done")

    backend.tool("slow", handler)
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(max_concurrency=3), timeouts=Timeouts(connect=30)))
    clients = [await proxy.client() for _ in range(10)]
    answers = await asyncio.gather(*(client.call("one_slow") for client in clients for _ in range(3)))
    assert reasons(answers) == ["ok"] * 30
    assert most == 3


async def test_a_hung_backend_keeps_nobody_waiting_for_longer_than_it_may_take_to_connect(
    proxy: RunningProxy, backend: ScriptedBackend, make_backend: MakeBackend
) -> None:
    other = await make_backend()
    gate = backend.gated_tool("stuck")
    await proxy.apply(
        http("one", backend.url, policy=RequestPolicy(max_concurrency=2), timeouts=Timeouts(connect=3.0)),
        http("other", other.url),
    )
    client = await proxy.client()
    stuck = [asyncio.create_task(client.call("one_stuck")) for _ in range(2)]
    await gate.arrived(2)
    waiting = [asyncio.create_task(client.call("one_stuck")) for _ in range(2)]
    await eventually(lambda: proxy.report("one").policy.waiting == 2)
    assert value(proxy, "calls_waiting") == 2
    assert proxy.report("one").in_flight == 4
    assert (await client.call("other_bump")).text == "1", "others are not held up"
    for answer in await asyncio.gather(*waiting):
        assert answer.error["data"] == {"connection": "team/one", "reason": "ConcurrencyLimited"}
        assert "policy.maxConcurrency allows 2 at once" in answer.error["message"]
        assert "within 3 s" in answer.error["message"]
    assert len(gate.calls) == 2
    gate.open()
    assert reasons(await asyncio.gather(*stuck)) == ["ok"] * 2
    assert (await client.call("one_stuck")).text.startswith("passed")
    report = proxy.report("one")
    assert (report.policy.waiting, report.policy.refused.concurrency, report.in_flight) == (0, 2, 0)
    assert value(proxy, "calls_refused_total", limit="concurrency") == 2
    assert value(proxy, "calls_total", method="tools/call", outcome="ConcurrencyLimited") == 2


async def test_a_call_cancelled_while_it_waits_never_reaches_the_backend(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    gate = backend.gated_tool("stuck")
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(max_concurrency=1), timeouts=Timeouts(connect=30)))
    client = await proxy.client()
    first = asyncio.create_task(client.call("one_stuck"))
    await gate.arrived()
    second = asyncio.create_task(client.request("tools/call", {"name": "one_stuck"}, request_id="second"))
    await eventually(lambda: proxy.report("one").policy.waiting == 1)
    await client.notify("notifications/cancelled", {"requestId": "second"})
    await second
    gate.open()
    await first
    assert len(gate.calls) == 1
    assert (await client.call("one_bump")).text == "1"


async def test_calls_that_wait_are_drained_like_those_that_run(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("stuck")
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(max_concurrency=1), timeouts=Timeouts(connect=30)))
    client = await proxy.client()
    calls = [asyncio.create_task(client.call("one_stuck")) for _ in range(3)]
    await gate.arrived()
    await eventually(lambda: proxy.report("one").policy.waiting == 2)
    result = await proxy.apply()
    assert [mount.in_flight for mount in result.retired] == [3]
    gate.open()
    assert reasons(await asyncio.gather(*calls)) == ["ok"] * 3


# rate


async def test_calls_beyond_the_rate_are_refused_and_told_when_to_come_again(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.resource("doc://a")
    policy = RequestPolicy(rate_limit=RateLimit(requests=1, per=1000, burst=3))
    await proxy.apply(http("one", backend.url, policy=policy))
    clients = [await proxy.client() for _ in range(4)]
    answers = await asyncio.gather(*(client.call("one_echo") for client in clients for _ in range(2)))
    assert sorted(reasons(answers)) == ["RateLimited"] * 5 + ["ok"] * 3
    assert len(backend.calls_of("echo")) == 3
    error = next(answer.error for answer in answers if "error" in answer.response)
    assert error["data"]["connection"] == "team/one"
    assert 900 < error["data"]["retryAfter"] <= 1000
    assert "policy.rateLimit allows 1 requests per 1000 s, 3 of them at once; try again in" in error["message"]
    (uri,) = await clients[0].names("resources/list")
    assert reasons([await clients[0].request("resources/read", {"uri": uri})]) == ["RateLimited"]
    assert proxy.report("one").ready, "the proxy's own requests are not those of clients"
    assert value(proxy, "calls_refused_total", limit="rate") == 6


# circuit breaker


async def test_a_backend_that_keeps_failing_is_left_alone(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    policy = RequestPolicy(circuit_breaker=CircuitBreaker(consecutive_failures=2, open_for=3600))
    await proxy.apply(http("one", backend.url, policy=policy))
    client = await proxy.client()
    assert value(proxy, "circuit_breaker_state", state="Closed") == 1
    await outages(backend, *[HttpAnswer(503, b"no: account 4711")] * 2)
    failed = [await client.call("one_bump") for _ in range(2)]
    assert reasons(failed) == ["Unreachable"] * 2
    assert "account 4711" in failed[0].error["message"]
    assert proxy.report("one").policy.circuit == "Open"
    assert value(proxy, "circuit_breaker_state", state="Open") == 1
    error = (await client.call("one_bump")).error
    assert error["data"]["reason"] == "CircuitOpen"
    assert 3500 < error["data"]["retryAfter"] <= 3600
    assert "HTTP 503" in error["message"]
    assert "account" not in error["message"], "what it told one client is not for the next"
    assert len(backend.calls_of("bump")) == 2
    assert proxy.report("one").policy.refused.circuit == 1
    assert proxy.report("one").ready, "the backend lists and answers pings"


async def test_after_a_while_it_is_tried_with_one_call(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("slow")
    policy = RequestPolicy(circuit_breaker=CircuitBreaker(consecutive_failures=1, open_for=2))
    await proxy.apply(http("one", backend.url, policy=policy))
    client = await proxy.client()
    await outages(backend, HttpAnswer(503, b"no"))
    assert reasons([await client.call("one_slow")]) == ["Unreachable"]
    await eventually(lambda: proxy.report("one").policy.circuit == "HalfOpen")
    started = asyncio.get_running_loop().time()
    calls = [asyncio.create_task(client.call("one_slow")) for _ in range(10)]
    await eventually(lambda: sum(call.done() for call in calls) >= 9)
    trials = 1 + (asyncio.get_running_loop().time() - started) // 2
    assert len(gate.calls) <= trials
    gate.open()
    outcomes = reasons(await asyncio.gather(*calls))
    assert 1 <= outcomes.count("ok") <= trials
    assert outcomes.count("CircuitOpen") == 10 - outcomes.count("ok")
    assert proxy.report("one").policy.circuit == "Closed"
    assert reasons([await client.call("one_bump") for _ in range(3)]) == ["ok"] * 3


async def test_a_black_hole_opens_the_circuit(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    gate = backend.gated_tool("stuck")
    policy = RequestPolicy(circuit_breaker=CircuitBreaker(consecutive_failures=2, open_for=3600))
    await proxy.apply(http("one", backend.url, policy=policy, timeouts=Timeouts(request=0.2)))
    client = await proxy.client()
    answers = [await client.call("one_stuck") for _ in range(4)]
    assert reasons(answers) == ["Timeout", "Timeout", "CircuitOpen", "CircuitOpen"]
    assert len(gate.calls) == 2


async def test_a_backends_own_errors_never_open_the_circuit(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def wrong(call: Call) -> Any:
        return {**text("went wrong"), "isError": True}

    backend.tool("wrong", wrong)
    policy = RequestPolicy(circuit_breaker=CircuitBreaker(consecutive_failures=1, open_for=3600))
    await proxy.apply(http("one", backend.url, policy=policy))
    client = await proxy.client()
    for _ in range(3):
        assert (await client.call("one_wrong")).result["isError"] is True
    backend.tools.pop("echo")
    for _ in range(3):
        assert (await client.call("one_echo")).error["code"] == -32601
    assert proxy.report("one").policy.circuit == "Closed"
    assert (await client.call("one_bump")).text == "1"


@pytest.mark.parametrize("status", [402, 409, 413, 414, 415, 422, 431, 451])
async def test_a_request_that_the_backend_does_not_like_opens_no_circuit(
    proxy: RunningProxy, backend: ScriptedBackend, status: int
) -> None:
    policy = RequestPolicy(circuit_breaker=CircuitBreaker(consecutive_failures=1, open_for=3600))
    await proxy.apply(http("one", backend.url, policy=policy))
    client = await proxy.client()
    await outages(backend, *[HttpAnswer(status, b"too much")] * 2)
    failed = [await client.call("one_bump") for _ in range(2)]
    assert reasons(failed) == ["ProtocolError"] * 2
    assert f"HTTP {status}" in failed[0].error["message"]
    assert proxy.report("one").policy.circuit == "Closed"
    assert (await client.call("one_bump")).text == "1"


# retry


async def test_what_was_refused_before_it_ran_is_sent_again(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=QUICK)))
    client = await proxy.client()
    await outages(backend, HttpAnswer(429, b"slow down"), HttpAnswer(429, b"slow down"))
    assert (await client.call("one_bump")).text == "1"
    assert len(backend.calls_of("bump")) == 3
    assert proxy.report("one").policy.retries == 2
    assert value(proxy, "call_retries_total") == 2


async def test_a_call_that_may_have_run_is_sent_again_only_if_its_tool_is_marked(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("again", **IDEMPOTENT)
    backend.tool("reads", annotations={"readOnlyHint": True})
    backend.tool("once")
    backend.tool("not", annotations={"idempotentHint": False, "title": "idempotentHint"})
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=QUICK)))
    client = await proxy.client()
    for tool, attempts in [("again", 3), ("reads", 3), ("once", 1), ("not", 1)]:
        await outages(backend, *[HttpAnswer(502, b"bad gateway")] * 2)
        (outcome,) = reasons([await client.call(f"one_{tool}")])
        assert (tool, len(backend.calls_of(tool))) == (tool, attempts)
        assert outcome == ("ok" if attempts == 3 else "Unreachable")


async def test_a_marked_call_survives_connections_that_break_in_the_middle(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    calls: list[Call] = []

    async def handler(call: Call) -> Any:
        calls.append(call)
        if len(calls) < 3:
            call.drop()
            await asyncio.Event().wait()
        return text(f"attempt {len(calls)}")

    backend.tool("again", handler, **IDEMPOTENT)
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=QUICK)))
    client = await proxy.client()
    assert (await client.call("one_again")).text == "attempt 3"


async def test_a_call_meets_a_restart_of_the_backend_without_an_error(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    retry = Retry(max_attempts=10, backoff=0.05, max_backoff=0.5)
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=retry)))
    client = await proxy.client()
    assert (await client.call("one_bump")).text == "1"
    await backend.stop()
    backend.lose_sessions()
    call = asyncio.create_task(client.call("one_bump"))
    await eventually(lambda: proxy.report("one").policy.retries >= 2)
    await backend.start()
    assert (await call).text == "1", "in a new session"
    assert len(backend.calls_of("bump")) <= 3


async def test_reads_are_repeated(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    backend.resource("doc://a")
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=QUICK)))
    client = await proxy.client()
    left = [HttpAnswer(502, b"")] * 2

    async def fail(seen: Seen) -> HttpAnswer | None:
        return left.pop() if seen.rpc == "resources/read" and left else None

    backend.intercept = fail
    (uri,) = await client.names("resources/list")
    answer = await client.request("resources/read", {"uri": uri})
    assert answer.result["contents"][0]["text"] == "contents of doc://a"
    assert len(backend.seen("resources/read")) == 3


async def test_answers_are_never_repeated(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    async def wrong(call: Call) -> Any:
        return {**text("went wrong"), "isError": True}

    backend.tool("wrong", wrong, **IDEMPOTENT)
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=QUICK)))
    client = await proxy.client()
    assert (await client.call("one_wrong")).result["isError"] is True
    assert len(backend.calls_of("wrong")) == 1
    backend.tools.pop("wrong")
    assert (await client.call("one_wrong")).error["code"] == -32601
    assert len(backend.calls_of("wrong")) == 2


async def test_a_backend_in_trouble_gets_few_more_requests_than_without_retries(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    backend.tool("again", **IDEMPOTENT)
    await proxy.apply(http("one", backend.url, policy=RequestPolicy(retry=Retry(max_attempts=10, backoff=0.001))))
    client = await proxy.client()
    await outages(backend, *[HttpAnswer(503, b"overloaded")] * 10_000)
    started = asyncio.get_running_loop().time()
    answers = [await client.call("one_again") for _ in range(50)]
    elapsed = asyncio.get_running_loop().time() - started
    assert reasons(answers) == ["Unreachable"] * 50
    assert len(backend.calls_of("again")) <= 50 + 10 + 10 + elapsed + 1


@pytest.mark.parametrize("policy", [RequestPolicy(), RequestPolicy(retry=QUICK)])
async def test_a_session_that_cannot_be_opened_is_a_request_that_did_not_run(
    proxy: RunningProxy, backend: ScriptedBackend, policy: RequestPolicy
) -> None:
    await proxy.apply(http("one", backend.url, policy=policy))
    client: Client = await proxy.client()
    left = [HttpAnswer(502, b"")] * 2

    async def fail(seen: Seen) -> HttpAnswer | None:
        return left.pop() if seen.rpc == "initialize" and left else None

    backend.intercept = fail
    expected = "ok" if policy.retry else "Unreachable"
    assert reasons([await client.call("one_bump")]) == [expected]
    assert len(backend.calls_of("bump")) == (1 if policy.retry else 0)
