"""The documentation as a site: every page is in its navigation once, and nothing comes from another host."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from doc_blocks import ROOT, blocks_of, name_of, pages

sys.path.append(str(ROOT / "docs" / "generate"))
contents = import_module("contents")
site_check = import_module("site_check")
site_pages = import_module("site_pages")
static_site = import_module("static_site")

SECTIONS = contents.sections(ROOT, set())


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def places(value: object) -> list[str]:
    """The pages that a navigation leads to."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value
    return [place for one in inside for place in places(one)]


def test_the_navigation_has_every_page_once() -> None:
    found = places(static_site.navigation(SECTIONS))
    assert sorted(found) == sorted(set(found))
    wanted = {site_pages.place_of(name_of(page)) for page in pages()} | {"decisions/index.md", "figures.md"}
    assert wanted - set(found) == set(), "write a line for each in docs/README.md"
    assert set(found) - wanted == set()


def test_no_two_pages_have_one_address() -> None:
    built = site_pages.site_pages(ROOT, SECTIONS)
    found = [str(static_site.built(Path(), place)) for place in built.texts]
    assert sorted(found) == sorted(set(found))


def test_each_kind_of_reader_has_a_page_of_the_first_section() -> None:
    first = [entry.path for entry in SECTIONS[0].groups[0].entries]
    assert first[:4] == [f"docs/start-{name}.md" for name in ("testing", "jobs", "tables", "systems")]
    for path in first[:4]:
        text = (ROOT / path).read_text()
        assert "```console" in text and "## Next" in text and len(text.splitlines()) < 110, path


def test_links_are_moved_with_their_pages_and_code_is_left_alone(tmp_path: Path) -> None:
    page = (
        "# One\n<!-- a remark -->\n[home](../README.md#top), [`code`](../examples/a/b.py), "
        "[m](../Makefile), `[x](y.md)`, `<!-- shown -->` ![p](p.svg)\n"
        "```\n[x](y.md)\n```\n"
    )
    written(tmp_path, README_md="# Home\n", docs__README_md="## A\n\n- [One](one.md)\n", docs__one_md=page)
    written(tmp_path, examples__a__b_py="print(1)\n", docs__p_svg="<svg/>", Makefile="all:\n")
    built = site_pages.site_pages(tmp_path, contents.sections(tmp_path, set()))
    assert built.texts["one.md"] == (
        "# One\n[home](index.md#top), [`code`](examples/a/b.py.md), [m](Makefile.md), "
        "`[x](y.md)`, `<!-- shown -->` ![p](p.svg)\n```text\n[x](y.md)\n```\n"
    )
    assert built.texts["Makefile.md"] == "# Makefile\n\n````make\nall:\n````\n"
    assert "print(1)" in built.texts["examples/a/b.py.md"]
    assert built.files == {"p.svg": tmp_path / "docs" / "p.svg"}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_what_belongs_to_an_item_of_a_list_is_set_in_by_four_blanks(page: Path) -> None:
    """Python's Markdown ends the list otherwise; GitHub takes both."""
    lines = page.read_text().splitlines()
    blanks = [len(line) - len(line.lstrip()) for line in lines]
    fences = {number for block in blocks_of(page.read_text()) for number in block.lines}
    outside = [number for number in range(1, len(lines)) if number not in fences and not lines[number - 1].strip()]
    assert [number + 1 for number in outside if lines[number].strip() and 0 < blanks[number] < 4] == []


@pytest.mark.parametrize("link", ["nowhere.md", "../../outside.md", "../src/", "two.md"])
def test_a_link_that_the_site_does_not_have_is_an_error(tmp_path: Path, link: str) -> None:
    written(tmp_path, README_md="# Home\n", docs__README_md="## A\n\n- [One](one.md)\n", docs__one_md=f"[x]({link})\n")
    written(tmp_path, docs__two_md="# Two, which is not listed\n", src__a_py="")
    with pytest.raises(site_pages.SiteError, match="links to"):
        site_pages.site_pages(tmp_path, contents.sections(tmp_path, set()))


def test_a_page_that_is_listed_twice_is_an_error(tmp_path: Path) -> None:
    index = "## A\n\n- [One](one.md)\n\n## B\n\n- [Again](one.md)\n"
    written(tmp_path, README_md="# Home\n", docs__README_md=index, docs__one_md="# One\n")
    with pytest.raises(site_pages.SiteError, match=r"one\.md twice"):
        site_pages.site_pages(tmp_path, contents.sections(tmp_path, set()))


def test_what_the_built_site_must_not_have_is_found(tmp_path: Path) -> None:
    page = (
        '<script src="https://cdn.example/a.js"></script><img src="gone.png"><h2 id="here">x</h2><a href="#there">x</a>'
        '<a href="#here">x</a><a href="two/">x</a><a href="three/">x</a><a href="https://example.org">x</a>'
    )
    written(tmp_path, index_html=page, two__index_html="", a_css="@font-face{src:url(https://fonts.example/a.woff)}")
    assert site_check.faults(tmp_path) == [
        "index.html: loads https://cdn.example/a.js from another host",
        "index.html: loads gone.png, which is not there",
        "index.html: links to #there: there is no such heading",
        "index.html: links to three/, which is not there",
        "a.css loads something from another host",
    ]


def test_a_state_diagram_is_a_table_of_the_site() -> None:
    text = site_pages.site_pages(ROOT, SECTIONS).texts["life-of-a-job.md"]
    assert "mermaid" not in text
    assert "| processing | failed | failed |" in text.splitlines()


@pytest.mark.skipif(not static_site.is_possible(), reason="Zensical is not installed: pip install -e '.[docs]'")
def test_the_site_is_built_whole_and_strictly(tmp_path: Path) -> None:
    built = site_pages.site_pages(ROOT, SECTIONS)
    assert static_site.build_site(built, SECTIONS, tmp_path / "site") == len(built.texts)
    assert (tmp_path / "site" / "search.json").stat().st_size > 100_000
    broken = site_pages.SitePages(
        {**built.texts, "first-job.md": "# x\n\n[a](life-of-a-job.md#nowhere)\n"}, built.files
    )
    with pytest.raises(site_pages.SiteError, match="nowhere"):
        static_site.build_site(broken, SECTIONS, tmp_path / "site")
    assert (tmp_path / "site" / "first-job" / "index.html").is_file(), "the old site is left"
