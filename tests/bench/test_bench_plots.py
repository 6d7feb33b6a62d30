"""Plots are whole SVG files, readable in light and dark, drawn from figures alone."""

import json
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.bars import Bar
from bench.bars import Panel as BarPanel
from bench.bars import drawing as bar_chart
from bench.loglog import Panel, Series, drawing, spread
from bench.plots import PLOTS, drawn
from bench.report import Section

SVG = "{http://www.w3.org/2000/svg}"
KEPT = Path(__file__).parents[2] / "bench" / "results.json"


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def in_both_themes(svg: str) -> bool:
    style = ElementTree.fromstring(svg).find(f"{SVG}style")
    light, _, dark = (style.text or "" if style is not None else "").partition("prefers-color-scheme: dark")
    return all(f".page {{ fill: {colour}" in part for colour, part in (("#ffffff", light), ("#0d1117", dark)))


def test_bars_are_as_long_as_their_figures_and_named() -> None:
    panel = BarPanel("Gets <&>", "more", (Bar("ours", 200, "200", ours=True), Bar("theirs", 50, "50")))
    svg = bar_chart((panel,), 'a "chart"')
    ours, theirs = (
        float(one.attrib["width"])
        for one in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if "bar" in one.attrib["class"]
    )
    assert ours == pytest.approx(4 * theirs, rel=0.01)
    assert words(svg) == ["Gets <&>", "more", "ours", "200", "theirs", "50"]
    assert in_both_themes(svg)


def test_a_bar_of_nothing_can_be_seen_and_drawn() -> None:
    svg = bar_chart((BarPanel("p", "h", (Bar("none", 0, "0"), Bar("too", 0, "0"))),), "d")
    assert 'width="1.5"' in svg


def test_lines_are_named_where_they_end() -> None:
    lines = (Series("get", "a", ((1e3, 20), (1e6, 30))), Series("put", "b", ((1e3, 20), (1e6, 31))))
    svg = drawing((Panel("Growth", lines, "items", " µs"),), "d")
    assert {"Growth", "get", "put", "items", "10⁶", "100 µs"} <= set(words(svg))
    assert in_both_themes(svg)


@pytest.mark.parametrize("places", [[50.0], [10, 10, 10], [1, 30, 31, 32, 90], [5, 4, 3, 2], []])
def test_names_are_moved_apart_and_keep_their_order(places: list[float]) -> None:
    moved = spread(places, 14)
    order = sorted(range(len(places)), key=lambda one: places[one])
    assert all(moved[after] - moved[before] >= 14 - 1e-9 for before, after in pairwise(order))
    assert sum(moved) == pytest.approx(sum(places))


def test_a_section_without_figures_has_no_plot() -> None:
    assert drawn({name: Section(name, name) for name in PLOTS}) == {}


def test_the_kept_figures_are_drawn_whole_and_in_both_themes() -> None:
    sections = {one["name"]: Section.from_json(one) for one in json.loads(KEPT.read_text())["sections"]}
    made = drawn(sections)
    assert {"http.svg", "growth.svg", "jobs.svg"} <= set(made)
    for name, svg in made.items():
        assert in_both_themes(svg), name
        assert (KEPT.parent / "plots" / name).read_text() == svg, f"{name} is old: python -m bench.results"
