"""What errors and logs quote of a backend."""

from __future__ import annotations

from mcp_connections.proxy.channels.redaction import Redactor
from mcp_connections.proxy.channels.stderr_tail import StderrTail


def test_configured_values_are_blanked() -> None:
    redactor = Redactor(["Bearer s3cret-token", "hunter2-hunter2", "debug"])
    text = redactor.clean(b"token s3cret-token refused (hunter2-hunter2), debug on")
    assert text == "token [redacted] refused ([redacted]), debug on"


def test_a_value_that_holds_another_is_blanked_whole() -> None:
    assert Redactor(["password", "password-2"]).clean(b"password-2") == "[redacted]"


def test_colours_and_control_characters_are_dropped_and_bad_utf8_is_shown() -> None:
    assert Redactor([]).clean(b"\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07ok \xff\r\nnext") == "red ok \ufffd\nnext"


def test_an_excerpt_is_one_line_and_bounded() -> None:
    excerpt = Redactor([]).excerpt(b"a\n b" + b"c" * 10_000, 50)
    assert len(excerpt) == 50
    assert excerpt.startswith("a bccc")


def test_the_tail_holds_the_last_lines() -> None:
    tail = StderrTail(Redactor([]))
    for number in range(1000):
        tail.feed(b"line %d\n" % number)
    lines = tail.text().split("\n")
    assert lines == [f"line {number}" for number in range(980, 1000)]


def test_the_tail_is_bounded_whatever_the_lines() -> None:
    tail = StderrTail(Redactor([]))
    for _ in range(100):
        tail.feed(b"x" * 100_000)
    assert 0 < len(tail.text()) <= 4096
    assert tail.text().strip("x") == ""


def test_a_secret_cut_by_the_bound_does_not_show() -> None:
    secret = "s3cret" * 20
    for padding in range(3900, 4200):
        tail = StderrTail(Redactor([secret]))
        tail.feed(b"start\n" * 2000 + secret.encode() + b"y" * padding + b"\n")
        assert "s3cret" not in tail.text()
