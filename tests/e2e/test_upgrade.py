"""A release that is upgraded and rolled back keeps its pods and sessions where it can, and else lets calls end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from mcp_connections import __version__
from tests.e2e.kubectl import Object
from tests.e2e.pods import PORT, mcp_connection
from tests.e2e.release import PROXY, SERVICE, Release, chart_of_version
from tests.e2e.sessions import session, until
from tests.proxy.client import Client

OLDER = "0.0.1"
VERSION = "app.kubernetes.io/version"
POD_CHANGE = {"spec": {"podTemplate": {"metadata": {"annotations": {"example.org/changed": "yes"}}}}}


async def test_a_pod_that_need_not_change_keeps_its_sessions(served: Release, tmp_path: Path) -> None:
    await to_version(served, OLDER, lambda: served.upgrade(chart=chart_of_version(OLDER, tmp_path)))
    pods = served.proxy_uids()

    async with session(served.kubectl, SERVICE) as client:
        await client.listen()
        await to_version(served, __version__, served.upgrade)
        assert (await client.call("numbers_add", {"a": 1, "b": 2})).text == "3"
        await to_version(served, OLDER, served.rollback)
        assert (await client.call("numbers_add", {"a": 2, "b": 2})).text == "4"
        assert client.listening

    assert served.proxy_uids() == pods


async def test_a_pod_that_must_change_ends_its_calls_first(served: Release) -> None:
    """By an upgrade that is about the proxy's pods, and by going back from it."""
    served.upgrade()

    await assert_drains(served, lambda: served.upgrade(proxy=POD_CHANGE))
    assert changes(served) == {"yes"}
    await assert_drains(served, served.rollback)
    assert changes(served) == {None}


async def test_a_restart_by_hand_ends_calls_first_and_is_not_undone(served: Release) -> None:
    """What kubectl writes into the pod template for it stays when the operator applies the Deployment."""
    await assert_drains(served, lambda: served.kubectl.run("rollout", "restart", f"deployment/{PROXY}"))
    pods = served.proxy_uids()

    served.kubectl.apply(mcp_connection("more", f"http://numbers:{PORT}/mcp"))
    served.kubectl.wait("condition=Ready", "mcpc", "more")
    served.kubectl.run("delete", "mcpc", "more")
    served.upgrade(proxy={"spec": {"service": {"annotations": {"example.org/applied": "yes"}}}})
    served.kubectl.until("service", PROXY, lambda live: "example.org/applied" in live["metadata"]["annotations"])

    deployment = served.kubectl.get("deployment", PROXY)
    assert "kubectl.kubernetes.io/restartedAt" in deployment["spec"]["template"]["metadata"]["annotations"]
    assert served.proxy_uids() == pods


async def to_version(release: Release, version: str, act: Callable[[], object]) -> None:
    """Do it; return when operator and McpProxy are those of that version."""
    await asyncio.to_thread(act)
    await asyncio.to_thread(release.until_rolled_out)
    assert {pod["metadata"]["labels"][VERSION] for pod in release.operator_pods()} == {version}
    release.kubectl.until("mcpp", "default", lambda live: live["metadata"]["labels"][VERSION] == version)


async def assert_drains(release: Release, act: Callable[[], object]) -> None:
    """Do what has the proxy's pod replaced while a client waits for an answer of it: it gets the answer."""
    release.kubectl.run("rollout", "status", f"deployment/{PROXY}", "--timeout=300s", seconds=360)
    (old,) = (pod["metadata"]["name"] for pod in release.proxy_pods())
    async with session(release.kubectl, f"pod/{old}") as client:
        call = asyncio.create_task(client.call("numbers_hold"))
        await until(lambda: is_holding(client), "the backend has the call")
        await asyncio.to_thread(act)
        await asyncio.to_thread(release.kubectl.until, "pod", old, is_going)
        (new,) = (pod["metadata"]["name"] for pod in release.proxy_pods())
        assert not call.done()
        async with session(release.kubectl, f"pod/{new}") as other:
            await other.call("numbers_let_go")
        assert (await call).text == "let go"
    await asyncio.to_thread(release.kubectl.wait, "delete", f"pod/{old}")


def changes(release: Release) -> set[str | None]:
    """What the pods have of POD_CHANGE."""
    return {pod["metadata"]["annotations"].get("example.org/changed") for pod in release.proxy_pods()}


def is_going(live: Object) -> bool:
    return "deletionTimestamp" in live["metadata"]


async def is_holding(client: Client) -> bool:
    return (await client.call("numbers_holding")).text != "0"
