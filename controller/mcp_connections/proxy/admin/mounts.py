"""``GET`` and ``PUT /admin/v1/mounts``: how an operator observes and drives a proxy."""

from __future__ import annotations

import asyncio
import logging

from pydantic import ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mcp_connections.api.field_errors import field_errors
from mcp_connections.mounts.spec import DesiredMounts
from mcp_connections.proxy.admin.answers import answer, problem
from mcp_connections.proxy.admin.control import AdminControl, SourceError

MAX_BODY = 64 * 1024 * 1024
"""Bytes of a PUT."""

BODY_TIMEOUT = 60.0
"""Seconds a client may take to send a body."""

APPLY_TIMEOUT = 60.0
"""Seconds until a PUT is answered 504. The apply goes on: it is never cut in the middle."""

MAX_FIELD_ERRORS = 100
"""Field errors that one answer lists."""

_log = logging.getLogger(__name__)


class MountsEndpoint:
    """The two operations on the desired and observed mounts of one process."""

    def __init__(self, control: AdminControl) -> None:
        self._control = control
        self._applying: set[asyncio.Task[Response]] = set()

    async def get(self, _request: Request) -> Response:
        """Answer with the RegistryReport."""
        return answer(self._control.report())

    async def put(self, request: Request) -> Response:
        """Apply the DesiredMounts in the body and answer with the ReloadResult."""
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                body = await _read(request)
        except TimeoutError:
            return problem(408, "Timeout", f"The body did not arrive within {BODY_TIMEOUT:.0f} s. Send it again.")
        except ClientDisconnect:
            return problem(400, "Incomplete", "The connection closed before the body was complete.")
        if body is None:
            return problem(
                413,
                "TooLarge",
                f"The body is larger than {MAX_BODY} bytes. Spread the connections over several proxies.",
            )
        desired = _decode(body)
        return desired if isinstance(desired, Response) else await self._apply(desired)

    async def _apply(self, desired: DesiredMounts) -> Response:
        task = asyncio.create_task(self._carry_out(desired), name="admin-apply")
        self._applying.add(task)
        task.add_done_callback(self._applying.discard)
        try:
            async with asyncio.timeout(APPLY_TIMEOUT):
                return await asyncio.shield(task)
        except TimeoutError:
            return problem(
                504,
                "Timeout",
                f"The mounts are still being applied after {APPLY_TIMEOUT:.0f} s. GET /admin/v1/mounts tells how far.",
            )

    async def _carry_out(self, desired: DesiredMounts) -> Response:
        try:
            return answer(await self._control.apply(desired))
        except SourceError as error:
            return problem(422, "Refused", f"Nothing was changed. {error}")
        except Exception:
            _log.exception("Applying the mounts pushed to the admin port failed")
            return problem(
                500,
                "ApplyFailed",
                "The mounts could not be applied and may be unchanged. The proxy's log says why; "
                "GET /admin/v1/mounts shows the state.",
            )


async def _read(request: Request) -> bytes | None:
    """The whole body, or None as soon as it is known to be over the bound."""
    if int(request.headers.get("content-length") or 0) > MAX_BODY:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


def _decode(body: bytes) -> DesiredMounts | Response:
    """Parse and validate. Occupies the event loop for about 30 ms per thousand connections (0.8 MB)."""
    try:
        document = from_json(body)
    except ValueError as error:
        return problem(400, "InvalidJSON", f"The body is not JSON: {error}. Send a DesiredMounts object.")
    try:
        return DesiredMounts.model_validate(document)
    except ValidationError as error:
        fields = field_errors(DesiredMounts, error)
        message = f"Nothing was changed: the body is not a DesiredMounts object. {fields[0]}."
        return problem(422, "Invalid", message, fields=fields[:MAX_FIELD_ERRORS])
