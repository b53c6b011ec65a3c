"""From a manifest to what a backend is sent: the client's headers that are named, with each request of its own."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest
from prometheus_client import generate_latest

from mcp_connections.proxy.admin.control import SourceError
from tests.backends.scripted import ScriptedBackend, Seen, text
from tests.channels.servers import serve
from tests.clients.stateless_client import StatelessClient
from tests.credentials.legacy_sse import LegacySse
from tests.credentials.site import Site
from tests.proxy.desired import desired, http
from tests.proxy.test_replicas import at, replicas

NAMES = ["X-Tenant", "X-Request-Id"]


async def forward(site: Site, backend: ScriptedBackend, names: list[str] = NAMES, **spec: Any) -> None:
    headers = spec.pop("headers", [])
    await site.apply(
        transport={"http": {"url": backend.url, "headers": headers}}, auth={"forwardHeaders": names}, **spec
    )
    assert site.report.ready


async def call(site: Site, tool: str = "shop_echo", **headers: str) -> Any:
    client = await site.proxy.client()
    params = {"name": tool, "arguments": {}}
    return await client.request("tools/call", params, **headers)


async def test_what_is_named_goes_with_the_request_and_nothing_else(site: Site, backend: ScriptedBackend) -> None:
    await forward(site, backend)

    answer = await call(site, x_tenant="blue", X_REQUEST_ID="7", x_other="o", authorization="Bearer mine", cookie="a=b")

    assert answer.text == "{}"
    (seen,) = backend.calls_of("echo")
    assert (seen.headers["x-tenant"], seen.headers["x-request-id"]) == ("blue", "7")
    assert not {"x-other", "authorization", "cookie"} & set(seen.headers)
    assert [each.rpc for each in backend.requests if "x-tenant" in each.headers] == ["tools/call"]


async def test_every_relayed_request_has_its_own(site: Site, backend: ScriptedBackend) -> None:
    async def prompt(_: Any) -> Any:
        return {"messages": []}

    backend.prompt("greet", prompt)
    backend.resource("file:///a")
    await forward(site, backend, session={"mode": "Shared"})
    one, other = [await site.proxy.client() for _ in range(2)]

    await asyncio.gather(
        *(
            client.request("tools/call", {"name": "shop_bump"}, x_tenant=f"{name}-{number}")
            for number in range(20)
            for name, client in (("one", one), ("other", other))
        )
    )
    await one.request("prompts/get", {"name": "shop_greet"}, x_tenant="p")
    await one.request("resources/read", {"uri": "file:///shop/a"}, x_tenant="r")
    ref = {"type": "ref/prompt", "name": "shop_greet"}
    await one.request("completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}}, x_tenant="c")
    await other.call("shop_bump")

    sent = [seen.headers.get("x-tenant") for seen in backend.calls_of("bump")]
    assert sorted(sent[:-1], key=str) == sorted(f"{name}-{n}" for n in range(20) for name in ("one", "other"))
    assert sent[-1] is None
    for method, tenant in (("prompts/get", "p"), ("resources/read", "r"), ("completion/complete", "c")):
        assert [seen.headers["x-tenant"] for seen in backend.seen(method)] == [tenant]


async def test_a_configured_header_wins(site: Site, backend: ScriptedBackend) -> None:
    await forward(site, backend, headers=[{"name": "x-tenant", "value": "configured"}])

    await call(site, x_tenant="of the client", x_request_id="7")

    (seen,) = backend.calls_of("echo")
    assert (seen.headers["x-tenant"], seen.headers["x-request-id"]) == ("configured", "7")


async def test_a_value_that_is_too_long_is_refused_with_a_reason(site: Site, backend: ScriptedBackend) -> None:
    await forward(site, backend)

    answer = await call(site, x_tenant="t" * 8193)

    assert "x-tenant has 8193 bytes, more than the 8192 that are passed on to connection default/shop" in str(
        answer.error
    )
    assert "ttt" not in str(answer.error)
    assert backend.calls_of("echo") == []
    assert site.report.ready


async def test_a_request_that_is_sent_again_has_them_and_the_session_opened_for_it_has_not(
    site: Site, backend: ScriptedBackend
) -> None:
    await forward(site, backend)
    client = await site.proxy.client()
    await client.call("shop_echo")
    backend.lose_sessions()

    assert (await client.request("tools/call", {"name": "shop_echo"}, x_tenant="blue")).text == "{}"

    assert [seen.headers.get("x-tenant") for seen in backend.calls_of("echo")] == [None, "blue", "blue"]
    assert not any("x-tenant" in seen.headers for seen in backend.seen("initialize"))


async def test_a_stream_that_is_resumed_has_them_too(site: Site, backend: ScriptedBackend) -> None:
    async def slow(each: Any) -> Any:
        each.interrupt("event-1")
        return text("done")

    backend.tool("slow", slow)
    backend.answers_with_sse = True
    await forward(site, backend)

    assert (await call(site, "shop_slow", x_tenant="blue")).text == "done"

    (resumed,) = [seen for seen in backend.requests if "last-event-id" in seen.headers]
    assert (resumed.method, resumed.headers["x-tenant"]) == ("GET", "blue")


async def test_stateless_clients_and_their_suspended_calls(site: Site, backend: ScriptedBackend) -> None:
    async def ask(each: Any) -> Any:
        answer = await each.ask("roots/list", {})
        return text(answer["result"]["roots"][0]["uri"])

    backend.tool("ask", ask)
    await forward(site, backend)
    client = StatelessClient(site.proxy.http, site.proxy.url, capabilities={"roots": {}})
    params: dict[str, Any] = {"name": "shop_ask", "arguments": {}}

    asked = (await client.request("tools/call", params, headers={"x-tenant": "blue"})).result
    (question,) = asked["inputRequests"]
    params |= {
        "inputResponses": {question: {"roots": [{"uri": "file:///r"}]}},
        "requestState": asked["requestState"],
    }
    answered = await client.request("tools/call", params, headers={"x-tenant": "green"})

    assert answered.text == "file:///r"
    assert [seen.headers.get("x-tenant") for seen in backend.calls_of("ask")] == ["blue"]


async def test_another_replica_passes_them_on(backend: ScriptedBackend) -> None:
    spec = http("b", backend.url)
    spec = spec.model_copy(update={"server": spec.server.model_copy(update={"forward_headers": ("x-tenant",)})})
    async with replicas(2) as (one, two):
        for proxy in (one, two):
            await proxy.registry.apply(desired(spec))
        client = at(await one.client(), two)

        assert (await client.request("tools/call", {"name": "b_bump"}, x_tenant="blue")).text == "1"
        hop = await client.request("tools/call", {"name": "b_bump"}, x_tenant="red", connection="x-tenant")

    assert hop.text == "2"
    assert [seen.headers.get("x-tenant") for seen in backend.calls_of("bump")] == ["blue", None]


async def test_legacy_sse_has_them_on_its_posts(site: Site) -> None:
    async with AsyncExitStack() as stack:
        backend = LegacySse()
        authority = await serve(stack, backend.routes())
        await site.apply(transport={"sse": {"url": f"http://{authority}/sse"}}, auth={"forwardHeaders": ["X-Tenant"]})
        await site.proxy.until(lambda: site.report.ready)

        assert (await call(site, x_tenant="blue")).text == "echo"

        assert [
            (message["method"], headers.get("X-Tenant", headers.get("x-tenant")))
            for message, headers in backend.posted
            if message["method"] == "tools/call" or "x-tenant" in {name.lower() for name in headers}
        ] == [("tools/call", "blue")]
        await site.proxy.registry.aclose()


async def test_nothing_of_them_is_in_logs_status_or_metrics(
    site: Site, backend: ScriptedBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def intercept(seen: Seen) -> Any:
        if seen.rpc == "tools/call" and seen.message["params"]["name"] == "bump":
            backend.server.drop_connections(seen.client)
        return None

    caplog.set_level(logging.DEBUG)
    backend.intercept = intercept
    await forward(site, backend)
    for tool in ("shop_echo", "shop_bump"):
        await call(site, tool, x_tenant="t0p-secret-tenant")

    assert backend.calls_of("echo")[0].headers["x-tenant"] == "t0p-secret-tenant"
    metrics = generate_latest(site.proxy.process.metrics.registry).decode()
    assert "default/shop" in metrics
    for told in (caplog.text, str(site.status), str(site.report), metrics):
        assert "t0p-secret-tenant" not in told


@pytest.mark.parametrize(
    ("transport", "name", "complaint"),
    [
        (
            {"http": {"url": "http://h"}},
            "Authorization",
            r"spec.auth.forwardHeaders\[0\]: must not be a header that is",
        ),
        ({"webSocket": {"url": "ws://h"}}, "X-Tenant", "spec.auth.forwardHeaders: must not be set for a webSocket or"),
        (
            {"stdio": {"command": ["server"]}},
            "X-Tenant",
            "spec.auth.forwardHeaders: must not be set for a webSocket or",
        ),
    ],
)
async def test_what_cannot_be_passed_on_is_refused(
    site: Site, transport: dict[str, Any], name: str, complaint: str
) -> None:
    with pytest.raises(SourceError, match=complaint):
        await site.apply(transport=transport, auth={"forwardHeaders": [name]})
