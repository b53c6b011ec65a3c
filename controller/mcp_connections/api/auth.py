"""How the proxy authenticates itself to a backend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from mcp_connections.api.lists import ListSet
from mcp_connections.api.model import ApiModel
from mcp_connections.api.rules import Rule, one_of
from mcp_connections.api.secret_refs import SecretKeyRef, ValueSource
from mcp_connections.api.strings import ForwardedHeaderName, HttpUrl


class BearerAuth(ApiModel):
    """A token sent as ``Authorization: Bearer`` (RFC 6750)."""

    secret_key_ref: SecretKeyRef
    """The key of a Secret that holds the token. Surrounding whitespace and a leading ``Bearer`` are removed."""


class OAuthClientCredentials(ApiModel):
    """A token fetched with the client credentials grant (RFC 6749, section 4.4) and renewed before it expires."""

    token_url: HttpUrl
    """Token endpoint of the authorization server. Used exactly as given; redirects are not followed."""
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Client identifier."""
    client_secret: ValueSource
    """Where the client secret comes from."""
    client_authentication: Literal["Basic", "Post"] = "Basic"
    """How the client proves who it is (RFC 6749, section 2.3.1). Basic: in the Authorization header. Post: in the
    form, for servers that take nothing else."""
    scopes: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...], Field(max_length=64), ListSet()
    ] = ()
    """Scopes to ask for."""
    resource: HttpUrl | None = None
    """Resource indicator (RFC 8707). Default: the URL of the transport, without its query."""


def _distinct(names: Iterable[str]) -> bool:
    lower = [name.lower() for name in names]
    return len(set(lower)) == len(lower)


class BackendAuth(ApiModel):
    """How the proxy authenticates itself to the backend. At most one method is set."""

    bearer: BearerAuth | None = None
    """A fixed token from a Secret."""
    oauth_client_credentials: OAuthClientCredentials | None = None
    """A token from an OAuth 2.0 authorization server."""
    forward_headers: Annotated[
        tuple[ForwardedHeaderName, ...],
        Field(max_length=32),
        ListSet(),
        Rule(
            cel="self.all(a, self.exists_one(b, b.lowerAscii() == a.lowerAscii()))",
            message="must not name a header twice, whatever its case",
            holds=_distinct,
        ),
    ] = ()
    """Headers of a client's request that are passed on with it to the backend, by transport http or sse. Never
    credentials for this endpoint. A header of the same name in the transport wins. Default: none."""

    rules: ClassVar[tuple[Rule, ...]] = (one_of("bearer", "oauthClientCredentials", at_least=0),)
