"""Plays the Deployment controller and the kubelet: pods of a namespace become processes of this machine.

It goes by what the operator rendered, and by nothing else: the Deployment's pod template becomes Pod objects with ports
of this machine in place of the container's, the container's command becomes a process, Secret volumes become folders
that are swapped the way a kubelet does it, probes decide what the pod's status says, deletion becomes SIGTERM, and the
names of Services lead to ready pods.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import hashlib
import json
import os
import shutil
import signal
import socket
import sys
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException, AppsV1Api, CoreV1Api

from tests.cluster.leash import Leash

SYNC = 0.1
"""Seconds between two rounds over the namespace."""
RESTART_PAUSE = 1.0
"""Seconds from one start of a container to the next."""
UNPULLABLE = "unpullable"
"""An image of this name cannot be had."""
NODE = "test-node"
HASH_LABEL = "pod-template-hash"
SOURCE_ROOT = Path(__file__).parents[2] / "controller"
SERVICE_NAMES = Path(__file__).with_name("service_names")
"""Goes before everything else on the path of a proxy's Python: it looks up Services in a file."""


@dataclass
class Pod:
    """A pod that runs here."""

    name: str
    body: dict[str, Any]
    folder: Path
    process: asyncio.subprocess.Process | None = None
    leash: Leash | None = None
    restarts: int = 0
    exits: list[int] = field(default_factory=list)
    start_after: float = 0.0
    ready: bool | None = None
    volumes: dict[str, str] = field(default_factory=dict)

    @property
    def container(self) -> dict[str, Any]:
        """The pod's own container. Others do not run here."""
        containers: list[dict[str, Any]] = self.body["spec"]["containers"]
        return next(each for each in containers if each["name"] in ("proxy", "bridge"))

    @property
    def is_proxy(self) -> bool:
        """Whether clients connect to it."""
        return bool(self.container["name"] == "proxy")

    @property
    def can_start(self) -> bool:
        """Whether its image can be had."""
        return bool(self.container["image"] != UNPULLABLE)

    def port(self, name: str) -> int:
        """The port of this machine that stands for the container's port ``name``."""
        return next(int(port["containerPort"]) for port in self.container["ports"] if port["name"] == name)

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"http://127.0.0.1:{self.port('http')}/mcp"

    @property
    def log(self) -> Path:
        """What the process wrote."""
        return self.folder / "log"


class Kubelet:
    """Runs the pods of one namespace. ``refresh`` is how many seconds a changed Secret takes to reach its volume."""

    def __init__(self, api: ApiClient, namespace: str, folder: Path, *, refresh: float = 60.0) -> None:
        self._core, self._apps = CoreV1Api(api), AppsV1Api(api)
        self._namespace = namespace
        self._folder = folder
        self._refresh = refresh
        self._refreshed: dict[str, float] = {}
        self._ports: dict[str, dict[int, int]] = {}
        self._services: dict[str, dict[str, int]] = {}
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        self.pods: dict[str, Pod] = {}

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="kubelet")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        finally:
            await asyncio.gather(*self._ending, *(self._end(pod, 10) for pod in self.pods.values()))
            await self._http.close()

    async def refresh(self) -> None:
        """Bring what the Secrets hold now to all volumes, without waiting for its time."""
        self._refreshed.clear()
        for pod in list(self.pods.values()):
            await self._refresh_volumes(pod)

    @property
    def ready_pods(self) -> list[Pod]:
        """Pods of proxies that passed their readiness probe, by name."""
        return sorted((pod for pod in self.pods.values() if pod.ready and pod.is_proxy), key=lambda pod: pod.name)

    @property
    def bridges(self) -> list[Pod]:
        """Pods of stdio connections, ready or not, by name."""
        return sorted((pod for pod in self.pods.values() if not pod.is_proxy), key=lambda pod: pod.name)

    async def _run(self) -> None:
        while True:
            try:
                await self._sync()
            except ApiException as error:
                if error.status not in (403, 404, 409):  # what a pod needs may be away for a while
                    raise
            await asyncio.sleep(SYNC)

    async def _sync(self) -> None:
        deployments = (await self._raw(self._apps.list_namespaced_deployment))["items"]
        pods = (await self._raw(self._core.list_namespaced_pod))["items"]
        for deployment in deployments:
            await self._scale(deployment, pods)
        owners = {deployment["metadata"]["uid"] for deployment in deployments}
        for pod in pods:
            owner = pod["metadata"].get("ownerReferences", [{}])[0].get("uid")
            if owner not in owners and "deletionTimestamp" not in pod["metadata"]:
                await self._core.delete_namespaced_pod(pod["metadata"]["name"], self._namespace)
        for body in pods:
            await self._run_pod(body)
        self._name_services((await self._raw(self._core.list_namespaced_service))["items"])

    def _name_services(self, services: list[dict[str, Any]]) -> None:
        """Where the ports of Services lead, for the pods' own look-ups."""
        ports: dict[str, dict[str, int]] = {}
        for service in services:
            selector = (service["spec"].get("selector") or {"nothing": "selected"}).items()
            ready = [
                pod for pod in self.pods.values() if pod.ready and selector <= pod.body["metadata"]["labels"].items()
            ]
            host = f"{service['metadata']['name']}.{self._namespace}.svc"
            ports[host] = {
                str(port["port"]): pod.port(port["targetPort"]) for pod in ready for port in service["spec"]["ports"]
            }
        if ports != self._services:
            self._services = ports
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = self._folder / "services.new"
            draft.write_text(json.dumps(ports))
            draft.replace(self._folder / "services.json")

    async def _scale(self, deployment: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        template = deployment["spec"]["template"]
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
        owned = [
            pod
            for pod in pods
            if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == deployment["metadata"]["uid"]
            and "deletionTimestamp" not in pod["metadata"]
        ]
        current = [pod for pod in owned if pod["metadata"]["labels"].get(HASH_LABEL) == digest]
        wanted = deployment["spec"]["replicas"]
        if deployment["spec"]["strategy"]["type"] == "Recreate" and len(current) < len(owned):
            for pod in owned:
                await self._core.delete_namespaced_pod(pod["metadata"]["name"], self._namespace)
            return
        if deployment["spec"]["strategy"]["type"] == "Recreate" and any(
            pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == deployment["metadata"]["uid"]
            for pod in pods
            if pod not in owned
        ):
            return
        for _ in range(wanted - len(current)):
            await self._create(deployment, template, digest)
        surplus = current[wanted:]
        if sum(_is_ready(pod) for pod in current) >= wanted:
            surplus += [pod for pod in owned if pod not in current]
        for pod in surplus:
            await self._core.delete_namespaced_pod(pod["metadata"]["name"], self._namespace)

    async def _create(self, deployment: dict[str, Any], template: dict[str, Any], digest: str) -> None:
        name = f"{deployment['metadata']['name']}-{digest[:5]}-{uuid.uuid4().hex[:5]}"
        body = copy.deepcopy(template)
        ports = self._ports[name] = {}
        for container in body["spec"]["containers"]:
            for port in container.get("ports") or ():
                ports[port["containerPort"]] = port["containerPort"] = _free_port()
        body["spec"]["nodeName"] = NODE
        body["metadata"] |= {
            "name": name,
            "labels": body["metadata"]["labels"] | {HASH_LABEL: digest},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": deployment["metadata"]["name"],
                    "uid": deployment["metadata"]["uid"],
                    "controller": True,
                }
            ],
        }
        pod: Any = {"apiVersion": "v1", "kind": "Pod", **body}
        await self._core.create_namespaced_pod(self._namespace, pod)

    async def _run_pod(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if "deletionTimestamp" in body["metadata"]:
            pod = self.pods.pop(name, None)
            grace = body["metadata"].get("deletionGracePeriodSeconds", 0)
            task = asyncio.create_task(self._terminate(name, pod, grace))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            return
        pod = self.pods.get(name)
        if pod is None:
            pod = self.pods[name] = Pod(name=name, body=body, folder=self._folder / name)
        await self._refresh_volumes(pod)
        now = asyncio.get_running_loop().time()
        if not pod.can_start:
            await self._tell(pod, ready=False)
            return
        if (pod.process is None or pod.process.returncode is not None) and now >= pod.start_after:
            pod.start_after = now + RESTART_PAUSE
            await self._start(pod)
        await self._probe(pod)

    async def _start(self, pod: Pod) -> None:
        container = pod.container
        command = [*container["command"], *container.get("args", ())]
        own = command.index("--") if "--" in command else len(command)
        ports = {str(before): str(now) for before, now in self._ports[pod.name].items()}
        command = [
            *(_outside(ports.get(part, part), pod.volumes) for part in command[:own]),
            *(part.replace("$$", "$") for part in command[own:]),
        ]
        assert command[0] == "mcp-connections", command
        try:
            environment = await self._environment(pod)
        except ApiException as error:
            if error.status != 404:
                raise
            return  # CreateContainerConfigError: the kubelet tries again
        if pod.process is not None:
            pod.restarts += 1
            pod.exits.append(pod.process.returncode or 0)
        pod.ready = None
        with pod.log.open("ab") as log:
            pod.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "mcp_connections", *command[1:]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": f"{SERVICE_NAMES}:{SOURCE_ROOT}" if pod.is_proxy else str(SOURCE_ROOT),
                    "TEST_SERVICES": str(self._folder / "services.json"),
                    "HOME": str(pod.folder),
                    **environment,
                },
                start_new_session=True,
            )
        if pod.leash is not None:
            pod.leash.release()
        pod.leash = Leash(pod.process.pid)

    async def _probe(self, pod: Pod) -> None:
        probe = pod.container["readinessProbe"]["httpGet"]
        try:
            async with self._http.get(f"http://127.0.0.1:{pod.port(probe['port'])}{probe['path']}") as response:
                ready = response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            ready = False
        await self._tell(pod, ready=ready)

    async def _tell(self, pod: Pod, *, ready: bool) -> None:
        if ready == pod.ready:
            return
        pod.ready = ready
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        container: dict[str, Any] = {
            "name": pod.container["name"],
            "image": pod.container["image"],
            "imageID": "",
            "ready": ready,
            "restartCount": pod.restarts,
            "state": (
                {"running": {"startedAt": moment}} if pod.can_start else {"waiting": {"reason": "ImagePullBackOff"}}
            ),
        }
        if pod.exits:
            container["lastState"] = {"terminated": {"exitCode": pod.exits[-1] & 255, "reason": "Error"}}
        status = {
            "phase": "Running" if pod.can_start else "Pending",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "containerStatuses": [container],
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": moment}],
        }
        await self._core.patch_namespaced_pod_status(pod.name, self._namespace, {"status": status})

    async def _refresh_volumes(self, pod: Pod) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._refreshed.get(pod.name, -self._refresh) < self._refresh:
            return
        for mount in pod.container["volumeMounts"]:
            volume = next(each for each in pod.body["spec"]["volumes"] if each["name"] == mount["name"])
            outside = pod.folder / mount["name"]
            outside.mkdir(parents=True, exist_ok=True)
            pod.volumes[mount["mountPath"]] = str(outside)
            if "emptyDir" not in volume:
                _swap(outside, await self._files(volume))
        self._refreshed[pod.name] = now

    async def _files(self, volume: dict[str, Any]) -> dict[str, bytes]:
        sources = (
            [each["secret"] for each in volume["projected"]["sources"]]
            if "projected" in volume
            else [{"name": volume["secret"]["secretName"]}]
        )
        files: dict[str, bytes] = {}
        for source in sources:
            try:
                secret = await self._core.read_namespaced_secret(source["name"], self._namespace)
            except ApiException as error:
                if error.status == 404 and source.get("optional"):
                    continue
                raise
            files |= {key: base64.b64decode(value) for key, value in (secret.data or {}).items()}
        return files

    async def _environment(self, pod: Pod) -> dict[str, str]:
        """The container's own variables. Every pod of this kubelet has the address 127.0.0.1."""
        environment = {}
        for variable in pod.container.get("env", ()):
            source = variable.get("valueFrom", {})
            if "secretKeyRef" in source:
                ref = source["secretKeyRef"]
                secret = await self._core.read_namespaced_secret(ref["name"], self._namespace)
                value = base64.b64decode(secret.data[ref["key"]]).decode()
            elif source:
                assert source == {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}, variable
                value = "127.0.0.1"
            else:
                value = _outside(variable.get("value", "").replace("$$", "$"), pod.volumes)
            environment[variable["name"]] = value
        return environment

    async def _terminate(self, name: str, pod: Pod | None, grace: float) -> None:
        if pod is not None:
            await self._end(pod, grace)
        with contextlib.suppress(ApiException):
            await self._core.delete_namespaced_pod(name, self._namespace, grace_period_seconds=0)

    async def _end(self, pod: Pod, grace: float) -> None:
        if pod.process is not None and pod.process.returncode is None:
            pod.process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(grace):
                    await pod.process.wait()
            except TimeoutError:
                pod.process.kill()
                await pod.process.wait()
        if pod.leash is not None:
            pod.leash.release()
            pod.leash = None

    async def _raw(self, call: Any) -> dict[str, Any]:
        response = await call(self._namespace, _preload_content=False)
        answer: dict[str, Any] = await response.json()
        return answer


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _outside(argument: str, volumes: dict[str, str]) -> str:
    """A path within the container as a path of this machine."""
    for inside, outside in volumes.items():
        if argument == inside or argument.startswith(f"{inside}/"):
            return outside + argument.removeprefix(inside)
    return argument


def _swap(folder: Path, files: dict[str, bytes]) -> None:
    """Replace all files at once: they are links through ``..data``, which is one rename away from the next version."""
    version = folder / f"..{uuid.uuid4().hex}"
    version.mkdir()
    for name, content in files.items():
        (version / name).write_bytes(content)
    link = folder / "..data"
    before = link.resolve() if link.is_symlink() else None
    (folder / "..data_tmp").symlink_to(version.name)
    (folder / "..data_tmp").replace(link)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    for path in folder.iterdir():
        if not path.name.startswith("..") and path.name not in files:
            path.unlink()
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return int(holder.getsockname()[1])
