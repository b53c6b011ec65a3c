"""Talks to the admin port of proxy pods: what is mounted there, and what should be."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple, Self, TypeVar

import aiohttp
from pydantic import ValidationError

from mcp_connections.mounts.report import RegistryReport, ReloadResult

ADMIN_PORT_NAME = "admin"
CONNECT_TIMEOUT = 3.0
"""Seconds to open a connection. Pods of one cluster are near."""
READ_TIMEOUT = 10.0
"""Seconds for a report."""
PUSH_TIMEOUT = 75.0
"""Seconds until a push counts as failed. A proxy answers within 60 s even while it still applies."""
MAX_BODY = 64 * 1024 * 1024
"""Bytes of an answer."""
MAX_REPORTS = 256
"""Reports that are kept. Of more pods than that some are decoded anew each time."""


ModelT = TypeVar("ModelT", RegistryReport, ReloadResult)


class AdminAddress(NamedTuple):
    """Where a pod's admin port is."""

    host: str
    port: int

    @property
    def mounts_url(self) -> str:
        """URL of the mounts."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/admin/v1/mounts"


class AdminError(Exception):
    """An admin port did not do what was asked. The text says which one and why. ``status`` is that of its HTTP answer,
    None where there was none."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def admin_address(pod: dict[str, Any]) -> AdminAddress | None:
    """Address of the admin port from the pod's status and the named port in its spec. None before it has an IP."""
    host = pod.get("status", {}).get("podIP")
    for container in pod.get("spec", {}).get("containers", ()):
        for port in container.get("ports") or ():
            if host and port.get("name") == ADMIN_PORT_NAME:
                return AdminAddress(host, port["containerPort"])
    return None


class AdminClient:
    """A client for all pods of all proxies. Open it inside the event loop and close it."""

    def __init__(self) -> None:
        # Pod addresses are reached directly: a proxy from the environment knows nothing of the pod network.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit_per_host=4, force_close=True), trust_env=False
        )
        self._reports: dict[AdminAddress, tuple[bytes, RegistryReport]] = {}
        """The last report of each pod and its digest, oldest first."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def report(self, address: AdminAddress, token: str) -> RegistryReport:
        """What the registry there says of itself; the same object as long as it says the same. Raises AdminError."""
        body = await self._request("GET", address, token, None, READ_TIMEOUT)
        digest = hashlib.sha256(body).digest()
        known, report = self._reports.pop(address, (b"", None))
        if report is None or known != digest:
            report = _decode(RegistryReport, body, address)
        self._reports[address] = (digest, report)
        if len(self._reports) > MAX_REPORTS:
            del self._reports[next(iter(self._reports))]
        return report

    async def push(self, address: AdminAddress, token: str, desired: bytes) -> ReloadResult:
        """Make ``desired``, a DesiredMounts as JSON, what is mounted there. Raises AdminError."""
        body = await self._request("PUT", address, token, desired, PUSH_TIMEOUT)
        return _decode(ReloadResult, body, address)

    async def _request(
        self, method: str, address: AdminAddress, token: str, body: bytes | None, timeout: float
    ) -> bytes:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        what = f"{method} {address.mounts_url}"
        try:
            async with self._session.request(
                method,
                address.mounts_url,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_TIMEOUT),
            ) as response:
                answer = await _read(response)
                if response.status != 200:
                    raise AdminError(f"{what}: HTTP {response.status}: {_said(answer)}", status=response.status)
                return answer
        except TimeoutError as error:
            raise AdminError(f"{what}: no answer within {timeout:.0f} s") from error
        except aiohttp.ClientError as error:
            raise AdminError(f"{what}: {error}") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise AdminError(f"{response.url}: the answer is larger than {MAX_BODY} bytes")
    return bytes(body)


def _said(answer: bytes) -> str:
    """What an error answer says, in its words: its message and the fields that are wrong, where it is a Problem."""
    try:
        problem = json.loads(answer)
        fields = [f"{one['field']}: {one['message']}" for one in problem.get("fields", ())]
        text = "; ".join(filter(None, (problem["message"], *fields)))
    except (ValueError, LookupError, TypeError, AttributeError):
        text = answer.decode(errors="replace")
    return text[:4096].strip()


def _decode(model: type[ModelT], body: bytes, address: AdminAddress) -> ModelT:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise AdminError(f"{address.mounts_url}: not a {model.__name__}: {where}: {first['msg']}") from None
