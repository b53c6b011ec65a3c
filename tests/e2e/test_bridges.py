"""Commands in pods of their own, on nodes that run them: what they get, what they may do, how they come, end and go."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from mcp_connections.api.reasons import Reason
from mcp_connections.operator.labels import BRIDGES_SELECTOR, bridge_name
from tests.e2e.figures import Figures
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import from_secret, mcp_proxy, run_inside, stdio_connection
from tests.e2e.release import SERVICE, Release
from tests.e2e.sessions import is_callable, session, until
from tests.proxy.client import Client

NAME = "mine"
KINDS = ("deployment", "networkpolicy", "pod", "secret", "service", "serviceaccount")
MEMORY = 512
"""MiB."""
CONNECTION = stdio_connection(
    NAME,
    "command.py",
    stdio={
        "env": [{"name": "PLAIN", "value": "$(HOME) costs $5"}, from_secret("KEY", "command", "key")],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": f"{MEMORY}Mi"}},
    },
)


@pytest.fixture(scope="module")
def allowing(served: Release) -> Release:
    """The release, whose default McpProxy lets connections run commands."""
    served.upgrade(proxy={"spec": {"stdio": {"allowed": True}}})
    served.kubectl.until("mcpp", "default", lambda live: live["spec"].get("stdio", {}).get("allowed") is True)
    served.kubectl.run("create", "secret", "generic", "command", "--from-literal=key=value")
    return served


@pytest.fixture
def command(allowing: Release) -> Release:
    """The release, with the connection ready."""
    allowing.kubectl.apply(CONNECTION)
    allowing.kubectl.wait("condition=Ready", "mcpc", NAME)
    return allowing


async def test_a_command_runs_in_a_pod_that_may_do_nothing_else(allowing: Release, figures: Figures) -> None:
    """Its namespace takes no other pods: it is under the Pod Security Standard "restricted"."""
    proxies = allowing.proxy_uids()
    async with session(allowing.kubectl, SERVICE) as client:
        started = time.monotonic()
        allowing.kubectl.apply(CONNECTION)
        await until(lambda: is_callable(client, f"{NAME}_rights"), "the command is callable", look=0.05)
        figures.seconds("apply of a command to callable", time.monotonic() - started)

        rights = json.loads((await client.call(f"{NAME}_rights")).text)
        assert rights == {
            "uid": 65532,
            "gid": 65532,
            "capabilities": 0,
            "no_new_privileges": "1",
            "seccomp": "2",
            "root": "Read-only file system",
            "tmp": "written",
            "memory": str(MEMORY << 20),
        }
        assert [await variable(client, name) for name in ("PLAIN", "KEY")] == ["$(HOME) costs $5", "value"]

    allowing.kubectl.wait("condition=Ready", "mcpc", NAME)
    pod = pod_of(allowing.kubectl)
    tried = await run_inside(allowing.kubectl, pod["metadata"]["name"], "try_secrets.py", allowing.namespace)
    assert json.loads(tried) == [None]
    assert pod["spec"]["serviceAccountName"] == bridge_name(NAME) != "default"
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["token", "tmp"], "none for the API server"
    assert allowing.proxy_uids() == proxies


async def test_a_command_that_ends_is_started_again_and_counted_with_its_last_words(command: Release) -> None:
    before = pod_status(command.kubectl)["commandExits"]
    async with session(command.kubectl, SERVICE) as client:
        await until(lambda: is_callable(client, f"{NAME}_rights"), "the client has a process")
        pod = pod_of(command.kubectl)["metadata"]["name"]
        killed = int(await run_inside(command.kubectl, pod, "end_commands.py"))
        assert killed >= 2, "the client's, and the proxy's own"
        await until(lambda: is_callable(client, f"{NAME}_rights"), "the command runs again")

        error = (await client.call(f"{NAME}_end", {"code": 7, "words": "out of paper"})).error
        assert "exited with code 7; its stderr ends with: out of paper" in error["message"]
        await until(lambda: is_callable(client, f"{NAME}_rights"), "the command runs once more")

    live = command.kubectl.until("mcpc", NAME, lambda live: live["status"]["pod"]["commandExits"] > before + killed)
    assert live["status"]["pod"]["restarts"] == 0
    assert "exited with code 7; its stderr ends with: out of paper" in live["status"]["lastError"]
    command.kubectl.wait("condition=Ready", "mcpc", NAME)


async def test_a_container_that_ends_is_started_again_and_counted(command: Release) -> None:
    pod = pod_of(command.kubectl)["metadata"]["name"]
    async with session(command.kubectl, SERVICE) as client:
        await client.call(f"{NAME}_end_bridge")
        live = command.kubectl.until("mcpc", NAME, lambda live: live["status"]["pod"]["restarts"] == 1)
        assert live["status"]["pod"]["name"] == pod
        assert "exit code 137" in live["status"]["pod"]["lastExit"]
        await until(lambda: is_callable(client, f"{NAME}_rights"), "the command runs again")
    command.kubectl.wait("condition=Ready", "mcpc", NAME)


async def test_a_new_value_of_a_secret_replaces_the_pod_and_no_other(command: Release, figures: Figures) -> None:
    pod, proxies = pod_of(command.kubectl), command.proxy_uids()
    async with session(command.kubectl, SERVICE) as client:
        started = time.monotonic()
        command.kubectl.run("patch", "secret", "command", "--patch", '{"stringData": {"key": "rotated"}}')
        await until(lambda: has_key(client, "rotated"), "the command has the new value", look=0.05)
        figures.seconds("Secret rotation to a command's new variable", time.monotonic() - started)

    assert pod_of(command.kubectl)["metadata"]["uid"] != pod["metadata"]["uid"]
    assert command.proxy_uids() == proxies


def test_nothing_stays_of_a_deleted_connection(command: Release, figures: Figures) -> None:
    assert {name.split("/")[0].split(".")[0] for name in objects(command.kubectl)} == set(KINDS)

    started = time.monotonic()
    command.kubectl.run("delete", "mcpc", NAME)
    until_nothing_is_left(command.kubectl)
    figures.seconds("delete of a command's connection to no object left", time.monotonic() - started)


def test_there_is_a_pod_only_while_the_mcp_proxy_allows_it(served: Release) -> None:
    kubectl = served.kubectl
    kubectl.apply(mcp_proxy("other"), stdio_connection("theirs", "command.py", proxyRef={"name": "other"}))
    refused(kubectl)
    kubectl.wait("condition=Available", "mcpp/other")
    assert objects(kubectl, "theirs") == []

    kubectl.apply(mcp_proxy("other", stdio={"allowed": True}))
    kubectl.wait("condition=Ready", "mcpc", "theirs")
    assert pod_of(kubectl, "theirs")["metadata"]["name"] == pod_status(kubectl, "theirs")["name"]

    kubectl.apply(mcp_proxy("other", stdio={"allowed": False}))
    refused(kubectl)
    until_nothing_is_left(kubectl, "theirs")
    kubectl.run("delete", "mcpc/theirs", "mcpp/other")


def refused(kubectl: Kubectl) -> None:
    """Wait until the connection says what is not allowed, and where to allow it."""

    def says_so(live: Object) -> bool:
        conditions = {each["type"]: each for each in live.get("status", {}).get("conditions", ())}
        accepted: dict[str, Any] = conditions.get("Accepted", {})
        return accepted.get("reason") == Reason.STDIO_NOT_ALLOWED and "spec.stdio.allowed" in accepted["message"]

    kubectl.until("mcpc", "theirs", says_so)


def objects(kubectl: Kubectl, connection: str = NAME) -> list[str]:
    """Everything that belongs to the command of a connection."""
    return kubectl.run("get", ",".join(KINDS), _selector(connection), "--output=name").split()


def until_nothing_is_left(kubectl: Kubectl, connection: str = NAME) -> None:
    """Wait until they are gone, pods included."""
    for kind in KINDS:
        kubectl.wait("delete", kind, _selector(connection))


def pod_of(kubectl: Kubectl, connection: str = NAME) -> Object:
    """The pod of a command that is not on its way out."""
    pods = kubectl.items("pods", _selector(connection))
    (pod,) = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    return pod


def pod_status(kubectl: Kubectl, connection: str = NAME) -> dict[str, Any]:
    """What the connection's status says of it."""
    found: dict[str, Any] = kubectl.get("mcpc", connection)["status"]["pod"]
    return found


def _selector(connection: str) -> str:
    return f"--selector={BRIDGES_SELECTOR},app.kubernetes.io/instance={connection}"


async def variable(client: Client, name: str) -> str | None:
    """What the command has in its environment; None while it cannot be asked."""
    response = (await client.call(f"{NAME}_variable", {"name": name})).response
    return response["result"]["content"][0]["text"] if "result" in response else None


async def has_key(client: Client, wanted: str) -> bool:
    """Whether it is that one."""
    return await variable(client, "KEY") == wanted
