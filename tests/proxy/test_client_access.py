"""Who is let in, what they are told at the door, and which connections are there for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc import jwk

from mcp_connections.mounts.spec import Access, AllowRule, JwtAccess
from mcp_connections.proxy.access.client_access import Principal, may_use
from tests.backends.scripted import ScriptedBackend
from tests.clients.stateless_client import StatelessClient
from tests.proxy.client import Client
from tests.proxy.conftest import MakeBackend
from tests.proxy.desired import desired, http
from tests.proxy.running import RunningProxy

ISSUER, AUDIENCE = "https://issuer.example", "https://mcp.example/mcp"
STATELESS_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Issuer:
    """An authorization server as far as a resource server sees it: its published keys."""

    def __init__(self) -> None:
        self.keys: dict[str, RSAKeyPair] = {}
        self.asked = 0
        self.uri = ""
        self.rotate("one")

    def rotate(self, kid: str) -> None:
        """Sign with a new key, and publish that alone."""
        self.keys = {kid: RSAKeyPair.generate()}

    async def jwks(self, _request: web.Request) -> web.Response:
        self.asked += 1
        published = []
        for kid, pair in self.keys.items():
            public = jwk.import_key(pair.public_key, "RSA").as_dict(private=False)
            published.append({**public, "kid": kid, "alg": "RS256", "use": "sig"})
        return web.json_response({"keys": published})

    def token(self, **changes: Any) -> str:
        """A good token but for ``changes``."""
        kid, pair = next(iter(self.keys.items()))
        settings: dict[str, Any] = {"subject": "ann", "issuer": ISSUER, "audience": AUDIENCE, "scopes": ["use"]}
        return pair.create_token(**{**settings, "kid": kid, **changes})


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_get("/jwks", issuer.jwks)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    issuer.uri = f"http://127.0.0.1:{runner.addresses[0][1]}/jwks"
    yield issuer
    await runner.cleanup()


def jwt_access(issuer: Issuer, *scopes: str) -> Access:
    jwt = JwtAccess(issuer=ISSUER, audience=AUDIENCE, jwks_uri=issuer.uri, required_scopes=scopes)
    return Access(method="jwt", jwt=jwt)


async def client_with(proxy: RunningProxy, token: str) -> Client:
    """A client that presents ``token`` with every request, and has a session."""
    client = proxy.new_client()
    bare = client.headers

    def headers(**extra: str) -> dict[str, str]:
        return {"authorization": f"Bearer {token}", **bare(**extra)}

    client.headers = headers  # type: ignore[method-assign]
    await client.initialize()
    return client


def ping() -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'


# one token for all


async def test_only_the_token_of_the_endpoint_lets_in(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    access = Access(method="bearer", bearer_token="s3cret-token")
    await proxy.registry.apply(desired(http("one", backend.url), access=access))
    stranger = proxy.new_client()
    for authorization in ("", "Bearer", "Bearer ", "Bearer s3cret", "Bearer s3cret-token2", "Basic s3cret-token"):
        answer = await stranger.post(ping(), authorization=authorization)
        assert answer.status == 401, authorization
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "s3cret" not in answer.body.decode()
    friend = await client_with(proxy, "s3cret-token")
    assert (await friend.call("one_echo", {"text": "hi"})).status == 200


async def test_a_rotated_token_counts_at_once_and_sessions_need_it_too(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    mount = http("one", backend.url)
    await proxy.registry.apply(desired(mount, access=Access(method="bearer", bearer_token="old")))
    client = await client_with(proxy, "old")
    before = proxy.mount("one")
    await proxy.registry.apply(desired(mount, access=Access(method="bearer", bearer_token="new")))
    assert (await client.request("ping")).status == 401
    assert (await client.request("ping", authorization="Bearer new")).status == 200
    assert proxy.mount("one") is before


async def test_a_stream_that_is_open_does_not_outlive_the_leave_it_was_opened_with(
    proxy: RunningProxy, backend: ScriptedBackend
) -> None:
    await proxy.apply(http("one", backend.url))
    await proxy.announced()
    client = await proxy.client(listening=True)
    stateless = StatelessClient(proxy.http, proxy.url)
    async with stateless.listening(toolsListChanged=True) as stream:
        await proxy.registry.apply(
            desired(
                http("one", backend.url), http("two", backend.url), access=Access(method="bearer", bearer_token="x")
            )
        )
        await stream.ended()
    await client.until_stream_ends()
    assert client.heard_of("notifications/tools/list_changed") == []


async def test_without_its_token_an_endpoint_lets_nobody_in(proxy: RunningProxy) -> None:
    await proxy.registry.apply(desired(access=Access(method="bearer")))
    assert (await proxy.new_client().post(ping(), authorization="Bearer ")).status == 401
    assert (await proxy.new_client().post(ping(), authorization="Bearer None")).status == 401


async def test_credentials_of_clients_never_reach_a_backend(proxy: RunningProxy, backend: ScriptedBackend) -> None:
    access = Access(method="bearer", bearer_token="s3cret-token")
    await proxy.registry.apply(desired(http("one", backend.url), access=access))
    client = await client_with(proxy, "s3cret-token")
    await client.call("one_echo", {"text": "hi"})
    assert backend.requests
    assert not any("authorization" in call.headers for call in backend.requests)


# tokens of an authorization server


async def test_a_token_of_the_issuer_for_this_audience_lets_in(
    proxy: RunningProxy, backend: ScriptedBackend, issuer: Issuer
) -> None:
    await proxy.registry.apply(desired(http("one", backend.url), access=jwt_access(issuer)))
    client = await client_with(proxy, issuer.token())
    for _ in range(5):
        assert (await client.call("one_echo", {"text": "hi"})).status == 200
    assert issuer.asked == 1


@pytest.mark.parametrize(
    "changes",
    [{"issuer": "https://other.example"}, {"audience": "https://other.example"}, {"expires_in_seconds": -10}],
    ids=["another issuer", "another audience", "expired"],
)
async def test_other_tokens_do_not(proxy: RunningProxy, issuer: Issuer, changes: dict[str, Any]) -> None:
    await proxy.registry.apply(desired(access=jwt_access(issuer)))
    answer = await proxy.new_client().post(ping(), authorization=f"Bearer {issuer.token(**changes)}")
    assert answer.status == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


async def test_tokens_signed_by_somebody_else_or_not_at_all_do_not(proxy: RunningProxy, issuer: Issuer) -> None:
    await proxy.registry.apply(desired(access=jwt_access(issuer)))
    forger = Issuer()
    unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."
    for token in (forger.token(), unsigned, "a.b.c", "nonsense"):
        assert (await proxy.new_client().post(ping(), authorization=f"Bearer {token}")).status == 401


async def test_a_missing_scope_is_403_and_named(proxy: RunningProxy, issuer: Issuer) -> None:
    await proxy.registry.apply(desired(access=jwt_access(issuer, "use", "admin")))
    answer = await proxy.new_client().post(ping(), authorization=f"Bearer {issuer.token()}")
    assert answer.status == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="use admin"' in challenge


async def test_a_client_without_token_is_told_where_to_get_one(proxy: RunningProxy, issuer: Issuer) -> None:
    await proxy.registry.apply(desired(access=jwt_access(issuer, "use")))
    answer = await proxy.new_client().post(ping())
    assert answer.status == 401
    where = answer.headers["www-authenticate"].partition('resource_metadata="')[2].partition('"')[0]
    assert where == f"{proxy.origin}/.well-known/oauth-protected-resource/mcp"
    async with proxy.http.get(where) as response:
        assert response.status == 200
        assert await response.json() == {
            "resource": f"{proxy.origin}/mcp",
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["use"],
        }


async def test_no_metadata_without_an_authorization_server(proxy: RunningProxy) -> None:
    async with proxy.http.get(f"{proxy.origin}/.well-known/oauth-protected-resource") as response:
        assert response.status == 404


async def test_new_keys_of_the_issuer_are_fetched(
    proxy: RunningProxy, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_connections.proxy.access.client_access.JWKS_REFRESH_SECONDS", 0.0)
    await proxy.registry.apply(desired(access=jwt_access(issuer)))
    await client_with(proxy, issuer.token())
    issuer.rotate("two")
    await client_with(proxy, issuer.token())
    assert issuer.asked == 2


async def test_a_session_belongs_to_its_principal(
    proxy: RunningProxy, backend: ScriptedBackend, issuer: Issuer
) -> None:
    await proxy.registry.apply(desired(http("one", backend.url), access=jwt_access(issuer)))
    ann = await client_with(proxy, issuer.token())
    bob = issuer.token(subject="bob")
    assert (await ann.request("ping", authorization=f"Bearer {bob}")).status == 404
    assert (await ann.request("ping")).status == 200


# connections that are not for everybody


async def test_what_a_client_may_not_use_is_not_there_for_it(
    proxy: RunningProxy, make_backend: MakeBackend, issuer: Issuer
) -> None:
    common, private = await make_backend(), await make_backend()
    allow = (AllowRule(scopes=("private",)),)
    await proxy.registry.apply(
        desired(http("one", common.url), http("two", private.url, allow=allow), access=jwt_access(issuer))
    )
    ann = await client_with(proxy, issuer.token())
    boss = await client_with(proxy, issuer.token(subject="boss", scopes=["use", "private"]))
    assert await ann.names() == ["one_echo", "one_bump"]
    assert await boss.names() == ["one_echo", "one_bump", "two_echo", "two_bump"]
    denied = (await ann.call("two_echo", {"text": "hi"})).error
    assert denied == (await ann.call("three_echo", {"text": "hi"})).error | {"message": "Unknown tool: two_echo"}
    assert (await boss.call("two_echo", {"text": "hi"})).result
    assert [call.rpc for call in private.requests].count("tools/call") == 1


async def test_stateless_clients_see_what_their_token_allows(
    proxy: RunningProxy, make_backend: MakeBackend, issuer: Issuer
) -> None:
    private = await make_backend()
    allow = (AllowRule(claims={"team": ("red", "blue")}),)
    await proxy.registry.apply(desired(http("two", private.url, allow=allow), access=jwt_access(issuer)))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": STATELESS_META}})
    counts = []
    for team in ("red", "green"):
        token = issuer.token(additional_claims={"team": [team]})
        answer = await proxy.new_client().post(
            body.encode(),
            authorization=f"Bearer {token}",
            mcp_protocol_version="2026-07-28",
            mcp_method="tools/list",
        )
        counts.append(len(answer.result["tools"]))
    assert counts == [2, 0]


@pytest.mark.parametrize(
    ("rules", "admitted"),
    [
        ((), True),
        ((AllowRule(scopes=("a",)),), True),
        ((AllowRule(scopes=("a", "b")),), True),
        ((AllowRule(scopes=("a", "c")),), False),
        ((AllowRule(scopes=("c",)), AllowRule(scopes=("b",))), True),
        ((AllowRule(claims={"team": ("red",)}),), True),
        ((AllowRule(claims={"team": ("blue",)}),), False),
        ((AllowRule(claims={"level": ("3",)}),), True),
        ((AllowRule(claims={"staff": ("true",)}),), True),
        ((AllowRule(claims={"absent": ("x",)}),), False),
        ((AllowRule(scopes=("a",), claims={"team": ("blue",)}),), False),
    ],
)
def test_rules(rules: tuple[AllowRule, ...], admitted: bool) -> None:
    principal = Principal("ann", frozenset({"a", "b"}), {"team": ["red", "x"], "level": 3, "staff": True})
    assert may_use(rules, principal) is admitted
