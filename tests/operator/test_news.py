"""Echoes of our own writes are not news; the memory for that is bounded."""

from __future__ import annotations

from mcp_connections.operator.news import News
from mcp_connections.operator.references import References
from mcp_connections.operator.trigger import ProxyKey

A, B = ProxyKey("team", "a"), ProxyKey("team", "b")
SECRET = ("Secret", "team", "token")


def test_the_same_again_is_no_news() -> None:
    news = News()

    assert news.is_new("uid", 1)
    assert not news.is_new("uid", 1)
    assert news.is_new("uid", 2)


def test_what_was_forgotten_is_news() -> None:
    news = News()
    news.is_new("uid", 1)

    news.forget("uid")

    assert news.is_new("uid", 1)


def test_memory_is_bounded_and_drops_the_oldest() -> None:
    news = News(limit=2)
    for uid in ("a", "b", "c"):
        news.is_new(uid, 1)

    assert not news.is_new("c", 1)
    assert not news.is_new("b", 1)
    assert news.is_new("a", 1)


def test_references_name_their_users() -> None:
    references = References()
    references.replace(A, [SECRET])
    references.replace(B, [SECRET])

    assert references.users(SECRET) == {A, B}


def test_a_dropped_reference_has_no_user() -> None:
    references = References()
    references.replace(A, [SECRET])

    references.replace(A, [])

    assert references.users(SECRET) == frozenset()
