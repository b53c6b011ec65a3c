"""The operator's pod may go at any moment, and what it made may be deleted: neither loses anything."""

from __future__ import annotations

import time

from tests.e2e.figures import Figures
from tests.e2e.pods import PORT, mcp_connection
from tests.e2e.release import PROXY, SERVICE, Release
from tests.e2e.sessions import is_callable, session, until

URL = f"http://numbers:{PORT}/mcp"
PAUSES = (0.0, 0.2, 0.4, 0.8)
"""Seconds after a change at which the operator is killed: from before it has noticed to after it has dealt with it."""


async def test_an_operator_that_is_killed_at_any_moment_loses_nothing(served: Release) -> None:
    """Between the first request of a change and its last, and with further changes while it is away."""
    pods = served.proxy_uids()
    async with session(served.kubectl, SERVICE) as client:
        for turn, pause in enumerate(PAUSES):
            served.kubectl.apply(mcp_connection(f"before-{turn}", URL))
            time.sleep(pause)  # noqa: ASYNC251  (nothing else runs here)
            kill(served)
            assert (await client.call("numbers_add", {"a": turn, "b": 1})).text == str(turn + 1)
            served.kubectl.apply(mcp_connection(f"while-{turn}", URL))
            if turn:
                served.kubectl.run("delete", "mcpc", f"before-{turn - 1}")
        wanted = {f"before-{len(PAUSES) - 1}", *(f"while-{turn}" for turn in range(len(PAUSES)))}
        for name in sorted(wanted):
            served.kubectl.wait("condition=Ready", "mcpc", name)
            assert await is_callable(client, f"{name}_whereami")

        async def is_as_wanted() -> bool:
            return {name.rpartition("_")[0] for name in await client.names()} >= wanted

        await until(is_as_wanted, "the tools of all connections are listed")
        assert not [name for name in await client.names() if name.startswith("before-0_")]
    assert served.proxy_uids() == pods
    served.kubectl.run("delete", "mcpc", *sorted(wanted))


def test_what_is_deleted_by_hand_comes_back(served: Release, figures: Figures) -> None:
    """All at once."""
    before = {kind: served.kubectl.get(kind, PROXY)["metadata"]["uid"] for kind in ("deployment", "service")}
    mounts = served.kubectl.get("secret", f"{PROXY}-mounts")["metadata"]["uid"]

    started = time.monotonic()
    served.kubectl.run("delete", "deployment,service,serviceaccount", PROXY, "--wait=false")
    served.kubectl.run("delete", "secret", f"{PROXY}-mounts", "--wait=false")
    for kind in (*before, "serviceaccount"):
        served.kubectl.wait("create", f"{kind}/{PROXY}")
    served.kubectl.wait("create", f"secret/{PROXY}-mounts")
    figures.seconds("deleted objects are there again", time.monotonic() - started, goal=30)

    served.kubectl.until("deployment", PROXY, lambda live: live["status"].get("readyReplicas") == 1)
    for kind, uid in before.items():
        assert served.kubectl.get(kind, PROXY)["metadata"]["uid"] != uid
    assert served.kubectl.get("secret", f"{PROXY}-mounts")["metadata"]["uid"] != mounts
    served.kubectl.wait("condition=Ready", "mcpc", "numbers")


def test_what_is_edited_by_hand_is_put_right(served: Release) -> None:
    """And traffic finds its way again."""
    served.kubectl.run("patch", "service", PROXY, "--patch", '{"spec": {"selector": {"app.kubernetes.io/name": "x"}}}')
    served.kubectl.until("service", PROXY, lambda live: live["spec"]["selector"]["app.kubernetes.io/name"] != "x")
    assert "is mcp-connections, with" in served.test()


def kill(release: Release) -> None:
    """Without a word to it."""
    for pod in release.operator_pods():
        release.kubectl.run("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
