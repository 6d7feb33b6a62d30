"""The pages that are made from the program are up to date, and the index has every page."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from itertools import pairwise

import pytest
from doc_blocks import ROOT, name_of, pages

import penstock

sys.path.append(str(ROOT / "docs" / "generate"))
api_pages = import_module("api_pages")
made_pages = import_module("made_pages")
public_names = import_module("public_names")

NAMES = [place for page in public_names.PAGES for place in page.names]


def test_the_reference_the_commands_and_llms_txt_are_up_to_date() -> None:
    assert made_pages.stale() == [], "run `python docs/generate`"


def test_every_public_name_is_in_the_reference() -> None:
    shown = {place.partition(":")[2] for place in NAMES if place.startswith("penstock:")}
    assert set(penstock.__all__) - {"__version__"} == shown
    for room in ("records", "pipelines", "files"):
        module = import_module(f"penstock.{room}")
        listed = {id(api_pages.found(place)) for place in NAMES}
        missing = [name for name in module.__all__ if id(getattr(module, name)) not in listed and name != "Data"]
        assert missing == [], room


@pytest.mark.parametrize("place", NAMES)
def test_it_says_what_it_promises(place: str) -> None:
    value = api_pages.found(place)
    silent = [] if api_pages.own_words(value) else [place]
    if inspect.isclass(value):
        names = [name for name, _ in api_pages.members(value)]
        silent += [f"{place}.{name}" for name in names if not api_pages.member_words(value, name)]
    assert silent == []


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#]+)", index.read_text())}
    listed |= {page for folder in listed if folder.is_dir() for page in folder.iterdir()}
    missing = [name_of(page) for page in pages() if page not in {*listed, index, ROOT / "README.md"}]
    assert missing == [], "write a line for each in docs/README.md, then run `python docs/generate`"


def test_the_ways_through_the_pages_end_where_they_should() -> None:
    """From the README to a job on AWS in four pages, each of which says what comes next."""
    way = ["README.md", "docs/first-job.md", "docs/life-of-a-job.md", "docs/on-aws.md"]
    for here, there in pairwise(way):
        last = (ROOT / here).read_text().rpartition("Next: ")[2]
        assert there.rpartition("/")[2] in last, f"{here} does not end with the way to {there}"
    assert "Next: " in (ROOT / way[-1]).read_text()


def test_the_walks_of_the_architecture_name_files_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    walks = page.partition("<!-- walks: begin")[2].partition("<!-- walks: end -->")[0]
    rows = re.findall(r"^\| `([\w/.]+)/` \| (.*) \|$", walks, re.MULTILINE)
    files = [f"{folder}/{file}" for folder, texts in rows for file in re.findall(r"`(\w+\.py)`", texts)]
    missing = [file for file in files if not (ROOT / "src" / "penstock" / file).is_file()]
    assert missing == [], "run `python docs/generate --walks`"
    assert len(files) > 100
