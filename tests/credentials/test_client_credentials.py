"""From a manifest to a backend that takes tokens of one authorization server only."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import generate_latest

from tests.backends.raw_server import Connection, raw_server
from tests.backends.scripted import HttpAnswer, ScriptedBackend, Seen
from tests.channels.servers import WebSocketBackend, make_certificate, serve
from tests.credentials.legacy_sse import RESULTS, LegacySse
from tests.credentials.site import Site
from tests.credentials.token_server import CLIENT, SECRET, TokenServer
from tests.mounts.resources import conditions_of, messages_of


def oauth(tokens: TokenServer, **fields: Any) -> dict[str, Any]:
    return {
        "oauthClientCredentials": {
            "tokenUrl": tokens.url,
            "clientId": CLIENT,
            "clientSecret": {"secretKeyRef": {"name": "shop", "key": "secret"}},
            **fields,
        }
    }


async def start(site: Site, backend: ScriptedBackend, tokens: TokenServer, **spec: Any) -> None:
    """Serve a backend that takes the tokens of ``tokens``."""
    backend.intercept = tokens.guard
    site.secret(secret=SECRET)
    spec = {"transport": {"http": {"url": backend.url}}, "auth": oauth(tokens), **spec}
    await site.apply(**spec)


def tokens_of(requests: list[Seen]) -> list[str]:
    return [seen.headers.get("authorization", "") for seen in requests]


async def test_one_token_serves_all_sessions_and_every_kind_of_request(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    await start(site, backend, tokens, auth=oauth(tokens, scopes=["read", "write"]))
    assert site.report.ready
    clients = [await site.proxy.client(listening=True) for _ in range(5)]

    assert [(await client.call("shop_bump")).text for client in clients] == ["1"] * 5
    await backend.until(lambda: sum(session.listening for session in backend.client_sessions) == 5)
    await clients[0].delete()
    await backend.until(lambda: any(seen.method == "DELETE" for seen in backend.requests))

    (asked,) = tokens.asked
    assert asked.basic == (CLIENT, SECRET)
    assert asked.form == {
        "grant_type": ["client_credentials"],
        "scope": ["read write"],
        "resource": [backend.url],
    }
    assert {seen.method for seen in backend.requests} == {"POST", "GET", "DELETE"}
    assert set(tokens_of(backend.requests)) == {"Bearer token-number-1"}


async def test_the_client_may_prove_itself_in_the_form(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    fields = {"clientAuthentication": "Post", "resource": "https://backend.example/"}
    await start(site, backend, tokens, auth=oauth(tokens, **fields))

    assert site.report.ready
    (asked,) = tokens.asked
    assert "authorization" not in asked.headers
    assert asked.form["client_secret"] == [SECRET]
    assert asked.form["resource"] == ["https://backend.example/"]


async def test_a_token_that_is_refused_is_replaced_once_for_all_and_the_requests_sent_again(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    await start(site, backend, tokens)
    clients = [await site.proxy.client() for _ in range(8)]
    await asyncio.gather(*(client.call("shop_bump") for client in clients))
    tokens.revoke()

    answers = await asyncio.gather(*(client.call("shop_bump") for client in clients))

    assert [answer.text for answer in answers] == ["2"] * 8
    assert len(tokens.asked) == 2
    assert site.report.ready
    executed = [seen for seen in backend.calls_of("bump") if seen.headers["authorization"] == "Bearer token-number-2"]
    assert len(executed) == 8


async def test_a_token_that_has_expired_is_not_sent(site: Site, backend: ScriptedBackend, tokens: TokenServer) -> None:
    tokens.members["expires_in"] = 0
    await start(site, backend, tokens)
    client = await site.proxy.client()
    for _ in range(3):
        await client.call("shop_echo")

    used = tokens_of(backend.calls_of("echo"))
    assert len(set(used)) == len(used) == 3


async def test_a_backend_that_takes_no_token_is_unauthorized_and_each_is_sent_twice_at_most(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    async def refuse(seen: Seen) -> HttpAnswer:
        return HttpAnswer(401, f"not with {seen.headers['authorization']}".encode())

    await start(site, backend, tokens)
    client = await site.proxy.client()
    backend.intercept = refuse

    error = (await client.call("shop_echo")).error

    assert error["data"] == {"connection": "default/shop", "reason": "Unauthorized"}
    assert "refused the credential (HTTP 401)" in error["message"]
    assert len(backend.calls_of("echo")) <= 2
    await site.proxy.until(lambda: conditions_of(site.status)["Ready"] == ("False", "Unauthorized"))


async def test_a_refused_secret_is_told_and_its_rotation_takes_effect(
    site: Site, backend: ScriptedBackend, tokens: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens.secret = "the-new-s3cret"
    await start(site, backend, tokens)

    assert conditions_of(site.status)["Ready"] == ("False", "Unauthorized")
    message = messages_of(site.status)["Ready"]
    assert f"the token endpoint {tokens.url} refused to give a token (HTTP 401, invalid_client" in message
    assert "check spec.auth.oauthClientCredentials: clientId" in message
    assert backend.requests == []
    before = site.report.fingerprint

    site.secret(secret="the-new-s3cret")
    await site.reload()

    assert conditions_of(site.status)["Ready"] == ("True", "Ready")
    assert site.report.fingerprint != before
    assert (await (await site.proxy.client()).call("shop_echo")).text == "{}"
    for told in (caplog.text, message, str(site.report), repr(site.desired), str(site.status)):
        assert SECRET not in told
        assert "the-new-s3cret" not in told


async def test_a_rotation_leaves_calls_in_flight_alone(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    gate = backend.gated_tool("slow")
    await start(site, backend, tokens)
    client = await site.proxy.client()
    call = asyncio.create_task(client.call("shop_slow"))
    await backend.until(lambda: backend.calls_of("slow"))

    tokens.secret = "the-new-s3cret"
    site.secret(secret="the-new-s3cret")
    await site.reload()
    assert (await client.call("shop_echo")).text == "{}"
    gate.open()

    assert (await call).text
    assert tokens_of(backend.calls_of("slow")) == ["Bearer token-number-1"]
    assert tokens_of(backend.calls_of("echo")) == ["Bearer token-number-2"]


@pytest.mark.parametrize(
    ("instead", "reason", "part"),
    [
        (HttpAnswer(400, b'{"error":"invalid_scope"}'), "Unauthorized", "oauthClientCredentials.scopes"),
        (HttpAnswer(503), "Unreachable", "answered HTTP 503"),
        (HttpAnswer(307, headers={"location": "/elsewhere"}), "Unreachable", "redirects (HTTP 307)"),
        (HttpAnswer(200, b"<html>log in</html>"), "ProtocolError", "is no JSON object"),
        (HttpAnswer(200, b'"' + b"x" * 70_000 + b'"'), "ProtocolError", "more than 65536 bytes"),
        (HttpAnswer(200, json.dumps({"access_token": "a\r\nb"}).encode()), "ProtocolError", "no access_token"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, HttpAnswer) else "",
)
async def test_what_a_token_endpoint_says_instead_is_told_and_got_over(
    site: Site, backend: ScriptedBackend, tokens: TokenServer, instead: HttpAnswer, reason: str, part: str
) -> None:
    tokens.instead = instead
    await start(site, backend, tokens)

    assert conditions_of(site.status)["Ready"] == ("False", reason)
    message = messages_of(site.status)["Ready"]
    assert f"the token endpoint {tokens.url}" in message
    assert part in message
    assert backend.requests == []

    tokens.instead = None
    await site.proxy.until(lambda: site.report.ready)


async def test_an_endpoint_that_is_not_there_is_unreachable(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    await tokens.server.stop()
    await start(site, backend, tokens)

    assert conditions_of(site.status)["Ready"] == ("False", "Unreachable")
    assert f"the token endpoint {tokens.url}: cannot connect" in messages_of(site.status)["Ready"]
    await tokens.server.start()
    await site.proxy.until(lambda: site.report.ready)


async def test_an_endpoint_that_is_slow_is_a_timeout_that_says_so(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    tokens.open.clear()
    await start(site, backend, tokens, policy={"timeouts": {"connect": "100ms"}})
    await site.proxy.until(lambda: conditions_of(site.status)["Ready"] == ("False", "Timeout"))

    message = messages_of(site.status)["Ready"]
    assert f"the token endpoint {tokens.url} did not answer within 0.1 s (policy.timeouts.connect)" in message
    assert backend.requests == []


async def test_clients_do_not_multiply_the_attempts_at_a_token(
    site: Site, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    await start(site, backend, tokens)
    clients = [await site.proxy.client() for _ in range(10)]
    await asyncio.gather(*(client.call("shop_echo") for client in clients))
    tokens.revoke()
    tokens.instead = HttpAnswer(400, b'{"error":"invalid_client"}')
    asked = len(tokens.asked)

    for _ in range(5):
        answers = await asyncio.gather(*(client.call("shop_echo") for client in clients))
        assert {answer.error["data"]["reason"] for answer in answers} == {"Unauthorized"}

    # Counted, not timed: fifty requests, and an attempt for none of them but the first after a pause.
    assert len(tokens.asked) - asked < 25


async def test_a_backend_that_repeats_its_token_is_quoted_without_it(
    site: Site, backend: ScriptedBackend, tokens: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(seen: Seen) -> HttpAnswer | None:
        if seen.rpc == "tools/call":
            return HttpAnswer(500, f"cannot use {seen.headers['authorization']}".encode())
        return await tokens.guard(seen)

    caplog.set_level(logging.DEBUG)
    await start(site, backend, tokens)
    backend.intercept = fail

    answer = await (await site.proxy.client()).call("shop_echo")

    assert "cannot use Bearer [redacted]" in answer.error["message"]
    metrics = generate_latest(site.proxy.process.metrics.registry).decode()
    for told in (caplog.text, str(answer.error), str(site.report), str(site.status), metrics):
        assert "token-number-1" not in told
        assert SECRET not in told


async def test_legacy_sse_and_a_token_that_is_revoked(site: Site, tokens: TokenServer) -> None:
    async with AsyncExitStack() as stack:
        backend = LegacySse(admits=lambda header: header.removeprefix("Bearer ") in tokens.valid)
        authority = await serve(stack, backend.routes())
        site.secret(secret=SECRET)
        await site.apply(transport={"sse": {"url": f"http://{authority}/sse"}}, auth=oauth(tokens))
        await site.proxy.until(lambda: site.report.ready)
        client = await site.proxy.client()
        assert (await client.call("shop_echo")).text == "echo"
        tokens.revoke()

        assert (await client.call("shop_echo")).text == "echo"

        calls = [headers["Authorization"] for message, headers in backend.posted if message["method"] == "tools/call"]
        assert calls == ["Bearer token-number-1", "Bearer token-number-2"]
        tokens.revoke()
        assert (await (await site.proxy.client()).call("shop_echo")).text == "echo"  # by a stream of its own
        assert len(tokens.asked) == 3
        await site.proxy.registry.aclose()


class GuardedWebSocket(WebSocketBackend):
    """A small MCP server over WebSocket that asks for a token in the handshake."""

    tokens: TokenServer

    async def ws(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens.valid:
            return web.Response(status=401)
        return await super().ws(request)

    async def react(self, socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        if "id" in message:
            result = RESULTS[message["method"]]
            await socket.send_str(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))


async def test_a_web_socket_has_it_in_its_handshake(site: Site, tokens: TokenServer) -> None:
    async with AsyncExitStack() as stack:
        backend = GuardedWebSocket()
        backend.tokens = tokens
        authority = await serve(stack, backend.routes())
        site.secret(secret=SECRET)
        await site.apply(transport={"webSocket": {"url": f"ws://{authority}/ws"}}, auth=oauth(tokens))
        await site.proxy.until(lambda: site.report.ready)
        tokens.revoke()

        assert (await (await site.proxy.client()).call("shop_echo")).text == "echo"

        sent = [headers["Authorization"] for headers in backend.headers]
        assert sent == ["Bearer token-number-1", "Bearer token-number-2"]
        await site.proxy.registry.aclose()


async def test_the_connections_authorities_are_trusted_for_the_endpoint_too(
    site: Site, backend: ScriptedBackend, tokens: TokenServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    certificate = make_certificate(Path(tmp_path_factory.mktemp("tls")))
    tokens.valid.add("t0ken-by-tls")

    async def answer(connection: Connection) -> None:
        await connection.request()
        body = b'{"access_token":"t0ken-by-tls","token_type":"Bearer","expires_in":60}'
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    backend.intercept = tokens.guard
    async with raw_server(answer, certificate.server) as server:
        auth = oauth(tokens, tokenUrl=f"https://127.0.0.1:{server.port}/token")
        site.secret(secret=SECRET, ca=certificate.authority)
        await site.apply(transport={"http": {"url": backend.url}}, auth=auth)
        untrusted = messages_of(site.status)["Ready"]
        reference = {"secretKeyRef": {"name": "shop", "key": "ca"}}
        await site.apply(transport={"http": {"url": backend.url, "caBundleRef": reference}}, auth=auth)

        assert f"https://127.0.0.1:{server.port}/token: its TLS certificate is not trusted" in untrusted
        assert site.report.ready, site.report.message
        assert set(tokens_of(backend.requests)) == {"Bearer t0ken-by-tls"}
