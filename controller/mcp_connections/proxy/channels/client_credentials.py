"""The client credentials grant: one request to a token endpoint (RFC 6749, section 4.4).

Own code rather than a library: what there is for asyncio brings a second HTTP client along, and the grant is one form
and one JSON object. Most of it is saying what went wrong, in terms of the connection's fields.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import aiohttp
from yarl import URL

from mcp_connections import __version__
from mcp_connections.mounts.spec import ClientCredentials
from mcp_connections.proxy.channels.backend_client import fault_of, shown_url
from mcp_connections.proxy.channels.channel import (
    ChannelError,
    ProtocolViolation,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.tls import context_for

ANSWER_BYTES: Final = 64 * 1024
TOKEN_BYTES: Final = 16 * 1024

_FIELD: Final = "spec.auth.oauthClientCredentials"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_LATER: Final = (408, 425, 429)
_NOT_THERE: Final = (404, 405, 410, 421)
_ADVICE: Final = {
    "invalid_scope": f"check {_FIELD}.scopes",
    "invalid_target": f"check {_FIELD}.resource, which is the URL of the transport unless it is set",
    "unsupported_grant_type": "have the authorization server allow this client the grant client_credentials",
    "unauthorized_client": "have the authorization server allow this client the grant client_credentials",
}
"""What to do about an error code (RFC 6749, section 5.2; RFC 8707, section 2)."""
_USUAL_ADVICE: Final = f"check {_FIELD}: clientId, clientAuthentication, and the Secret behind clientSecret"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What a token endpoint gave out."""

    text: str = field(repr=False)
    lifetime: float | None
    """Seconds from the request on; None where the endpoint does not say."""


class TokenEndpoint:
    """The token endpoint of one connection."""

    def __init__(
        self, credentials: ClientCredentials, *, ca_bundle: str | None, timeout: float, redactor: Redactor
    ) -> None:
        """``timeout``: seconds for the whole exchange (``policy.timeouts.connect``)."""
        self._credentials = credentials
        self._ca_bundle = ca_bundle
        self._timeout = timeout
        self._redactor = redactor
        self._where = f"the token endpoint {shown_url(credentials.token_url)}"

    async def fetch(self) -> AccessToken:
        """A new token. Raises ChannelError; no request to the backend was sent then."""
        try:
            async with asyncio.timeout(self._timeout):
                status, body = await self._post()
        except TimeoutError:
            raise TimedOut(
                f"{self._where} did not answer within {self._timeout:g} s (policy.timeouts.connect); check that it is"
                " up, or allow it more time",
                executed=False,
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise fault_of(error, self._where, connecting=True) from None
        except ValueError:  # a host name that has no form in DNS, for one
            raise Unreachable(f"{self._where}: the URL is of no use; check {_FIELD}.tokenUrl", executed=False) from None
        if not 200 <= status < 300:
            raise refusal_of(status, body, self._where, self._redactor)
        return token_of(body, self._where)

    async def _post(self) -> tuple[int, bytes]:
        try:
            # Reading the system's root certificates takes tens of milliseconds.
            tls = await asyncio.to_thread(context_for, self._credentials.token_url, self._ca_bundle)
        except ValueError as error:
            raise Unreachable(f"{self._where}: {error}; check transport.caBundleRef", executed=False) from None
        headers, form = request_of(self._credentials)
        # A session for each fetch: they are hours apart, and no cookie and no connection is to be kept.
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls if tls is not None else True)) as session,
            session.post(
                URL(self._credentials.token_url, encoded=True), data=form, headers=headers, allow_redirects=False
            ) as response,
        ):
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise ProtocolViolation(
                        f"{self._where} answered with more than {ANSWER_BYTES} bytes; check {_FIELD}.tokenUrl",
                        executed=False,
                    )
            return response.status, bytes(body)


def request_of(credentials: ClientCredentials) -> tuple[dict[str, str], bytes]:
    """Headers and form of the request."""
    form = {"grant_type": "client_credentials"}
    if credentials.scopes:
        form["scope"] = " ".join(credentials.scopes)
    if credentials.resource is not None:
        form["resource"] = credentials.resource
    headers = {
        "User-Agent": f"mcp-connections/{__version__}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    if credentials.client_authentication == "Post":
        form |= {"client_id": credentials.client_id, "client_secret": credentials.client_secret}
    else:
        # Both are form-encoded before they are joined (RFC 6749, section 2.3.1): a colon would end the id.
        pair = f"{quote_plus(credentials.client_id)}:{quote_plus(credentials.client_secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return headers, urlencode(form).encode()


def token_of(body: bytes, where: str) -> AccessToken:
    """The token in a successful answer (RFC 6749, section 5.1). Raises ProtocolViolation."""
    answer = _object(body)
    if answer is None:
        raise _unusable(where, "is no JSON object")
    text, kind = answer.get("access_token"), answer.get("token_type", "Bearer")
    if not isinstance(text, str) or not _TOKEN.fullmatch(text) or len(text) > TOKEN_BYTES:
        raise _unusable(where, f"has no access_token of 1 to {TOKEN_BYTES} printable characters")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _unusable(where, "has another token_type than Bearer")
    return AccessToken(text, _seconds(answer.get("expires_in")))


def _seconds(expires_in: object) -> float | None:
    # A number by the specification; some servers put it in quotes. What is neither says nothing.
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float | str):
        return None
    try:
        seconds = float(expires_in)
    except (ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _unusable(where: str, problem: str) -> ProtocolViolation:
    return ProtocolViolation(f"{where} gave an answer that {problem}; check {_FIELD}.tokenUrl", executed=False)


def refusal_of(status: int, body: bytes, where: str, redactor: Redactor) -> ChannelError:
    """What an answer other than success means."""
    answer = _object(body) or {}
    code = answer.get("error")
    said = _quoted(code, answer.get("error_description"), redactor)
    if 300 <= status < 400:
        text = f"{where} redirects (HTTP {status}); put the final URL into {_FIELD}.tokenUrl"
        return Unreachable(text, executed=False)
    if status >= 500 or status in _LATER:
        return Unreachable(f"{where} answered HTTP {status}{said}; it is asked again by itself", executed=False)
    if status in _NOT_THERE and not said:
        return Unreachable(f"{where} answered HTTP {status}; check {_FIELD}.tokenUrl", executed=False)
    advice = _ADVICE.get(code, _USUAL_ADVICE) if isinstance(code, str) else _USUAL_ADVICE
    return Unauthorized(f"{where} refused to give a token (HTTP {status}{said}); {advice}", executed=False)


def _quoted(code: object, description: object, redactor: Redactor) -> str:
    texts = [redactor.excerpt(text.encode()) for text in (code, description) if isinstance(text, str) and text]
    return f", {': '.join(texts)}" if texts else ""


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
