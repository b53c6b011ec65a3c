"""``GET`` and ``PUT /admin/v1/mounts``."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import ConnectionKey, DesiredMounts, HttpServer, MountSpec
from mcp_connections.proxy.admin import mounts as admin_mounts
from tests.admin.conftest import RememberingControl

DESIRED = DesiredMounts(
    mounts=(
        MountSpec(
            connection=ConnectionKey(namespace="team", name="github", uid="u"),
            fingerprint="f",
            prefix="gh",
            server=HttpServer(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer secret"}),
        ),
    )
)


async def test_get_answers_with_the_report(admin: aiohttp.ClientSession, url: str, control: RememberingControl) -> None:
    async with admin.get(f"{url}/admin/v1/mounts") as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        body = await response.json()
    assert RegistryReport.model_validate(body) == control.report()
    assert body["mounts"][0]["inFlight"] == 2


async def test_put_applies_what_was_sent(admin: aiohttp.ClientSession, url: str, control: RememberingControl) -> None:
    async with admin.put(f"{url}/admin/v1/mounts", data=DESIRED.model_dump_json(by_alias=True)) as response:
        assert response.status == 200
        result = ReloadResult.model_validate(await response.json())
    assert result.added == (DESIRED.mounts[0].connection,)
    assert control.applied == [DESIRED]


async def test_put_ignores_members_of_a_newer_operator(
    admin: aiohttp.ClientSession, url: str, control: RememberingControl
) -> None:
    body = {**DESIRED.model_dump(by_alias=True, mode="json"), "inventedLater": {"x": 1}}
    async with admin.put(f"{url}/admin/v1/mounts", json=body) as response:
        assert response.status == 200
    assert control.applied == [DESIRED]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mounts": [{"connection": {}}]}, "mounts[0].connection.name"),
        ({"mounts": "none"}, "mounts"),
        ({"drainTimeout": "long"}, "drainTimeout"),
        ({"startPolicy": "Eventually"}, "startPolicy"),
    ],
)
async def test_put_names_the_field_that_is_wrong(
    admin: aiohttp.ClientSession, url: str, control: RememberingControl, change: dict[str, Any], field: str
) -> None:
    async with admin.put(f"{url}/admin/v1/mounts", json=change) as response:
        assert response.status == 422
        body = await response.json()
    assert body["reason"] == "Invalid"
    assert field in [one["field"] for one in body["fields"]]
    assert "Nothing was changed" in body["message"]
    assert control.applied == []


async def test_an_error_does_not_repeat_credentials(admin: aiohttp.ClientSession, url: str) -> None:
    body = DESIRED.model_dump(by_alias=True, mode="json")
    body["mounts"][0]["server"]["headers"] = {"Authorization": ["Bearer hunter2"]}
    async with admin.put(f"{url}/admin/v1/mounts", json=body) as response:
        assert response.status == 422
        assert "hunter2" not in await response.text()


async def test_put_says_when_the_body_is_not_json(admin: aiohttp.ClientSession, url: str) -> None:
    async with admin.put(f"{url}/admin/v1/mounts", data=b'{"mounts": [') as response:
        assert response.status == 400
        assert "not JSON" in (await response.json())["message"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_bound_is_refused(
    admin: aiohttp.ClientSession,
    url: str,
    control: RememberingControl,
    monkeypatch: pytest.MonkeyPatch,
    *,
    chunked: bool,
) -> None:
    monkeypatch.setattr(admin_mounts, "MAX_BODY", 1000)

    async def pieces() -> Any:
        for _ in range(20):
            yield b" " * 100

    data = pieces() if chunked else b" " * 1001
    async with admin.put(f"{url}/admin/v1/mounts", data=data) as response:
        assert response.status == 413
        assert "1000 bytes" in (await response.json())["message"]
    assert control.applied == []


async def test_a_failed_apply_is_answered_and_the_port_lives_on(
    admin: aiohttp.ClientSession, url: str, control: RememberingControl
) -> None:
    control.apply_fault = RuntimeError("disk on fire")
    async with admin.put(f"{url}/admin/v1/mounts", json={}) as response:
        assert response.status == 500
        body = await response.json()
    assert body["reason"] == "ApplyFailed"
    assert "disk on fire" not in str(body)
    async with admin.get(f"{url}/admin/v1/mounts") as response:
        assert response.status == 200


async def test_other_methods_are_refused(admin: aiohttp.ClientSession, url: str) -> None:
    async with admin.delete(f"{url}/admin/v1/mounts") as response:
        assert response.status == 405
