"""Registries are asked, pushed to where they lag behind, and left alone where they do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from mcp_connections.mounts.report import RegistryReport, ReloadResult
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.operator.admin_client import AdminAddress, AdminClient, admin_address
from mcp_connections.operator.pacing import FIRST, SETTLED, SLOWEST, Pace, is_settled
from mcp_connections.operator.pods import Answer, Replica, Replicas, replicas_of
from tests.operator.resources import desired, mount_report, mount_spec

TOKEN = "the-token"


class AdminPort:
    """An admin port that mounts what it is told to."""

    def __init__(self) -> None:
        self.instance = "first"
        self.ready = True
        self.pushes: list[DesiredMounts] = []
        self.mounted = DesiredMounts()
        self.requests = 0
        self.fault: web.Response | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> Replica:
        app = web.Application()
        app.router.add_get("/admin/v1/mounts", self._get)
        app.router.add_put("/admin/v1/mounts", self._put)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        return Replica(uid="u", name="pod", ready=True, address=AdminAddress("127.0.0.1", port))

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def _refuse(self, request: web.Request) -> web.Response | None:
        self.requests += 1
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401, text="no such token")
        return self.fault

    async def _get(self, request: web.Request) -> web.Response:
        report = RegistryReport(
            instance=self.instance,
            ready=self.ready,
            separator=self.mounted.separator,
            mounts=tuple(mount_report(spec, ready=self.ready) for spec in self.mounted.mounts),
            rejected=self.mounted.rejected,
        )
        return self._refuse(request) or web.json_response(text=report.model_dump_json(by_alias=True))

    async def _put(self, request: web.Request) -> web.Response:
        if refused := self._refuse(request):
            return refused
        self.mounted = DesiredMounts.model_validate_json(await request.read())
        self.pushes.append(self.mounted)
        return web.json_response(text=ReloadResult().model_dump_json(by_alias=True))


@pytest.fixture
async def port() -> AsyncIterator[AdminPort]:
    running = AdminPort()
    yield running
    await running.stop()


@pytest.fixture
async def replicas() -> AsyncIterator[Replicas]:
    async with AdminClient() as client:
        yield Replicas(client)


async def test_what_is_missing_is_pushed_once(port: AdminPort, replicas: Replicas) -> None:
    replica = await port.start()

    first = await replicas.drive([replica], TOKEN, desired("a"))
    second = await replicas.drive([replica], TOKEN, desired("a"))

    assert port.pushes == [desired("a")]
    assert first[0].report is not None
    assert [mount.fingerprint for mount in first[0].report.mounts] == ["f1"]
    assert second == first


async def test_an_operator_that_has_just_started_pushes_once_even_what_is_there(
    port: AdminPort, replicas: Replicas
) -> None:
    """A registry does not report its drain timeout or start policy, so a first push makes sure of them."""
    replica = await port.start()
    port.mounted = desired("a")

    await replicas.drive([replica], TOKEN, desired("a"))
    await replicas.drive([replica], TOKEN, desired("a"))

    assert len(port.pushes) == 1


async def test_a_setting_that_no_registry_reports_is_pushed(port: AdminPort, replicas: Replicas) -> None:
    replica = await port.start()
    await replicas.drive([replica], TOKEN, desired("a", drain_timeout=30))

    await replicas.drive([replica], TOKEN, desired("a", drain_timeout=5))

    assert [pushed.drain_timeout for pushed in port.pushes] == [30, 5]


async def test_a_registry_that_lost_something_gets_it_again(port: AdminPort, replicas: Replicas) -> None:
    replica = await port.start()
    await replicas.drive([replica], TOKEN, desired("a", "b"))
    port.mounted = desired("b")

    await replicas.drive([replica], TOKEN, desired("a", "b"))

    assert len(port.pushes) == 2


async def test_a_restarted_process_is_pushed_to(port: AdminPort, replicas: Replicas) -> None:
    replica = await port.start()
    await replicas.drive([replica], TOKEN, desired("a"))
    port.instance = "second"

    await replicas.drive([replica], TOKEN, desired("a"))

    assert len(port.pushes) == 2


async def test_observing_changes_nothing(port: AdminPort, replicas: Replicas) -> None:
    replica = await port.start()

    answers = await replicas.observe([replica], TOKEN)

    assert answers[0].report is not None
    assert port.pushes == []


async def test_one_pod_that_does_not_answer_keeps_no_other_waiting(port: AdminPort, replicas: Replicas) -> None:
    replica = await port.start()
    deaf = AdminPort()
    silent = await deaf.start()
    await deaf.stop()

    answers = await replicas.drive([silent, replica], TOKEN, desired("a"))

    assert answers[0].report is None
    assert str(silent.address.port) in (answers[0].error or "")
    assert answers[1].report is not None
    assert answers[1].error is None


@pytest.mark.parametrize(
    ("fault", "token", "error"),
    [
        (None, "another-token", "HTTP 401: no such token"),
        (web.Response(status=500, text="broken"), TOKEN, "HTTP 500: broken"),
        (web.Response(status=302, headers={"Location": "http://elsewhere.example/"}), TOKEN, "HTTP 302"),
        (web.Response(text="<html>"), TOKEN, "not a RegistryReport"),
    ],
)
async def test_an_answer_that_is_no_report_is_told(
    port: AdminPort, replicas: Replicas, fault: web.Response | None, token: str, error: str
) -> None:
    replica = await port.start()
    port.fault = fault

    answers = await replicas.drive([replica], token, desired("a"))

    assert error in (answers[0].error or "")
    assert port.pushes == []


def pod(name: str = "pod", *, phase: str = "Running", ready: str = "True", **metadata: Any) -> dict[str, Any]:
    ports = [{"name": "http", "containerPort": 8000}, {"name": "admin", "containerPort": 9001}]
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", **metadata},
        "spec": {"containers": [{"name": "sidecar"}, {"name": "proxy", "ports": ports}]},
        "status": {"phase": phase, "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": ready}]},
    }


def test_running_pods_count_ready_or_not_and_in_a_fixed_order() -> None:
    found = replicas_of([pod("b", ready="False"), pod("a")])

    assert [(each.name, each.ready) for each in found] == [("a", True), ("b", False)]
    assert found[0].address == AdminAddress("10.0.0.7", 9001)


def test_pods_that_start_or_end_are_not_asked() -> None:
    starting = pod()
    starting["status"].pop("podIP")

    assert replicas_of([pod(phase="Pending"), pod(phase="Failed"), pod(deletionTimestamp="now"), starting]) == []


def test_an_ipv6_address_makes_a_url() -> None:
    six = pod()
    six["status"]["podIP"] = "fd00::7"

    address = admin_address(six)

    assert address is not None
    assert address.mounts_url == "http://[fd00::7]:9001/admin/v1/mounts"


def test_looks_are_soon_while_something_moves_and_seldom_once_settled() -> None:
    pace = Pace()

    waits = [pace.wait(settled=False) for _ in range(10)]

    assert waits[0] == FIRST
    assert waits == sorted(waits)
    assert waits[-1] == SLOWEST
    assert pace.wait(settled=True) == SETTLED
    assert pace.wait(settled=False) == FIRST


def test_what_is_down_or_does_not_answer_is_not_settled() -> None:
    def answer(*, ready: bool = True) -> Answer:
        report = RegistryReport(
            instance="i", ready=True, separator="_", mounts=(mount_report(mount_spec("a"), ready=ready),)
        )
        return Answer(replica=replicas_of([pod()])[0], report=report)

    silent = Answer(replica=replicas_of([pod()])[0], error="no answer")

    assert is_settled([answer(), answer()])
    assert is_settled([])
    assert not is_settled([answer(), answer(ready=False)])
    assert not is_settled([answer(), silent])
