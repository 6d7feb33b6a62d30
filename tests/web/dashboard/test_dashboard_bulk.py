"""Cancelling and retrying many jobs: previewed, and conditional on what was seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World

from penstock.jobs.model.job import NewJob
from penstock.jobs.model.state import State
from penstock.web.dashboard.job_actions import MOST_JOBS, Change, plan


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_the_plan_says_what_happens_to_each(world: World) -> None:
    jobs = [world.made(), world.running(), world.completed(), world.failed()]
    assert [line.happens for line in plan(Change("cancel"), jobs)] == [True, True, False, False]
    assert [line.happens for line in plan(Change("retry"), jobs)] == [False, False, False, True]
    told = world.store.cancel(jobs[1].id)
    assert [line.what for line in plan(Change("cancel"), [told])] == [
        "has been asked already, and stops at its next report"
    ]


def test_a_preview_changes_nothing_and_what_it_showed_is_then_done(world: World) -> None:
    failed = [world.failed() for _ in range(3)]
    done = world.completed()
    page = world.post("/jobs/preview", [("verb", "retry"), *(("job", job.id) for job in [*failed, done])]).text
    assert "Retry 3 jobs?" in page
    assert "only failed jobs are retried" in page
    assert all(world.store.get(job.id).state is State.FAILED for job in failed)
    seen = re.findall(r'name="seen" value="([^"]+)"', page)
    assert seen == [f"failed {job.id}" for job in failed]
    outcome = world.post("/jobs/apply", [("verb", "retry"), *(("seen", one) for one in seen)]).text
    assert "3 of 3 done" in outcome
    assert all(world.store.get(job.id).state is State.QUEUED for job in failed)


def test_a_job_that_began_meanwhile_is_left_alone(world: World) -> None:
    waiting, begun = world.made(), world.made()
    world.store.claim(begun, "w1", 60.0)
    fields = [("verb", "cancel"), ("seen", f"queued {waiting.id}"), ("seen", f"queued {begun.id}")]
    page = world.post("/jobs/apply", fields).text
    assert "1 of 2 done" in page
    assert "was queued when you looked and is processing now: it was left alone" in page
    assert world.store.get(waiting.id).state is State.CANCELLED
    assert world.store.get(begun.id).cancel_reason is None


def test_a_running_job_is_told_to_stop(world: World) -> None:
    job = world.running()
    page = world.post("/jobs/apply", [("verb", "cancel"), ("seen", f"processing {job.id}")]).text
    assert "asked to stop" in page
    assert world.store.get(job.id).cancel_reason == "from the dashboard"


def test_a_retry_that_was_done_already_is_told_of(world: World) -> None:
    job = world.failed()
    world.store.retry(job.id)
    page = world.post("/jobs/apply", [("verb", "retry"), ("seen", f"failed {job.id}")]).text
    assert "was failed when you looked and is queued now" in page


def test_all_that_match_are_chosen_by_the_filter(world: World) -> None:
    wanted = [world.failed("import") for _ in range(2)]
    others = [world.failed("report"), world.made("import")]
    page = world.post("/jobs/preview", [("verb", "retry"), ("all", "1"), ("q", "kind:import")]).text
    assert all(job.id in page for job in wanted)
    assert not any(job.id in page for job in others)


def test_more_than_can_be_done_at_once_is_said(world: World) -> None:
    world.store.create_all([NewJob("report", {"n": n}) for n in range(MOST_JOBS + 1)])
    page = world.post("/jobs/preview", [("verb", "cancel"), ("all", "1"), ("q", "")]).text
    assert f"Cancel {MOST_JOBS} jobs?" in page
    assert "More match." in page


def test_nothing_chosen_and_nonsense_are_told(world: World) -> None:
    assert world.post("/jobs/preview", [("verb", "cancel")]).status_code == 400
    assert world.post("/jobs/preview", [("verb", "explode"), ("job", "job_x")]).status_code == 400
    assert world.post("/jobs/apply", [("verb", "cancel"), ("seen", "sleepy job_x")]).status_code == 400
    page = world.post("/jobs/apply", [("verb", "cancel"), ("seen", "queued job_x")]).text
    assert "There is no job job_x" in page
