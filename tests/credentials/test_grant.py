"""The client credentials grant on paper: what is sent, and what is made of each answer."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from mcp_connections.mounts.spec import ClientCredentials, HttpServer
from mcp_connections.proxy.channels.backend_client import secrets_of
from mcp_connections.proxy.channels.channel import ChannelError, ProtocolViolation, Unreachable
from mcp_connections.proxy.channels.client_credentials import (
    TOKEN_BYTES,
    TokenEndpoint,
    refusal_of,
    request_of,
    token_of,
)
from mcp_connections.proxy.channels.redaction import LEARNED, Redactor

WHERE = "the token endpoint https://idp.example/token"
SECRET = "s3cret:of/the +client"
CREDENTIALS = ClientCredentials(token_url="https://idp.example/token", client_id="me:1", client_secret=SECRET)


def test_the_client_proves_itself_in_a_header_with_both_parts_encoded() -> None:
    headers, form = request_of(CREDENTIALS)

    encoded = headers["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(encoded) == b"me%3A1:s3cret%3Aof%2Fthe+%2Bclient"
    assert form == b"grant_type=client_credentials"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_or_in_the_form_with_what_it_asks_for() -> None:
    more = {"client_authentication": "Post", "scopes": ("read", "write:all"), "resource": "https://b.example/mcp"}
    headers, form = request_of(CREDENTIALS.model_copy(update=more))

    assert "Authorization" not in headers
    assert parse_qs(form.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["read write:all"],
        "resource": ["https://b.example/mcp"],
        "client_id": ["me:1"],
        "client_secret": [SECRET],
    }


@pytest.mark.parametrize(
    ("members", "lifetime"),
    [
        ({"expires_in": 300}, 300.0),
        ({"expires_in": "300"}, 300.0),
        ({"expires_in": 0.5}, 0.5),
        ({"expires_in": -1}, 0.0),
        ({}, None),
        ({"expires_in": None}, None),
        ({"expires_in": True}, None),
        ({"expires_in": "soon"}, None),
        ({"expires_in": float("inf")}, None),
        ({"expires_in": 10**400}, None),
        ({"expires_in": [300]}, None),
        ({"token_type": "bearer", "expires_in": 1}, 1.0),
    ],
)
def test_how_long_a_token_is_good_for(members: dict[str, Any], lifetime: float | None) -> None:
    token = token_of(json.dumps({"access_token": "t0ken", "token_type": "Bearer", **members}).encode(), WHERE)

    assert (token.text, token.lifetime) == ("t0ken", lifetime)
    assert "t0ken" not in repr(token)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "is no JSON object"),
        (b"<html>", "is no JSON object"),
        (b"[" * 100_000, "is no JSON object"),
        (b'["t"]', "is no JSON object"),
        (b"{}", "has no access_token"),
        (b'{"access_token":1}', "has no access_token"),
        (b'{"access_token":""}', "has no access_token"),
        (b'{"access_token":"a\\r\\nX-Evil: 1"}', "has no access_token"),
        (b'{"access_token":"a b"}', "has no access_token"),
        ('{"access_token":"ü"}'.encode(), "has no access_token"),
        (b'{"access_token":"%s"}' % (b"a" * (TOKEN_BYTES + 1)), "has no access_token"),
        (b'{"access_token":"t","token_type":"DPoP"}', "has another token_type than Bearer"),
        (b'{"access_token":"t","token_type":7}', "has another token_type than Bearer"),
    ],
)
def test_an_answer_that_is_no_token(body: bytes, problem: str) -> None:
    with pytest.raises(ProtocolViolation, match=problem) as caught:
        token_of(body, WHERE)
    assert str(caught.value).startswith(f"{WHERE} gave an answer that ")
    assert str(caught.value).endswith("check spec.auth.oauthClientCredentials.tokenUrl")
    assert not caught.value.executed


@pytest.mark.parametrize("url", ["http://a..b/token", f"http://{'a' * 64}.example/token"])
async def test_a_host_name_that_cannot_be_is_told(url: str) -> None:
    endpoint = TokenEndpoint(
        CREDENTIALS.model_copy(update={"token_url": url}), ca_bundle=None, timeout=20.0, redactor=Redactor(())
    )
    with pytest.raises(Unreachable, match="the URL is of no use; check spec"):
        await endpoint.fetch()


def error(code: str, description: str | None = None) -> bytes:
    return json.dumps({"error": code} | ({"error_description": description} if description else {})).encode()


@pytest.mark.parametrize(
    ("status", "body", "reason", "parts"),
    [
        (401, error("invalid_client", "who?"), "Unauthorized", ["401, invalid_client: who?", "clientSecret"]),
        (400, error("invalid_client"), "Unauthorized", ["400, invalid_client)", "clientId"]),
        (400, error("invalid_scope"), "Unauthorized", ["spec.auth.oauthClientCredentials.scopes"]),
        (400, error("invalid_target"), "Unauthorized", ["spec.auth.oauthClientCredentials.resource"]),
        (400, error("unauthorized_client"), "Unauthorized", ["allow this client the grant"]),
        (403, b"<html>no</html>", "Unauthorized", ["HTTP 403)", "clientSecret"]),
        (400, b'{"error":{"code":1},"error_description":[]}', "Unauthorized", ["HTTP 400)"]),
        (404, b"", "Unreachable", ["HTTP 404", "tokenUrl"]),
        (405, b"", "Unreachable", ["HTTP 405", "tokenUrl"]),
        (302, b"", "Unreachable", ["redirects (HTTP 302)", "tokenUrl"]),
        (429, b"", "Unreachable", ["HTTP 429", "asked again by itself"]),
        (503, error("temporarily_unavailable"), "Unreachable", ["503, temporarily_unavailable", "by itself"]),
    ],
)
def test_refusals_say_why_and_what_to_do(status: int, body: bytes, reason: str, parts: list[str]) -> None:
    fault: ChannelError = refusal_of(status, body, WHERE, Redactor(()))

    assert fault.reason == reason
    assert str(fault).startswith(WHERE)
    assert not fault.executed
    for part in parts:
        assert part in str(fault)


def test_a_refusal_that_repeats_the_secret_is_quoted_without_it() -> None:
    server = HttpServer(url="https://b.example/mcp", client_credentials=CREDENTIALS)
    fault = refusal_of(400, error("invalid_client", f"{SECRET} is\r\nwrong"), WHERE, Redactor(secrets_of(server)))

    assert "[redacted] is wrong" in str(fault)
    assert SECRET not in repr(server)
    assert SECRET not in repr(CREDENTIALS)


def test_a_redactor_learns_and_forgets() -> None:
    redactor = Redactor(["configured"])
    for number in range(LEARNED + 1):
        redactor.learn(f"token-number-{number}")
    redactor.learn(f"token-number-{LEARNED}")

    said = " ".join(["configured", *(f"token-number-{number}" for number in range(LEARNED + 1))])
    assert redactor.clean(said.encode()) == " ".join(["[redacted]", "token-number-0", *["[redacted]"] * LEARNED])
