"""The state machine, and the pure changes of a job (transitions.py, 1-5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job, JobError, Payload
from penstock.jobs.model.state import TERMINAL, TRANSITIONS, BadTransition, State, diagram, target
from penstock.jobs.model.transitions import MOST_CRASHES, ChangedJob
from penstock.leases import AbandonedLease, grant

EVENTS = [transition.event for transition in TRANSITIONS]
NOW = 1_900_000_000.0
ERROR = JobError("ValueError", "no such project", "Traceback …")


def job(state: State = State.QUEUED, **options: object) -> Job:
    lease = grant(0, "w1", NOW, 30.0) if state is State.PROCESSING else None
    token = 0 if state is State.QUEUED else 1
    made = Job("job_1", "report", state, NOW, NOW, NOW, int(NOW) + 1_000, lease=lease, token=token, attempt=token)
    return replace(made, **options)  # type: ignore[arg-type]


# ── the table ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("event", "state"), list(product(EVENTS, State)))
def test_a_state_changes_only_by_the_table(event: str, state: State) -> None:
    (transition,) = (one for one in TRANSITIONS if one.event == event)
    if state in transition.sources:
        assert target("job_1", state, event) is transition.target
        return
    with pytest.raises(BadTransition) as refused:
        target("job_1", state, event)
    assert (refused.value.job_id, refused.value.event, refused.value.state) == ("job_1", event, state)
    assert f"job_1 is {state}" in str(refused.value)


@pytest.mark.parametrize(("event", "state"), list(product(EVENTS, sorted(TERMINAL))))
def test_what_has_ended_stays_so_except_that_failed_jobs_are_retried_and_cancelled_ones_revived(
    event: str, state: State
) -> None:
    if (state, event) in ((State.FAILED, "retried"), (State.CANCELLED, "revived")):
        assert target("job_1", state, event) is State.QUEUED
    else:
        with pytest.raises(BadTransition):
            target("job_1", state, event)


def test_every_state_is_reached_and_every_job_can_end() -> None:
    assert {transition.target for transition in TRANSITIONS} == set(State)
    can_end = set(TERMINAL)
    for _ in State:
        can_end |= {one for transition in TRANSITIONS if transition.target in can_end for one in transition.sources}
    assert can_end == set(State)


def test_the_diagram_shows_every_transition_once() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert "    [*] --> queued: created" in lines
    assert "    processing --> queued: requeued" in lines
    assert "    completed --> [*]" in lines
    arrows = sum(len(transition.sources) or 1 for transition in TRANSITIONS)
    alike = 1  # both that lead from processing to failed are called failed
    assert len(lines) == len(set(lines)) == 1 + arrows - alike + len(TERMINAL)


# ── changes ──────────────────────────────────────────────────────────────────────────────────────

Named = Callable[[Job, float], ChangedJob]
STEPS: dict[str, Named] = {
    "started": lambda one, now: transitions.start(one, grant(one.token, "w2", now, 30.0), now),
    "taken_over": lambda one, now: transitions.take_over(one, "w2", 30.0, now),
    "handed_over": lambda one, now: transitions.requeue(one, "its worker stops", now),
    "retrying": lambda one, now: transitions.schedule_retry(one, ERROR, now + 5, now),
    "completed": lambda one, now: transitions.complete(one, Payload("1"), now),
    "failed": lambda one, now: transitions.fail(one, ERROR, now),
    "cancelled": lambda one, now: transitions.cancel(one, "not wanted", now),
    "cancel_asked": lambda one, now: transitions.request_cancel(one, "not wanted", now),
    "retried": lambda one, now: transitions.retry(one, now),
    "reported": lambda one, now: transitions.add_entry(one, now, progress=now % 101, step="rows"),
    "logged": lambda one, now: transitions.add_entry(one, now, renew=False),
    "kept_longer": lambda one, now: transitions.extend_retention(one, int(now) + 1_000, now),
    "parent_ended": lambda one, now: transitions.end_parent(one, "job_0", now),
    "cancelled_by_parent": lambda one, now: transitions.cancel(one, "job_0 is failed", now, cancelled_by="job_0"),
    "revived": lambda one, now: transitions.revive(one, "job_0", now),
    "revival_refused": lambda one, now: transitions.refuse_revival(one, "its key is another's", now),
    "revival_finished": transitions.finish_revival,
    "waits_again": lambda one, now: transitions.wait_again(one, "job_0", now),
    "waiting_ended": transitions.end_waiting,
    "registered": lambda one, now: transitions.finish_registration(one, frozenset(), now),
    "awaited": transitions.add_child,
    "children_notified": transitions.clear_children,
}

walks = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.floats(-100, 100)), max_size=40)


@given(walks)
def test_versions_grow_by_one_time_and_progress_do_not_go_back_and_tokens_only_grow(
    walk: list[tuple[str, float]],
) -> None:
    """Whatever happens in whatever order, with a clock that goes to and fro."""
    before = job(waiting_for=frozenset({"job_0"}))
    now = NOW
    for step, seconds in walk:
        now += seconds
        try:
            changed = STEPS[step](before, now)
        except BadTransition:
            continue
        after = changed.job
        assert after.version == before.version + 1
        assert after.updated_at >= before.updated_at
        assert 0 <= before.progress <= after.progress <= 100
        assert after.entries - before.entries == (step in ("reported", "logged"))
        assert after.expires_at >= before.expires_at
        claims = step in ("started", "taken_over") and after.state is State.PROCESSING
        assert after.token == before.token + claims
        assert after.attempt == before.attempt + claims
        assert (after.lease is not None) == (after.state is State.PROCESSING)
        assert (after.ended_at is not None) == after.is_terminal
        check_event(before, changed)
        before = after


def check_event(before: Job, changed: ChangedJob) -> None:
    """(4) A change of state has its event, numbered by the version that it led to."""
    after, event = changed.job, changed.event
    if event is None:
        assert after.state is before.state
        return
    assert (event.number, event.at) == (after.version, after.updated_at)
    if event.type not in ("cancel_asked", "revival_refused"):
        assert target(before.id, before.state, event.type) is after.state


def crashed(one: Job, max_crashes: int = MOST_CRASHES) -> Job:
    return transitions.take_over(one, "w2", 30.0, NOW, max_crashes).job


@pytest.mark.parametrize("max_crashes", [1, MOST_CRASHES, 7])
def test_a_job_that_kills_its_workers_has_failed_and_says_what_to_do(max_crashes: int) -> None:
    one = crashed(job(State.PROCESSING))
    assert (one.suspect, one.crashes) == (True, 0), "another job may be why"
    for _ in range(max_crashes - 1):
        one = crashed(one, max_crashes)
        assert one.state is State.PROCESSING
    changed = transitions.take_over(one, "w3", 30.0, NOW, max_crashes)
    assert (changed.job.state, changed.job.crashes, changed.job.failures) == (State.FAILED, max_crashes, 0)
    assert changed.event is not None
    assert (changed.event.type, changed.event.owner) == ("parked", "w2")
    assert changed.job.error is not None
    assert "penstock jobs retry job_1" in changed.job.error.message


def test_a_newer_checkpoint_clears_a_suspect_and_its_crashes() -> None:
    one = crashed(crashed(job(State.PROCESSING)))
    assert (one.suspect, one.crashes) == (True, 1)
    reported = transitions.add_entry(one, NOW).job
    assert (reported.suspect, reported.crashes) == (True, 1)
    kept = transitions.add_entry(one, NOW, is_newer=True).job
    assert (kept.suspect, kept.crashes) == (False, 0)


def test_an_attempt_that_raises_has_not_killed_its_worker() -> None:
    raised = transitions.schedule_retry(crashed(job(State.PROCESSING)), ERROR, NOW, NOW).job
    assert not raised.suspect
    requeued = transitions.requeue(crashed(job(State.PROCESSING)), "its worker stops", NOW).job
    assert requeued.suspect, "it has not shown yet that it can run"


@pytest.mark.parametrize("suspect", [False, True])
def test_a_worker_that_was_told_to_stop_is_no_crash(suspect: bool) -> None:
    one = job(State.PROCESSING, suspect=suspect)
    assert one.lease is not None
    lease = AbandonedLease("w1", one.token, one.lease.until, 30.0, has_ended=True, excuse="it was told to stop")
    changed = transitions.take_over(replace(one, lease=lease), "w2", 30.0, NOW, 1)
    assert (changed.job.state, changed.job.crashes, changed.job.suspect) == (State.PROCESSING, 0, suspect)
    assert changed.event is not None
    assert changed.event.detail == "from w1: no crash, it was told to stop"


def test_a_job_of_version_0_1_that_has_lost_workers_goes_on() -> None:
    one = crashed(job(State.PROCESSING, crashes=2))
    assert (one.state, one.suspect, one.crashes) == (State.PROCESSING, True, 2)


def test_a_retry_by_hand_begins_the_counts_again_and_keeps_what_was_done() -> None:
    failed = transitions.fail(job(State.PROCESSING, crashes=2, progress=40.0, entries=7), ERROR, NOW + 1).job
    again = transitions.retry(failed, NOW + 2).job
    assert (again.failures, again.crashes, again.ended_at) == (0, 0, None)
    assert (again.progress, again.entries, again.token, again.attempt) == (40.0, 7, 1, 1)
    assert again.error == ERROR


def test_a_completed_job_is_at_100_percent_without_an_error() -> None:
    after = transitions.complete(job(State.PROCESSING, error=ERROR, progress=3.0), Payload("[1]"), NOW + 1).job
    assert (after.progress, after.error, after.result, after.ended_at) == (100.0, None, Payload("[1]"), NOW + 1)


@pytest.mark.parametrize(
    "end", [transitions.fail, lambda one, error, now: transitions.schedule_retry(one, error, now, now)]
)
def test_an_error_is_cut_to_what_an_item_can_hold(end: Callable[[Job, JobError, float], ChangedJob]) -> None:
    """(5) However long its text is, and even if it holds bytes of a file's name that are no text."""
    told = end(job(State.PROCESSING), JobError("E" * 999, "\udcff" + "m" * 10_000_000, "t" * 10_000_000 + "end"), NOW)
    error = told.job.error
    assert error is not None
    assert told.event is not None
    assert error.message.startswith("\\udcff")
    assert error.trace.endswith("end")
    written = [error.kind, error.message, error.trace, told.event.detail]
    assert sum(len(text.encode()) for text in written) < 40_000


def test_a_job_whose_last_parent_tells_it_late_is_as_old_as_that() -> None:
    """It goes behind those that have been waiting for a worker for longer."""
    one = job(waiting_for=frozenset({"job_a", "job_b"}))
    one = transitions.end_parent(one, "job_a", NOW + 5).job
    assert one.run_at == NOW
    one = transitions.end_parent(one, "job_b", NOW + 9).job
    assert (one.run_at, one.waiting_for) == (NOW + 9, frozenset())


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_a_delay_that_is_no_time_does_not_put_it_off_for_ever(at: float) -> None:
    """The attempt has failed, and that must be stored."""
    after = transitions.schedule_retry(job(State.PROCESSING), ERROR, at, NOW).job
    assert NOW <= after.run_at <= NOW + 10 * 366 * 86_400
