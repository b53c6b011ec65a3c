"""Which header lines are made of a client's request."""

from __future__ import annotations

import pytest

from mcp_connections.proxy.wire.forwarded_headers import MAX_VALUE_BYTES, HeaderForwarding, nominated
from mcp_connections.proxy.wire.jsonrpc import RpcError

FORWARDING = HeaderForwarding(["X-Tenant", "x-request-id", "X-Own"], configured=["x-OWN"], connection="team/shop")


def test_what_is_named_goes_in_its_order_and_nothing_else() -> None:
    fields = [
        (b"x-request-id", b"1"),
        (b"x-other", b"o"),
        (b"authorization", b"Bearer t"),
        (b"x-tenant", b"a\tb"),
        (b"x-tenant", "ü".encode("latin-1")),
        (b"x-own", b"of the client"),
    ]
    assert FORWARDING.lines(fields) == b"x-request-id: 1\r\nx-tenant: a\tb\r\nx-tenant: \xfc\r\n"
    assert FORWARDING.lines([(b"x-other", b"o")]) == b""


def test_what_the_client_meant_for_one_hop_ends_there() -> None:
    fields = [(b"x-tenant", b"a"), (b"connection", b"keep-alive, X-Tenant"), (b"x-request-id", b"1")]
    assert nominated(fields) == {b"keep-alive", b"x-tenant"}
    assert FORWARDING.lines(fields) == b"x-request-id: 1\r\n"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"s" * (MAX_VALUE_BYTES + 1), "has 8193 bytes, more than the 8192"),
        (b"secret\r\nx-evil: 1", "has a control character inside"),
        (b"secret\nx", "has a control character inside"),
        (b"secret\0", "has a control character inside"),
    ],
)
def test_a_value_that_is_unfit_is_refused_and_not_quoted(value: bytes, problem: str) -> None:
    with pytest.raises(RpcError, match=problem) as caught:
        FORWARDING.lines([(b"x-tenant", value)])
    message = caught.value.body().decode()
    assert "x-tenant" in message
    assert "team/shop" in message
    assert "sss" not in message
    assert "secret" not in message


def test_the_longest_value_passes() -> None:
    assert len(FORWARDING.lines([(b"x-tenant", b"v" * MAX_VALUE_BYTES)])) == MAX_VALUE_BYTES + len("x-tenant: \r\n")
