"""Promises are judged by figures alone: met, missed, or not measured."""

from pathlib import Path

import pytest
from bench.promised import KEPT_BY_TESTS, PROMISES
from bench.promises import Bound, Measure, Promise, beside_fastest, judge, least, most, ratio, summary, value
from bench.report import Section, times
from bench.sections import ALL

TESTS = Path(__file__).parents[1]


def section(**figures: float) -> Section:
    named = {name.replace("_", "/"): figure for name, figure in figures.items()}
    return Section("some", "Some", figures=named, measured="2026-11-16 05:00 UTC")


def promise(measure: Measure, bound: Bound, asked: float | Measure) -> Promise:
    return Promise("Room", "it is fast", "some", measure, bound, asked, times)


@pytest.mark.parametrize(
    ("bound", "figure", "met"),
    [("≥", 2, True), ("≥", 1.9, False), (">", 2, False), ("≤", 2, True), ("<", 2, False), ("=", 2, True)],
)
def test_a_promise_is_met_as_its_bound_says(bound: Bound, figure: float, met: bool) -> None:
    assert judge(promise(value("a"), bound, 2), section(a=figure)).met is met


def test_a_figure_that_is_absent_is_no_failure_and_no_success() -> None:
    asked = promise(ratio("a", "b"), "≥", 2)
    for verdict in (judge(asked, section(a=1)), judge(asked, None)):
        assert (verdict.met, verdict.measured, verdict.asked) == (None, "–", "≥ 2.00 ×")


def test_ours_is_compared_with_the_fastest_peer_that_was_measured() -> None:
    fastest = promise(beside_fastest("Get"), "≥", 2)
    assert judge(fastest, section(Get_penstock=30, Get_one=10, Get_other=5, Put_one=100)).measured == "3.00 ×"
    assert judge(fastest, section(Get_penstock=30)).met is None


def test_the_weakest_of_several_figures_counts() -> None:
    told = section(a=1, b=3)
    assert judge(promise(most(value("a"), value("b")), "≤", 2), told).met is False
    assert judge(promise(least(value("a"), value("b")), "≥", 2), told).met is False


def test_what_is_asked_may_follow_from_a_peers_figure() -> None:
    verdict = judge(promise(value("a"), "≥", value("peer", 0.5)), section(a=9, peer=20))
    assert (verdict.met, verdict.asked) == (False, "≥ 10.00 ×")


def test_missed_promises_stand_at_the_top_with_their_gap() -> None:
    verdicts = [judge(promise(value("a"), "≥", 2), section(a=a)) for a in (1.5, 3)]
    assert summary(verdicts).splitlines() == [
        "1 of 2 promises met, 1 missed, 0 not measured.",
        "",
        "- Missed: it is fast: 1.50 ×, asked ≥ 2.00 × (Room).",
    ]


def test_every_promise_names_a_section_and_can_be_judged_without_one() -> None:
    for one in PROMISES:
        assert one.section in ALL, one.text
        assert judge(one, None).met is None, one.text


def test_promises_that_tests_keep_name_tests_that_exist() -> None:
    missing = [test for one in KEPT_BY_TESTS for test in one.tests if not (TESTS / test).exists()]
    assert missing == []
