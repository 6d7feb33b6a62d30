"""`penstock tables … --db FILE` where there is no such file, or one that is no database."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_tables import here, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("here")

URL = ("--db", "absent.db")
LOOKING = [
    ("verify", "mine:before"),
    ("export", "mine:before", "--out", "out"),
    ("doctor", "mine:before"),
    ("destroy", "mine:before", "--yes", "--allow-destroy"),
    ("add-index", "mine:before", "--table", "jobs", "--index", "i", "--partition-key", "k", "--yes"),
    (
        "change-index",
        "mine:before",
        "--table",
        "jobs",
        "--index",
        "i",
        "--partition-key",
        "k",
        "--yes",
        "--allow-destroy",
    ),
    ("backup", "jobs"),
    ("restore", "again", "--from", "jobs"),
    ("dump", "jobs", "--out", "dumped"),
    ("load", "dumped", "--table", "jobs"),
    ("diff-data", "a", "b"),
    ("rekey", "status", "jobs"),
    ("rekey", "jobs", "--key", "other:S", "--into", "jobs2"),
]


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir() if path.name != "__pycache__")


@pytest.mark.parametrize("words", LOOKING, ids=lambda words: " ".join(words[:2]))
def test_what_needs_a_table_makes_no_file(words: tuple[str, ...]) -> None:
    before = files()
    told = run(*words, *URL, code=1).output
    assert "absent.db: there is no such database. Check the name" in told
    assert files() == before


@pytest.mark.parametrize("words", [("plan",), ("apply", "--dry-run")])
def test_what_only_plans_compares_with_an_empty_database(words: tuple[str, ...]) -> None:
    told = run(words[0], "mine:before", *words[1:], *URL).output
    assert "absent.db does not exist yet: compared with an empty database." in told
    assert "Plan: 2 to create." in told
    assert not Path("absent.db").exists()


def test_apply_makes_the_file_when_it_was_agreed_to() -> None:
    assert "Apply this to absent.db?" in run("apply", "mine:before", *URL, code=2).output
    assert not Path("absent.db").exists()
    run("apply", "mine:before", *URL, "--yes")
    run("verify", "mine:before", *URL)


@pytest.mark.parametrize("content", [b"x", b"no database\n" * 500], ids=["one byte", "a text"])
@pytest.mark.parametrize("words", [("plan",), ("apply", "--yes")], ids=["plan", "apply"])
def test_a_file_that_is_no_database_is_left_as_it_is(content: bytes, words: tuple[str, ...]) -> None:
    Path("absent.db").write_bytes(content)
    told = run(words[0], "mine:before", *words[1:], *URL, code=1).output
    assert told == "Error: absent.db: this file is not a database. Name another one.\n"
    assert Path("absent.db").read_bytes() == content


def test_an_empty_file_is_one_that_is_yet_to_be_made() -> None:
    Path("absent.db").touch()
    run("verify", "mine:before", *URL, code=1)
    assert Path("absent.db").read_bytes() == b""
    run("apply", "mine:before", *URL, "--yes")
