"""Who a client is, and which connections it may see (MCP, basic/authorization).

Tokens are for this endpoint alone: they are checked here and never passed on. Verifying a JWT costs more than relaying
a call, so a token that was found good is remembered for a minute at most, and never beyond its expiry.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from mcp_connections.mounts.spec import Access, AllowRule, JwtAccess

if TYPE_CHECKING:
    from fastmcp.server.auth.providers.jwt import JWTVerifier

log = logging.getLogger(__name__)

REMEMBERED_TOKENS: Final = 1024
REMEMBERED_SECONDS: Final = 60.0
JWKS_REFRESH_SECONDS: Final = 5.0
"""The issuer's keys are fetched again for a token signed with an unknown one, but no sooner than this."""
ALGORITHMS: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
)
"""Asymmetric ones only: with a symmetric one the published key would be the secret."""

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


class Principal(NamedTuple):
    """Somebody who may use the endpoint. ``key`` tells principals apart."""

    key: str
    scopes: frozenset[str]
    claims: Mapping[str, Any]


ANONYMOUS: Final = Principal("", frozenset(), {})


class Denied(Exception):
    """Answer with this status and WWW-Authenticate challenge (RFC 6750, section 3; RFC 9728, section 5.1)."""

    def __init__(self, status: int, message: str, *, error: str = "", scope: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.scope = scope

    def challenge(self, metadata_url: str | None) -> bytes:
        """The value of WWW-Authenticate."""
        parts = [f'error="{self.error}", error_description="{self}"'] if self.error else []
        if self.scope:
            parts.append(f'scope="{self.scope}"')
        if metadata_url is not None:
            parts.append(f'resource_metadata="{metadata_url}"')
        return f"Bearer {', '.join(parts)}".strip().encode("ascii", "replace")


class Gate(Protocol):
    """Decides who may come in."""

    is_open: bool
    """Everybody may, and nobody is asked."""

    async def admit(self, authorization: bytes | None) -> Principal:
        """Who presents this Authorization header. Raises Denied."""


class OpenGate:
    """Clients are not authenticated."""

    is_open = True

    async def admit(self, authorization: bytes | None) -> Principal:
        return ANONYMOUS


class BearerGate:
    """All clients present the same token."""

    is_open = False

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()

    async def admit(self, authorization: bytes | None) -> Principal:
        token = _token(authorization, scope="")
        if not hmac.compare_digest(hashlib.sha256(token).digest(), self._digest):
            raise Denied(401, "the token is not the one of this endpoint", error="invalid_token")
        return Principal("bearer", frozenset(), {})


class JwtGate:
    """Clients present tokens of an authorization server."""

    is_open = False

    def __init__(self, jwt: JwtAccess) -> None:
        self._jwt = jwt
        self._scope = " ".join(jwt.required_scopes)
        self._verifiers: dict[str, JWTVerifier] = {}
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def admit(self, authorization: bytes | None) -> Principal:
        token = _token(authorization, scope=self._scope)
        digest = hashlib.sha256(token).digest()
        known = self._known.get(digest)
        if known is not None and time.time() < known[0]:
            self._known.move_to_end(digest)
            return known[1]
        principal, expires_at = await self._verify(token.decode("latin-1"))
        missing = [scope for scope in self._jwt.required_scopes if scope not in principal.scopes]
        if missing:
            message = f"the token lacks the scope {' '.join(missing)}"
            raise Denied(403, message, error="insufficient_scope", scope=self._scope)
        self._remember(digest, principal, expires_at)
        return principal

    def _remember(self, digest: bytes, principal: Principal, expires_at: int | None) -> None:
        until = time.time() + REMEMBERED_SECONDS
        self._known[digest] = (min(until, expires_at) if expires_at is not None else until, principal)
        if len(self._known) > REMEMBERED_TOKENS:
            self._known.popitem(last=False)

    async def _verify(self, token: str) -> tuple[Principal, int | None]:
        algorithm = _algorithm(token)
        if algorithm not in ALGORITHMS:
            raise Denied(401, "the token is no JWT signed with a supported algorithm", error="invalid_token")
        access = await self._verifier(algorithm).verify_token(token)
        if access is None:
            message = "the token is expired, or not one of the issuer for this audience"
            raise Denied(401, message, error="invalid_token", scope=self._scope)
        claims = dict(access.claims)
        key = f"{claims.get('iss', '')} {claims.get('sub') or access.client_id}"
        return Principal(key, frozenset(access.scopes), claims), access.expires_at

    def _verifier(self, algorithm: str) -> JWTVerifier:
        if algorithm not in self._verifiers:
            from fastmcp.server.auth.providers.jwt import JWTVerifier

            self._verifiers[algorithm] = JWTVerifier(
                jwks_uri=self._jwt.jwks_uri,
                issuer=self._jwt.issuer,
                audience=self._jwt.audience,
                algorithm=algorithm,
                jwks_refresh_interval=JWKS_REFRESH_SECONDS,
            )
        return self._verifiers[algorithm]


class ClosedGate:
    """The credential that clients would be checked against is missing."""

    is_open = False

    async def admit(self, authorization: bytes | None) -> Principal:
        raise Denied(401, "this endpoint has no token to check clients against; its owner has to provide one")


def gate_for(access: Access) -> Gate:
    """The gate that the settings ask for."""
    if access.method == "bearer":
        return BearerGate(access.bearer_token) if access.bearer_token else ClosedGate()
    if access.method == "jwt":
        return JwtGate(access.jwt) if access.jwt else ClosedGate()
    return OpenGate()


def resource_metadata(jwt: JwtAccess, resource: str) -> bytes:
    """The protected resource metadata document (RFC 9728, section 2)."""
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": [jwt.issuer],
        "bearer_methods_supported": ["header"],
    }
    if jwt.required_scopes:
        document["scopes_supported"] = list(jwt.required_scopes)
    return json.dumps(document).encode()


def may_use(rules: Sequence[AllowRule], principal: Principal) -> bool:
    """Whether any of a connection's rules admits the principal; without rules everybody is admitted."""
    return not rules or any(_admits(rule, principal) for rule in rules)


def _admits(rule: AllowRule, principal: Principal) -> bool:
    return principal.scopes.issuperset(rule.scopes) and all(
        not _values(principal.claims.get(claim)).isdisjoint(values) for claim, values in rule.claims.items()
    )


def _values(claim: object) -> set[str]:
    """A claim's values as texts: of a list each, of a single value that one."""
    if claim is None:
        return set()
    many = claim if isinstance(claim, list | tuple) else [claim]
    return {json.dumps(value) if isinstance(value, bool) else str(value) for value in many}


def _token(authorization: bytes | None, *, scope: str) -> bytes:
    scheme, _, token = (authorization or b"").partition(b" ")
    if scheme.lower() != b"bearer" or not token.strip():
        raise Denied(401, "a bearer token is needed", scope=scope)
    return token.strip()


def _algorithm(token: str) -> str:
    head = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return ""
    algorithm = header.get("alg") if isinstance(header, dict) else None
    return algorithm if isinstance(algorithm, str) else ""
