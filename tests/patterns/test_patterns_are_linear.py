"""Every regular expression in src/penstock takes steps in proportion to its text.

The patterns are found in the source (pattern_sources.py), so that a new one is checked with no change here. One that
fails names the text that is slow: give the pattern one way to read it (possessive `*+` and `++`, atomic `(?>…)`), one
place to begin (a lookbehind), or look for its end first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_texts import Hostile, find_growth
from pattern_sources import Module, Site, compiled_on_import, find_sites, other_imports, read_modules, with_recorded
from step_counter import Program

import penstock

ROOT = Path(penstock.__file__).parents[1]
ROOMS = sorted(path.name for path in (ROOT / "penstock").iterdir() if not path.name.startswith(("_", ".")))


def words_of_delphi() -> list[str]:
    from penstock.systems.delphi.analysis import languages

    several = [one.several.pattern for one in map(languages.language, ("fr", "vi")) if one.several is not None]
    assert several
    cutter = languages._cutter("ja").pattern.split("|")[:20]  # with all of its words, the counter has an end before
    return [languages._word_pattern().pattern, "|".join(cutter), *several]


# What neither the source nor the import shows, by its file: why, and what it compiles.
HIDDEN: dict[str, Callable[[], list[str]]] = {
    # Made from a thousand marks, and from lists of words, when they are first needed.
    "penstock/systems/delphi/analysis/languages.py": words_of_delphi,
}

NASTY = (
    Hostile("", '\\"', ""),
    Hostile("", "''", "'"),
    Hostile("'", "''", ""),
    Hostile("", "/*", ""),
    Hostile("", "${", ""),
    Hostile("", "--", "\n"),
    Hostile("total ", " ", "x"),
    Hostile("", "total number of ", "="),
    Hostile("a", "\t ", "\x00"),
    Hostile("", "é", "\n"),
    Hostile("arn:aws:dynamodb:", ":", "/"),
    Hostile("arn:aws:dynamodb:us-east-1:000000000000:table/", "a/", ":"),
    Hostile("", "REMOVE ", "("),
    Hostile("0.", "0", "e"),
    Hostile("", "../", "\n"),
    Hostile("https://", "a.", "]"),
    Hostile("", "\r\n", " "),
)


@pytest.fixture(scope="module")
def sites(modules: list[Module]) -> list[Site]:
    found = find_sites(modules)
    if any(not site.patterns for site in found):
        found = with_recorded(found, compiled_on_import(ROOT, "penstock"))
    return [
        site._replace(patterns=tuple((pattern, 0) for pattern in HIDDEN[site.file]()))
        if not site.patterns and site.file in HIDDEN
        else site
        for site in found
    ]


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return read_modules(ROOT, "penstock")


def test_the_steps_of_every_pattern_grow_as_the_text_does(sites: list[Site]) -> None:
    """One test: to collect the patterns takes as long as to count their steps, and each process would do it again."""
    assert [site.place for site in sites if not site.patterns] == []
    assert len(sites) > 100
    assert {site.file.split("/")[1] for site in sites} <= set(ROOMS)
    cases = {  # a pattern that is used in several places is counted once
        (pattern, flags, use): site.place for site in sites for pattern, flags in site.patterns for use in site.uses
    }
    slow = [
        f"{place}: {pattern!r} under {use}: steps {growth.steps} of {growth.hostile}"
        for (pattern, flags, use), place in cases.items()
        if (growth := find_growth(Program(pattern, flags), use, NASTY)) is not None
    ]
    assert slow == []


def test_nothing_hides_a_pattern_from_the_source(modules: list[Module]) -> None:
    assert other_imports(modules) == []


def test_nothing_is_listed_as_hidden_that_can_be_read(modules: list[Module]) -> None:
    unread = {site.file for site in find_sites(modules) if not site.patterns}
    assert set(HIDDEN) <= unread


def test_a_new_pattern_is_found_with_its_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "freshly_added"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text(
        "import re\n"
        "_LETTERS = '[a-z]+'\n"
        "_BLANKS = re.compile(r'\\s+$')\n"
        "_NAMES = re.compile(rf'{_LETTERS}(,{_LETTERS})*', re.I)\n"
        "def trimmed(text): return _BLANKS.sub('', text)\n"
        "def is_name(text): return _NAMES.fullmatch(text)\n"
        "def parts(text): return re.split(r',\\s*', text)\n"
        "def made(letters): return re.compile(f'[{letters}]+')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = find_sites(read_modules(tmp_path, "freshly_added"))
    assert [(site.line, set(site.uses), [one for one, _ in site.patterns]) for site in found] == [
        (3, {"all"}, [r"\s+$"]),
        (4, {"fullmatch"}, ["[a-z]+(,[a-z]+)*"]),
        (7, {"all"}, [r",\s*"]),
        (8, {"fullmatch", "all", "tokens"}, []),
    ]
    assert found[1].patterns[0][1] == 2
