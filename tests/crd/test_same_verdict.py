"""The API server and the models find the same fields wrong, whatever is written into them.

Every text rule exists twice, as CEL on RE2 and as Python's re. These strings look for where the two differ.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_connections.api.parsing import InvalidManifest, parse
from tests.api.manifests import manifest
from tests.crd.resource_api import Refused, ResourceApi

AWKWARD = "aZ0.-_:/ \t\n\r\0\x7f\x85\u00a0\u2028üß٣😀'\"`\\%#@?[]*,+"


def near(*valid: str) -> st.SearchStrategy[str]:
    """A valid text, one with a character put in somewhere, or any short text."""
    put_in = st.builds(
        lambda text, at, what: text[:at] + what + text[at:],
        st.sampled_from(valid),
        st.integers(0, 20),
        st.sampled_from(AWKWARD),
    )
    return st.sampled_from(valid) | put_in | st.text(AWKWARD, min_size=1, max_size=6)


CONNECTIONS = st.fixed_dictionaries(
    {
        "prefix": near("a", "a-b_c.D"),
        "proxyRef": st.fixed_dictionaries({"name": near("edge", "a.b-c")}),
        "transport": st.fixed_dictionaries(
            {
                "http": st.fixed_dictionaries(
                    {
                        "url": near("http://h", "https://h.example:443/mcp?a=b", "http://[::1]:80/", "http://h:65536"),
                        "headers": st.tuples(
                            st.fixed_dictionaries({"name": near("X-Key", "host", "TE"), "value": near("v", "a b")})
                        ),
                    }
                )
            }
        ),
        "auth": st.fixed_dictionaries(
            {
                "forwardHeaders": st.tuples(
                    near("X-A", "te", "Sec-A", "Accepted", "x-a", "contents", "x-forwarded"), near("X-B", "x-a")
                ),
                "bearer": st.fixed_dictionaries(
                    {"secretKeyRef": st.fixed_dictionaries({"name": near("token"), "key": near("a_B.c")})}
                ),
            }
        ),
        "policy": st.fixed_dictionaries(
            {
                "timeouts": st.fixed_dictionaries(
                    {
                        "connect": near("5s", "300ms", "5m1ms", "0h"),
                        "request": near("1h", "2m30s", "61s"),
                        "max": near("1h", "60s", "24h1s"),
                    }
                )
            }
        ),
        "tools": st.fixed_dictionaries({"rename": st.dictionaries(near("a", "b"), near("c", "d"), max_size=3)}),
    }
)
PROXIES = st.fixed_dictionaries(
    {"separator": st.text(AWKWARD, min_size=1, max_size=4), "allowedHosts": st.tuples(near("h", "*.h:80", "[::1]:*"))}
)


@settings(max_examples=100, deadline=None)
@given(st.tuples(st.just("McpConnection"), CONNECTIONS) | st.tuples(st.just("McpProxy"), PROXIES))
def test_the_same_fields_are_wrong(dry_run: ResourceApi, resource: tuple[str, dict[str, Any]]) -> None:
    """The models may find fewer: they do not judge an object as a whole once a member of it is wrong."""
    kind, spec = resource

    server, models = by_server(dry_run, manifest(spec, kind)), by_models(manifest(spec, kind))

    assert models <= server
    assert bool(models) == bool(server)


def by_models(candidate: dict[str, Any]) -> set[str]:
    try:
        parse(candidate)
    except InvalidManifest as error:
        return {_owner(each.field) for each in error.errors}
    return set()


def by_server(api: ResourceApi, candidate: dict[str, Any]) -> set[str]:
    try:
        api.create(candidate, dryRun="All", fieldValidation="Strict")
    except Refused as error:
        return {_owner(field) for field, _ in error.causes if field != "<nil>"}
    return set()


def _owner(field: str) -> str:
    """The key of a map is written ``[key]`` by one and ``.key`` by the other."""
    return "spec.tools.rename" if field.startswith("spec.tools.rename") else field
