"""How a change of the settings of an McpProxy is told."""

from __future__ import annotations

import pytest

from mcp_connections.cli.setting_changes import setting_changes
from mcp_connections.mounts.spec import Access, DesiredMounts, JwtAccess, RateLimit

JWT = JwtAccess(issuer="https://a", audience="mcp", jwks_uri="https://a/keys")


def access(**settings: object) -> DesiredMounts:
    return DesiredMounts(access=Access.model_validate(settings))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (DesiredMounts(), DesiredMounts(), []),
        (DesiredMounts(), DesiredMounts(separator="__"), ["separator '_' is now '__'"]),
        (DesiredMounts(), DesiredMounts(drain_timeout=5), ["drainTimeout 30 s is now 5 s"]),
        (DesiredMounts(), DesiredMounts(start_policy="Strict"), ["startPolicy 'Lenient' is now 'Strict'"]),
        (
            DesiredMounts(),
            DesiredMounts(client_rate_limit=RateLimit(requests=5, per=1, burst=10)),
            ["rateLimit none is now 5 per 1 s, 10 at once"],
        ),
        (
            access(method="bearer", bearer_token="s3cret"),
            access(method="none"),
            ["auth bearer is now none: clients need no token"],
        ),
        (access(), access(method="bearer", bearer_token="s"), ["auth unset is now bearer: clients need the token"]),
        (access(), access(method="jwt", jwt=JWT), ["auth unset is now jwt: clients need a token of https://a"]),
        (
            access(method="bearer", bearer_token="old"),
            access(method="bearer", bearer_token="new"),
            ["auth bearer: the token changed"],
        ),
        (
            access(method="jwt", jwt=JWT),
            access(method="jwt", jwt=JWT.model_copy(update={"jwks_uri": "https://b"})),
            ["auth jwt: jwksUri 'https://a/keys' is now 'https://b'"],
        ),
        (access(), access(allowed_hosts=("a", "b")), ["allowedHosts unset is now a, b"]),
    ],
)
def test_every_setting_is_told(before: DesiredMounts, after: DesiredMounts, told: list[str]) -> None:
    assert setting_changes(before, after) == told
