"""Keys: what is refused, and the law that what is accepted stays inside."""

from __future__ import annotations

import os
import string
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.files import BadKey, open_files
from penstock.files.keys import KEY_BYTES, PART_BYTES, checked_key, checked_prefix, is_key

REFUSED = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x",
    "a/../b",
    "a/..",
    ".",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "a\\b",
    "..\\b",
    "C:/x",
    "a\0b",
    "a\nb",
    "a\x1b[31m",
    ".pen\u200cstock/locks/a",  # HFS+ does not see the joiner
    "_te\u200bmp/a",
    "a\x7f",
    "a\u2028b",
    "a\ud800",
    "con",
    "CON.txt",
    "a/nul",
    "Lpt1.pdf",
    "com¹",
    "a.",
    "a /b",
    " a",
    "a?",
    "a*",
    'a"',
    "a|b",
    "<a>",
    "_temp/x",
    "_TEMP/x",
    ".penstock/manifest",
    ".Penstock",
    "x" * (PART_BYTES + 1),
    "é" * (PART_BYTES // 2 + 1),
    "/".join(["x" * 99] * 9),
]
ACCEPTED = [
    "report.xlsx",
    "jobs/j1/report.xlsx",
    "7central/st_marys/emergency_wing/job_1734567890/checkpoint_context_v1.json",
    "a/_temp/x",
    "..a",
    "console/auxiliary",
    ".hidden",
    "日本語/отчёт.pdf",
    "a b#c&d=e;f'g(h)!~@$%+,[]{}^`",
    "%2e%2e/%2f",
    "x" * PART_BYTES,
    "/".join(["x" * 99] * 8),
]


@pytest.mark.parametrize("key", REFUSED, ids=ascii)
def test_a_key_that_could_lead_out_or_is_no_name_everywhere_is_refused(key: str) -> None:
    with pytest.raises(BadKey) as caught:
        checked_key(key)
    assert str(caught.value).isprintable()
    assert caught.value.next_step


@pytest.mark.parametrize("key", ACCEPTED, ids=ascii)
def test_an_ordinary_key_is_taken_as_it_is(key: str) -> None:
    assert checked_key(key) == key
    assert is_key(key)


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(BadKey, match="a key is a str, not bytes"):
        checked_key(b"x")  # type: ignore[arg-type]


def test_two_spellings_of_one_name_are_one_key() -> None:
    assert checked_key("cafe\u0301.txt") == "caf\u00e9.txt"


AWKWARD = st.text(alphabet="./\\_~: \0\ncon\u0301é" + string.ascii_letters, max_size=40)


@given(st.one_of(st.text(max_size=60), AWKWARD, st.lists(st.sampled_from(["..", ".", "", "a", "_temp"])).map("/".join)))
def test_what_is_accepted_stays_inside_whatever_the_parts_are(text: str) -> None:
    try:
        key = checked_key(text)
    except BadKey:
        return
    root = "/root/of/files"
    assert os.path.normpath(f"{root}/{key}") == f"{root}/{key}"
    assert checked_key(key) == key == unicodedata.normalize("NFC", text)
    assert len(key.encode()) <= KEY_BYTES
    assert checked_prefix(key) == key
    assert not set(key) & set('\\<>:"|?*\0')


@given(st.one_of(st.text(max_size=60), AWKWARD))
def test_a_prefix_never_leads_out_either(text: str) -> None:
    try:
        prefix = checked_prefix(text)
    except BadKey:
        return
    assert not prefix.startswith("/")
    assert not {".", ".."} & set(prefix.split("/"))


@pytest.mark.parametrize("method", ["open", "read", "exists", "info", "delete", "url"])
def test_every_way_in_checks_the_key(method: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    files = open_files(tmp_path / "out")
    with pytest.raises(BadKey):
        getattr(files, method)("../secret")
    with pytest.raises(BadKey):
        files.save("../secret", b"")
    with pytest.raises(BadKey):
        list(files.list("../"))
    assert (tmp_path / "secret").read_text() == "secret"
