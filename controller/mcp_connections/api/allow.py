"""Which clients may see and use a connection, among those that may use its proxy."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from mcp_connections.api.lists import ListSet
from mcp_connections.api.model import ApiModel
from mcp_connections.api.rules import Rule

_Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_Texts = Annotated[tuple[_Text, ...], Field(max_length=64), ListSet()]


class AllowedClients(ApiModel):
    """Clients whose token has all the scopes and, for each claim named, one of the values."""

    scopes: _Texts = ()
    """Scopes the token must carry, all of them."""
    claims: Annotated[
        dict[str, _Texts],
        Field(max_length=16),
        Rule(
            cel="self.all(claim, claim.size() >= 1 && claim.size() <= 128 && self[claim].size() >= 1)",
            message="must have keys of 1 to 128 characters, the names of the claims, and at least one value for each",
            holds=lambda claims: all(1 <= len(name) <= 128 and values for name, values in claims.items()),
        ),
    ] = Field(default_factory=dict)
    """Accepted values by the name of the claim. A claim that is a list needs one of them among its items."""
