"""Who may use the admin port."""

from __future__ import annotations

import aiohttp
import pytest

from mcp_connections.proxy.admin.app import admin_app
from mcp_connections.proxy.admin.server import admin_server
from mcp_connections.proxy.server.listening import PortError
from mcp_connections.proxy.telemetry.metrics import Metrics
from tests.admin.conftest import TOKEN, RememberingControl

GUARDED = ["/admin/v1/mounts", "/admin/mcp", "/admin/mcp/", "/admin/", "/", "/admin/v1/nothing", "//healthz"]


@pytest.mark.parametrize("credential", [None, "Bearer", f"Basic {TOKEN}", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN])
async def test_without_the_token_nothing_answers(
    anyone: aiohttp.ClientSession, url: str, credential: str | None
) -> None:
    headers = {"Authorization": credential} if credential is not None else {}
    for path in GUARDED:
        async with anyone.post(f"{url}{path}", headers=headers, json={}) as response:
            assert response.status == 401, path
            assert response.headers["WWW-Authenticate"].startswith("Bearer ")
            assert (await response.json())["reason"] == "Unauthorized"


async def test_a_token_outside_ascii_is_refused_not_a_fault(anyone: aiohttp.ClientSession, url: str) -> None:
    async with anyone.get(f"{url}/admin/v1/mounts", headers={"Authorization": "Bearer tökèn"}) as response:
        assert response.status == 401


async def test_the_scheme_is_case_insensitive(anyone: aiohttp.ClientSession, url: str) -> None:
    async with anyone.get(f"{url}/admin/v1/mounts", headers={"Authorization": f"bEARER {TOKEN}"}) as response:
        assert response.status == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_and_metrics_need_no_token(anyone: aiohttp.ClientSession, url: str, path: str) -> None:
    async with anyone.get(f"{url}{path}") as response:
        assert response.status == 200


async def test_an_open_port_answers_to_this_machine(anyone: aiohttp.ClientSession, open_url: str) -> None:
    async with anyone.get(f"{open_url}/admin/v1/mounts") as response:
        assert response.status == 200
    local = open_url.replace("127.0.0.1", "localhost")
    async with anyone.get(f"{open_url}/admin/v1/mounts", headers={"Origin": local}) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
async def test_an_open_port_refuses_other_peoples_pages(
    anyone: aiohttp.ClientSession, open_url: str, headers: dict[str, str]
) -> None:
    async with anyone.get(f"{open_url}/admin/v1/mounts", headers=headers) as response:
        assert response.status == 403
        assert "--admin-token-file" in (await response.json())["message"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "proxy.example"])
async def test_no_token_no_listening_beyond_loopback(control: RememberingControl, host: str) -> None:
    app = admin_app(control, Metrics(), None)
    with pytest.raises(PortError, match="--admin-token-file"):
        async with admin_server(app, host=host, port=0, token=None):
            pass


async def test_a_taken_port_is_named(control: RememberingControl, open_url: str) -> None:
    port = int(open_url.rsplit(":", 1)[1])
    app = admin_app(control, Metrics(), None)
    with pytest.raises(PortError, match=rf"127\.0\.0\.1:{port}: .*choose another --admin-port"):
        async with admin_server(app, host="127.0.0.1", port=port, token=None):
            pass
