"""How the proxy authenticates itself to a backend."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from mcp_connections.api.lists import ListSet
from mcp_connections.api.model import ApiModel
from mcp_connections.api.rules import Rule, one_of
from mcp_connections.api.secret_refs import SecretKeyRef, ValueSource
from mcp_connections.api.strings import HeaderName, HttpUrl


class BearerAuth(ApiModel):
    """A token sent as ``Authorization: Bearer`` (RFC 6750)."""

    secret_key_ref: SecretKeyRef
    """The key of a Secret that holds the token. Surrounding whitespace and a leading ``Bearer`` are removed."""


class OAuthClientCredentials(ApiModel):
    """A token fetched with the client credentials grant (RFC 6749, section 4.4) and renewed before it expires."""

    token_url: HttpUrl
    """Token endpoint of the authorization server."""
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Client identifier."""
    client_secret: ValueSource
    """Where the client secret comes from."""
    scopes: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=256)], ...], Field(max_length=64), ListSet()
    ] = ()
    """Scopes to ask for."""
    resource: HttpUrl | None = None
    """Resource indicator (RFC 8707). Default: the URL of the transport."""


class BackendAuth(ApiModel):
    """How the proxy authenticates itself to the backend. At most one method is set."""

    bearer: BearerAuth | None = None
    """A fixed token from a Secret."""
    oauth_client_credentials: OAuthClientCredentials | None = None
    """A token from an OAuth 2.0 authorization server."""
    forward_headers: Annotated[tuple[HeaderName, ...], Field(max_length=32), ListSet()] = ()
    """Headers of the client's request that are passed on to the backend. Default: none. A configured credential
    wins."""

    rules: ClassVar[tuple[Rule, ...]] = (one_of("bearer", "oauthClientCredentials", at_least=0),)
