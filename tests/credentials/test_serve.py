"""The command: a folder is served, a client calls, and a Secret that is edited is a new token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from tests.backends.scripted import ScriptedBackend
from tests.cli.conftest import PATIENCE, start_command
from tests.credentials.token_server import CLIENT, SECRET, TokenServer


def write(folder: Path, kind: str, **members: Any) -> None:
    version = "v1" if kind == "Secret" else "mcp-connections.io/v1alpha1"
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "shop"}, **members}
    (folder / f"{kind.lower()}.json").write_text(json.dumps(manifest))


async def test_a_folder_is_served_with_tokens_and_forwarded_headers(
    tmp_path: Path, backend: ScriptedBackend, tokens: TokenServer
) -> None:
    backend.intercept = tokens.guard
    write(tmp_path, "Secret", stringData={"secret": SECRET})
    credentials = {
        "tokenUrl": tokens.url,
        "clientId": CLIENT,
        "clientSecret": {"secretKeyRef": {"name": "shop", "key": "secret"}},
    }
    auth = {"oauthClientCredentials": credentials, "forwardHeaders": ["X-Tenant"]}
    write(tmp_path, "McpConnection", spec={"transport": {"http": {"url": backend.url}}, "auth": auth})

    async with start_command("serve", tmp_path, "--port", "0") as serve:
        transport = StreamableHttpTransport(await serve.endpoint(), headers={"X-Tenant": "blue", "X-Other": "o"})
        await serve.said(r"ready +default/shop")
        async with Client(transport, timeout=PATIENCE) as client:
            await client.call_tool_mcp("shop_echo", {})
            tokens.secret = "the-new-s3cret"
            tokens.revoke()
            await serve.said_anew(
                r"replaced +default/shop",
                lambda: write(tmp_path, "Secret", stringData={"secret": tokens.secret}),
            )
            await client.call_tool_mcp("shop_echo", {})
        output = serve.output

    first, second = backend.calls_of("echo")
    assert [seen.headers["authorization"] for seen in (first, second)] == [
        "Bearer token-number-1",
        "Bearer token-number-2",
    ]
    assert {seen.headers.get("x-tenant") for seen in (first, second)} == {"blue"}
    assert not any("x-other" in seen.headers for seen in backend.requests)
    for secret in (SECRET, "the-new-s3cret", "token-number"):
        assert secret not in output
