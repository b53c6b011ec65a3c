"""``check`` tells whether an endpoint serves, for scripts and for the test of a release."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

from mcp_connections.cli.check import _reason
from tests.cli.conftest import run, start_command


async def test_it_counts_the_tools_of_an_endpoint(folder: Path) -> None:
    async with start_command("serve", folder, "--port", "0") as serve:
        await serve.said("ready +default/alpha")
        await serve.said("ready +default/beta")
        url = await serve.endpoint()
        done = await asyncio.to_thread(run, "check", url)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{url} is ")
    assert done.stdout.endswith("with 3 tools.\n")


async def test_it_presents_the_token_of_a_client(folder: Path) -> None:
    proxy = {
        "apiVersion": "mcp-connections.io/v1alpha1",
        "kind": "McpProxy",
        "metadata": {"name": "default"},
        "spec": {"auth": {"bearerTokenRef": {"name": "clients", "key": "token"}}},
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "clients"}, "stringData": {"token": "s3cret"}}
    (folder / "proxy.yaml").write_text(f"{json.dumps(proxy)}\n---\n{json.dumps(secret)}\n")
    (folder.parent / "token").write_text("s3cret\n")
    async with start_command("serve", folder, "--port", "0") as serve:
        url = await serve.endpoint()
        refused = await asyncio.to_thread(run, "check", url)
        served = await asyncio.to_thread(run, "check", url, "--token-file", folder.parent / "token")
        (folder.parent / "token").write_text("another\n")
        wrong = await asyncio.to_thread(run, "check", url, "--token-file", folder.parent / "token")

    assert refused.returncode == 1
    assert f"{url} answers HTTP 401: give the token of a client with --token-file." in refused.stderr
    assert served.returncode == 0, served.stderr
    assert wrong.stderr == (
        f"mcp-connections: {url} answers HTTP 401: the token in --token-file is not accepted: the token is not the one "
        "of this endpoint. Give the token of a client of this endpoint.\n"
    )


async def test_it_waits_for_an_endpoint_to_come_up(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    async with start_command("check", url, "--wait", "60") as check:
        await asyncio.sleep(1.5)
        assert check.process.returncode is None
        async with start_command("serve", folder, "--port", str(port)):
            await check.said("with \\d tools?")


def test_it_tells_what_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        where = f"127.0.0.1:{holder.getsockname()[1]}"

    done = run("check", f"http://{where}/mcp")

    assert done.returncode == 1
    assert done.stderr == (
        f"mcp-connections: http://{where}/mcp: cannot connect to {where}: Connection refused. See whether the proxy is "
        "up and ready.\n"
    )


async def test_it_needs_no_scheme() -> None:
    async with answering(HTTPStatus.NOT_FOUND, "") as url:
        done = await asyncio.to_thread(run, "check", url.removeprefix("http://"))

    assert f"{url} answers HTTP 404." in done.stderr


async def test_it_tells_what_is_not_an_endpoint() -> None:
    for status, body, said in (
        (HTTPStatus.NOT_FOUND, "no", "answers HTTP 404. Check the URL"),
        (
            HTTPStatus.METHOD_NOT_ALLOWED,
            "no",
            "HTTP 405 to POST. It may be an endpoint of the older transport HTTP",
        ),
        (HTTPStatus.OK, "<html>", "answers, but not as MCP has it"),
        (HTTPStatus.OK, '{"result": {}}', "answers, but not as MCP has it"),
        (HTTPStatus.OK, '{"error": {"message": "go away"}}', "answers initialize with an error: go away."),
        (HTTPStatus.SERVICE_UNAVAILABLE, "", "it answers HTTP 503. See whether"),
    ):
        async with answering(status, body) as url:
            done = await asyncio.to_thread(run, "check", url)
        assert done.returncode == 1
        assert said in done.stderr


def test_it_takes_a_url() -> None:
    for wrong in ("ftp://127.0.0.1:8000", "http://", "http://host:port/mcp", ""):
        done = run("check", wrong)
        assert done.returncode == 2
        assert f"{wrong!r} is not a URL. Give one such as" in done.stderr


def test_a_refusal_is_quoted_in_short() -> None:
    assert _reason(b'{"error": {"code": -32600, "message": "no such token."}}') == "no such token"
    assert _reason(b'{"error": "invalid_token", "error_description": "expired"}') == "expired"
    assert _reason(b'{"detail": "Not authenticated"}') == "Not authenticated"
    assert _reason(b"Unauthorized\r\n") == "Unauthorized"
    assert _reason(b"\x1b[31mred") == "\\x1b[31mred"
    assert _reason(b"<html>no</html>") == _reason(b"[]") == _reason(b"") == ""
    assert len(_reason(b"word " * 1000)) <= 200


@contextlib.asynccontextmanager
async def answering(status: HTTPStatus, body: str) -> AsyncIterator[str]:
    """URL of a server that answers everything so."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
