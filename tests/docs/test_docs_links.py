"""Every link of the documentation leads somewhere: to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from doc_blocks import ROOT, name_of, pages, prose_of

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_ANCHOR = re.compile(r"[^\w\- ]")
_CODE = re.compile(r"`[^`]*`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def links(text: str) -> list[str]:
    return [link for link in _LINK.findall(_CODE.sub("", prose_of(text))) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    names: set[str] = set()
    for heading in _HEADING.findall(prose_of(page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(_ANCHOR.sub("", text).replace(" ", "-"))
    return names


def broken(page: Path, link: str) -> str:
    """What is wrong with the link; empty if it leads somewhere."""
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT) or not target.exists():
        return f"{link}: there is no such file"
    if anchor and anchor not in anchors(target):
        return f"{link}: there is no such heading"
    return ""


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_its_links_lead_somewhere(page: Path) -> None:
    assert [fault for link in links(page.read_text()) if (fault := broken(page, link))] == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = ROOT / "docs" / "first-job.md"
    assert broken(page, "life-of-a-job.md#how-it-is-stored") == ""
    assert (
        broken(page, "life-of-a-job.md#how-it-is-sold") == "life-of-a-job.md#how-it-is-sold: there is no such heading"
    )
    assert broken(page, "nowhere.md") == "nowhere.md: there is no such file"
