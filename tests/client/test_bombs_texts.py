"""Texts that a regular expression could divide in very many ways: it must not try them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from penstock.client.transports.endpoints import Endpoint, parse
from penstock.errors import BadUrl
from penstock.files.content import checked_type


def seconds(read: Callable[[str], object], text: str) -> float:
    """Of this process, and the best of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        with suppress(BadUrl, ValueError):
            read(text)
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize(
    ("read", "start", "part", "end"),
    [(lambda text: parse(text, {}), "http://host", "/a", "\u00e9"), (checked_type, "a/b", ";x", "\u00e9")],
    ids=["the path of a URL", "the parameters of a content type"],
)
def test_twice_the_text_is_not_the_square_of_the_work(
    read: Callable[[str], object], start: str, part: str, end: str
) -> None:
    little, much = (seconds(read, start + part * count + end) for count in (11, 22))
    assert much < 100 * little  # every way to divide them: two thousand times


@pytest.mark.parametrize("path", ["", "/", "/a", "/a/", "/a/b.c/~d", "/...", "/.a", "/a..", "/%2F"])
def test_a_url_may_have_a_path(path: str) -> None:
    found = parse(f"http://host{path}", {})
    assert isinstance(found, Endpoint)
    assert found.host.path == (path or "/")


@pytest.mark.parametrize(
    "path", ["//", "/a//b", "/./", "/a/./b", "/..", "/../a", "/a/..", "/a/../b", "/\u00e9", "/a b"]
)
def test_a_path_that_servers_sign_in_two_ways_is_refused(path: str) -> None:
    with pytest.raises(BadUrl):
        parse(f"http://host{path}", {})


@pytest.mark.parametrize("kind", ["text/plain", "text/plain; charset=utf-8", 'a/b;c="d;e" ; f=g', "a/b+c;x;y"])
def test_a_content_type_may_have_parameters(kind: str) -> None:
    assert checked_type(kind) == kind
