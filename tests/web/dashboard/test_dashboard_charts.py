"""What the dashboard draws and counts, as pure functions of values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.job import Entry, Event, Job, NewJob
from penstock.jobs.model.state import State
from penstock.web.dashboard.charts import job_charts
from penstock.web.dashboard.charts.lineage_chart import draw_lineage
from penstock.web.dashboard.ended_jobs import SPANS, bars
from penstock.web.dashboard.job_counts import FIRST_KEYS, JobCounter
from penstock.web.dashboard.job_list import Filter
from penstock.web.dashboard.site import coarse, size

JOB = Job("job_1", "report", State.PROCESSING, 100.0, 200.0, 100.0, 10_000, attempt=1, started_at=100.0)


def entries(*points: tuple[float, float]) -> list[Entry]:
    return [Entry(number, at, progress, attempt=1) for number, (at, progress) in enumerate(points, start=1)]


def test_a_pace_is_of_what_was_done_lately() -> None:
    slow_then_fast = entries((100, 0), (200, 1), (300, 2), (301, 12), (302, 22), (303, 32))
    found = job_charts.pace(JOB, slow_then_fast)
    assert found.per_second == pytest.approx(10)
    assert found.ends_at == pytest.approx(303 + 6.8)


@pytest.mark.parametrize("points", [(), ((1.0, 5.0),), ((1.0, 5.0), (2.0, 5.0)), ((1.0, 5.0), (1.0, 9.0))])
def test_where_no_pace_can_be_said_none_is(points: tuple[tuple[float, float], ...]) -> None:
    assert job_charts.pace(JOB, entries(*points)) == job_charts.Pace()


def test_a_life_is_waiting_and_attempts_without_a_hole() -> None:
    events = [
        Event(1, "created", 100.0),
        Event(2, "started", 110.0, 1, "w1"),
        Event(5, "taken_over", 150.0, 2, "w2"),
        Event(6, "cancel_asked", 155.0, 2),
        Event(7, "retrying", 160.0, 2, "w2"),
        Event(8, "started", 180.0, 3, "w3"),
    ]
    life = job_charts.stretches(JOB, events, 200.0)
    assert [(one.start, one.end, one.attempt, one.owner, one.outcome) for one in life] == [
        (100.0, 110.0, 0, "", "waiting"),
        (110.0, 150.0, 1, "w1", "lost"),
        (150.0, 160.0, 2, "w2", "retrying"),
        (160.0, 180.0, 0, "", "waiting"),
        (180.0, 200.0, 3, "w3", "running"),
    ]
    drawn = job_charts.timeline(life)
    assert drawn.count("<rect") == 5
    assert "attempt 1 on w1: lost" in drawn


def test_an_axis_of_a_week_has_its_days_and_one_of_an_hour_four_times() -> None:
    now = 1_795_000_000.0
    for name, number in (("1h", 4), ("24h", 4), ("7d", 7)):
        labels = job_charts.throughput(bars([], SPANS[name], now), name).labels
        steps = {round(later - one) for one, later in itertools.pairwise(labels)}
        assert len(labels) == number and steps == {SPANS[name].seconds / number}


def test_what_is_drawn_is_escaped() -> None:
    drawn = job_charts.timeline([job_charts.Stretch(0.0, 1.0, 1, "<script>", "running")])
    assert "<script>" not in drawn


def test_each_minute_of_the_last_hour_has_its_bar() -> None:
    ends = [(3_599.0, False, 1), (3_599.0, True, 1), (10.0, False, 1), (-5.0, False, 1), (9_999.0, False, 1)]
    drawn = bars(ends, SPANS["1h"], 3_599.5)
    assert len(drawn) == 60 and (drawn[0].start, drawn[-1].end) == (0.0, 3_600.0)
    assert [(one.completed, one.failed) for one in drawn if one.completed or one.failed] == [(1, 0), (1, 1)]
    chart = job_charts.throughput(drawn, "hour")
    assert chart.picture.count("bar-completed") == 2 and chart.picture.count("bar-failed") == 1
    assert "last hour: 2 completed, 1 failed" in chart.picture
    assert "1970-01-01 00:59 to 01:00 UTC: 1 completed, 1 failed" in chart.picture
    assert chart.top == 2 and len(chart.labels) == 4


@given(st.lists(st.tuples(st.floats(0, 2e9), st.booleans(), st.integers(0, 10**7)), max_size=20), st.floats(0, 2e9))
def test_a_chart_is_never_higher_than_its_axis(ends: list[tuple[float, bool, int]], now: float) -> None:
    for span in SPANS.values():
        drawn = bars(ends, span, now)
        assert len(drawn) * span.bar_seconds == span.seconds and drawn[-1].start <= now < drawn[-1].end
        assert job_charts.throughput(drawn, span.words).top >= max(one.completed + one.failed for one in drawn)


words = st.text(st.characters(codec="utf-8", exclude_characters='":\\'), min_size=1, max_size=8).filter(
    lambda text: text.strip() == text and not any(letter.isspace() for letter in text)
)


@given(st.sampled_from([None, *DerivedState]))
def test_a_filter_by_a_derived_state_is_what_its_text_says(state: DerivedState | None) -> None:
    wanted = Filter().with_state(None if state is None else state.value)
    assert Filter.parse(str(wanted)) == wanted


@given(st.sampled_from([None, *State]), st.none() | words, st.none() | words, st.lists(words, max_size=3))
def test_a_filter_is_what_its_text_says(
    state: State | None, task: str | None, tenant: str | None, found: list[str]
) -> None:
    wanted = Filter(state, task=task, tenant=tenant, words=tuple(found))
    assert Filter.parse(str(wanted)) == wanted


@given(st.text(max_size=200))
def test_any_text_is_some_filter(text: str) -> None:
    Filter.parse(str(Filter.parse(text)))


def test_distances_are_told_coarsely() -> None:
    assert [coarse(seconds) for seconds in (5, 65, 7200, 90_000, -30, -7200)] == [
        "just now",
        "1 m ago",
        "2 h ago",
        "1 d ago",
        "in a moment",
        "in 2 h",
    ]
    assert [size(number) for number in (5, 2048, 3 << 20)] == ["5 bytes", "2.0 KB", "3.0 MB"]


# ── counting ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_a_first_count_is_bounded_and_says_so(world: World) -> None:
    world.store.create_all([NewJob("report", {"n": n}) for n in range(300)])
    world.failed(tenant="acme")
    counter = JobCounter()
    counter.first(world.store, 1.0)
    counts = {state: str(count) for state, count in counter.counts(1.0).items()}
    assert counts[State.QUEUED] == f"{FIRST_KEYS}+"
    assert counts[State.FAILED] == "1"


def test_counting_goes_on_in_steps_to_the_exact_number(world: World) -> None:
    world.store.create_all([NewJob("report", {"n": n}) for n in range(300)])
    counter = JobCounter()
    for moment in range(6):
        counter.step(world.store, float(moment), 100)
    assert str(counter.counts(9.0)[State.QUEUED]) == "300"
    world.store.create_all([NewJob("report", {"n": n}) for n in range(50)])
    for moment in range(10, 20):
        counter.step(world.store, float(moment), 100)
    assert str(counter.counts(20.0)[State.QUEUED]) == "350"


def test_a_step_costs_the_same_however_many_jobs_there_are(world: World) -> None:
    world.store.create_all([NewJob("report", {"n": n}) for n in range(100)])

    def calls() -> int:
        world.switch.calls.clear()
        JobCounter().first(world.store, 1.0)
        return len(world.switch.calls)

    few = calls()
    world.store.create_all([NewJob("report", {"n": n}) for n in range(2_000)])
    assert calls() <= few


def test_a_step_that_failed_is_in_the_graph_though_it_made_nothing() -> None:
    drawn = draw_lineage(None, {"load": "ran", "count": "failed"})
    assert "node-failed" in drawn and "count" in drawn and "node-ran" in drawn
