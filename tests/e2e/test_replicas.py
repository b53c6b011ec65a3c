"""More than one pod of a proxy: a session works through any of them, and how many there are is whose who says so."""

from __future__ import annotations

import json

from tests.e2e.pods import PORT, mcp_connection, run_inside
from tests.e2e.release import PROXY, Release

CALLS = 30
ENDPOINT_PORT = 8000


async def test_a_session_works_through_whichever_pod_answers(served: Release) -> None:
    scale(served, 2)
    pods = [f"{pod['status']['podIP']}:{ENDPOINT_PORT}" for pod in served.proxy_pods()]
    assert len(pods) == 2

    for addresses in (pods, [f"{PROXY}:{ENDPOINT_PORT}"]):
        printed = await run_inside(
            served.kubectl, "numbers", "wandering_session.py", "numbers_whereami", str(CALLS), *addresses
        )
        assert json.loads(printed) == [[200, True]] * CALLS


async def test_a_connection_is_ready_when_every_pod_has_it(served: Release) -> None:
    scale(served, 2)
    served.kubectl.apply(mcp_connection("more", f"http://numbers:{PORT}/mcp"))
    served.kubectl.wait("condition=Ready", "mcpc", "more")
    pods = [f"{pod['status']['podIP']}:{ENDPOINT_PORT}" for pod in served.proxy_pods()]

    for pod in pods:
        printed = await run_inside(served.kubectl, "numbers", "wandering_session.py", "more_whereami", "1", pod)
        assert json.loads(printed) == [[200, True]]
    served.kubectl.run("delete", "mcpc", "more")


async def test_a_number_that_somebody_scaled_to_stays(served: Release) -> None:
    scale(served, 2)
    applied_again(served)
    assert served.kubectl.get("deployment", PROXY)["spec"]["replicas"] == 2

    scale(served, 1)
    applied_again(served)
    assert served.kubectl.get("deployment", PROXY)["spec"]["replicas"] == 1


async def test_a_number_that_an_autoscaler_set_stays(served: Release) -> None:
    """It goes to its minimum without any measured load."""
    scale(served, 1)
    served.upgrade(proxy={"autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 3}})
    served.kubectl.until("deployment", PROXY, lambda live: live["status"].get("readyReplicas") == 2)

    applied_again(served)

    assert served.kubectl.get("deployment", PROXY)["spec"]["replicas"] == 2
    served.upgrade()


def scale(release: Release, count: int) -> None:
    """kubectl scale; return when exactly so many pods are there, each with what is to be mounted."""
    release.kubectl.run("scale", f"deployment/{PROXY}", f"--replicas={count}")
    release.kubectl.until("deployment", PROXY, lambda live: live["status"].get("readyReplicas") == count)
    release.kubectl.until("mcpc", "numbers", lambda live: live["status"]["mount"]["replicas"] == count)


def applied_again(release: Release) -> None:
    """Have the operator apply the Deployment: what is no one's but the operator's is put right."""
    change = '{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 2}}}}'
    release.kubectl.run("patch", "deployment", PROXY, "--patch", change)
    release.kubectl.until("deployment", PROXY, lambda live: live["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 1)
