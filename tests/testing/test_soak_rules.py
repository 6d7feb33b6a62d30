"""The soak's checker finds every kind of violation, and nothing in a sound ledger."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # trust/ lies beside tests/, and is not installed

from trust.ledger import Account, Ledger, StoredJob, read
from trust.ledger_rules import (
    MOST_OVERTAKEN,
    RULES,
    blocked_jobs_block_no_others,
    checkpoints_never_go_back,
    pauses_hold,
    urgent_jobs_go_first,
    violations,
)
from trust.workflow_rules import events_come_before_their_timeout

Fact = dict[str, Any]

EVENTS = [("created", 0), ("started", 1), ("taken_over", 2), ("completed", 2)]
WORK = StoredJob(
    id="work",
    task="steps",
    state="completed",
    attempt=2,
    result=[7],
    checkpoints={"step0": 7, "done": 2},
    entries=[(1, 1, "line 0 of 7", None), (2, 1, "checkpoint", 50.0), (3, 2, "line 0 of 7", None)],
    events=EVENTS,
)
CALM = [("created", 0), ("started", 1), ("completed", 1)]
CHILD = StoredJob("child", "gather", "completed", attempt=1, result=7, events=CALM)
GONE = StoredJob("gone", "endless", "cancelled", events=[("created", 0), ("cancelled", 0)])
TICKS = [
    StoredJob(f"cron_tick_20261116T0{minute}00.000Z", "tick", "completed", attempt=1, result="t", events=CALM)
    for minute in ("500", "501", "502")
]
WAITED = [("created", 0), *((type_, attempt) for attempt in (1, 2, 3) for type_ in ("started", "suspended"))]
FLOW = StoredJob("flow", "order", "completed", attempt=4, result=4, events=[*WAITED, ("started", 4), ("completed", 4)])
PART = StoredJob("part", "plain", "completed", attempt=1, result=3, events=CALM, parent="flow")
ACCOUNT = Account({job.id: job for job in (WORK, CHILD, GONE, FLOW, PART, *TICKS)}, {"r1": {"marks": 1, "value": "v"}})


FAILED = replace(WORK, state="failed", result=None, events=[*EVENTS[:-1], ("failed", 2)])


def fact(kind: str, **values: Any) -> Fact:
    return {"fact": kind, **values}


def waits(key: str, attempt: int, at: float, **values: Any) -> Fact:
    return fact("waits", job="flow", key=key, attempt=attempt, at=at, **values)


def passed(key: str, attempt: int, value: Any, at: float, **values: Any) -> Fact:
    return fact("passed", job="flow", key=key, attempt=attempt, value=value, at=at, **values)


SLEEP = passed("sleep", 2, None, 12.0)
"""A workflow's: it sleeps, takes an event, and has a child."""
WORKFLOW: list[Fact] = [
    fact("asked", key="k4"),
    fact("enqueued", key="k4", job="flow", ends="completed"),
    fact("began", job="flow", attempt=1, worker="a"),
    waits("sleep", 1, 10.0, seconds=2.0),
    fact("began", job="flow", attempt=2, worker="a"),
    waits("sleep", 2, 12.0, seconds=2.0),
    SLEEP,
    waits("event 0", 2, 12.0, event="go"),
    fact("sending", job="flow", value=1),
    fact("sent", job="flow", value=1),
    fact("began", job="flow", attempt=3, worker="a"),
    passed("sleep", 3, None, 13.0),
    waits("event 0", 3, 13.0, event="go"),
    passed("event 0", 3, 1, 13.0, event="go"),
    fact("enqueued", key="flow/0", job="part", ends="completed", parent="flow"),
    waits("gather", 3, 13.0),
    fact("began", job="part", attempt=1, worker="a"),
    fact("ended", job="part", attempt=1, value=3),
    fact("began", job="flow", attempt=4, worker="a"),
    fact("enqueued", key="flow/0", job="part", ends="completed", parent="flow"),
    passed("gather", 4, [3], 14.0, children=["part"]),
    fact("ended", job="flow", attempt=4, value=4),
]
FACTS: list[Fact] = [
    fact("hurt", how="kill", worker="a"),
    fact("asked", key="k1"),
    fact("enqueued", key="k1", job="work", ends="completed", unique="u", limit_key="l", limit=1),
    fact("enqueued", key="k2", job="child", ends="completed", after=["work"]),
    fact("enqueued", key="k3", job="gone", ends="completed"),
    fact("cancelled", job="gone"),
    fact("began", job="work", attempt=1, worker="a"),
    fact("did", job="work", step="step0", index=0, attempt=1),
    fact("kept", job="work", step="step0", attempt=1, value=7),
    fact("checkpoint", job="work", name="done", value=1, attempt=1),
    fact("entry", job="work", number=1, text="line 0 of 7", attempt=1),
    fact("began", job="work", attempt=2, worker="b"),
    fact("resumed", job="work", name="done", value=1, attempt=2),
    fact("did", job="work", step="step1", index=1, attempt=2),
    fact("checkpoint", job="work", name="done", value=2, attempt=2),
    fact("slots", limit_key="l", limit=1, holders=["work"]),
    fact("ended", job="work", attempt=2, value=[7]),
    fact("began", job="child", attempt=1, worker="a"),
    fact("results", job="child", parents={"work": [7]}),
    fact("ended", job="child", attempt=1, value=7),
    *(fact("ended", job=tick.id, attempt=1, value="t") for tick in TICKS),
    fact("put", record="r1"),
    fact("ran", record="r1", value="v"),
    *WORKFLOW,
]


def with_job(job: StoredJob, **changes: Any) -> Account:
    return replace(ACCOUNT, jobs={**ACCOUNT.jobs, job.id: replace(job, **changes)})


def without(job_id: str) -> Account:
    return replace(ACCOUNT, jobs={one: job for one, job in ACCOUNT.jobs.items() if one != job_id})


def changed(kind: str, place: int = 0, **changes: Any) -> list[Fact]:
    """The ledger with the n-th fact of a kind altered."""
    number = [at for at, one in enumerate(FACTS) if one["fact"] == kind][place]
    return [*FACTS[:number], {**FACTS[number], **changes}, *FACTS[number + 1 :]]


def moved(kind: str, place: int, *, to: int) -> list[Fact]:
    one = [one for one in FACTS if one["fact"] == kind][place]
    rest = [other for other in FACTS if other is not one]
    return [*rest[:to], one, *rest[to:]]


SECOND = replace(WORK, id="second", attempt=1, events=CALM)
BESIDE = replace(ACCOUNT, jobs={**ACCOUNT.jobs, "second": SECOND})


def beside(**enqueued: Any) -> list[Fact]:
    """A second job whose body runs while the first one's last attempt does."""
    began = FACTS.index(fact("began", job="work", attempt=2, worker="b"))
    more = [
        fact("enqueued", key="k9", job="second", ends="completed", **enqueued),
        fact("began", job="second", attempt=1, worker="c"),
        fact("ended", job="second", attempt=1, value=[7]),
    ]
    return [*FACTS[: began + 1], *more, *FACTS[began + 1 :]]


def later(*facts: Fact) -> list[Fact]:
    return [*FACTS, *facts]


def ready(job: str, at: float, **values: Any) -> Fact:
    return fact("enqueued", key=f"k-{job}", job=job, task="plain", ends="completed", at=at, **values)


def began(job: str, at: float, **values: Any) -> Fact:
    return fact("began", job=job, attempt=1, worker="a", at=at, **values)


EARLY, LATE = ready("early", 1.0, priority=1), ready("late", 2.0, priority=9)
OVERTAKEN = [ready(f"j{number}", float(number)) for number in range(MOST_OVERTAKEN + 2)]
PAUSED = fact("paused", queue="side", at=10.0)
POISON = StoredJob("p", "poison", "failed", attempt=1, error_kind="ValueError", events=[("created", 0), ("failed", 0)])

BAD: dict[str, tuple[list[Fact], Account, str]] = {
    "an acknowledged job is not there": (FACTS, without("child"), "child was acknowledged, and is lost"),
    "a job never ended": (FACTS, with_job(WORK, state="processing"), "work (steps) should be completed"),
    "a cancelled job went on": (FACTS, with_job(GONE, state="completed"), "gone (endless) should be cancelled"),
    "a key has two jobs": ([*FACTS, fact("enqueued", key="k1", job="child", ends="completed")], ACCOUNT, "key k1"),
    "a job that nobody asked for": (FACTS, with_job(replace(CHILD, id="x")), "nobody asked for some of these jobs"),
    "a job completed twice": (FACTS, with_job(WORK, events=[*EVENTS, ("completed", 2)]), "completed 2 times"),
    "a rule of every job": (FACTS, with_job(WORK, broken=["work is running, and nobody holds it"]), "nobody holds it"),
    "another attempt's result": (FACTS, with_job(WORK, result=[8]), "work has the result [8]"),
    "a body ran twice for one claim": (
        [*FACTS, fact("began", job="work", attempt=2, worker="c")],
        ACCOUNT,
        "the body of work, attempt 2, ran 2 times",
    ),
    "a body ran without a claim": ([*FACTS, fact("began", job="child", attempt=2, worker="c")], ACCOUNT, "was granted"),
    "an attempt without a claim": (FACTS, with_job(WORK, attempt=3), "work is in attempt 3"),
    "taken over without harm": (FACTS[1:], ACCOUNT, "no worker came to harm"),
    "a step kept twice": (
        [*FACTS, fact("kept", job="work", step="step0", attempt=2, value=7)],
        ACCOUNT,
        "step0 was kept by the attempts 1 and 2",
    ),
    "a kept step done again": (changed("did", 1, step="step0"), ACCOUNT, "step0 was kept, and done again in attempt 2"),
    "a kept value lost": (FACTS, with_job(WORK, checkpoints={"done": 2}), "step0 was kept as 7, and None is stored"),
    "steps out of order": (
        [*FACTS, fact("did", job="work", step="step0b", index=0, attempt=2)],
        ACCOUNT,
        "after a later step had begun",
    ),
    "a step twice in an attempt": (
        [*FACTS, fact("did", job="work", step="step1", index=1, attempt=2)],
        ACCOUNT,
        "attempt 2 did step1 2 times",
    ),
    "a checkpoint that goes back": (changed("checkpoint", 1, value=1), ACCOUNT, "done went from 1"),
    "a zombie's checkpoint": (
        [*FACTS, fact("checkpoint", job="work", name="done", value=3, attempt=1)],
        with_job(WORK, checkpoints={"step0": 7, "done": 3}),
        "done went from 2 (attempt 2) to 3 (attempt 1)",
    ),
    "an old checkpoint given": (changed("resumed", value=0), ACCOUNT, "what was given to go on from is 0 (attempt 2)"),
    "a checkpoint lost": (FACTS, with_job(WORK, checkpoints={"step0": 7, "done": 1}), "done was 2, and 1 is stored"),
    "an entry overwritten": (changed("entry", text="line 9"), ACCOUNT, "entry 1 was 'line 9'"),
    "a gap in the entries": (FACTS, with_job(WORK, entries=WORK.entries[::2]), "numbered [1, 3]"),
    "a zombie's entry": (
        FACTS,
        with_job(WORK, entries=[*WORK.entries, (4, 1, "late", None)]),
        "entries are of the attempts [1, 1, 2, 1]",
    ),
    "a line twice": (FACTS, with_job(WORK, entries=[*WORK.entries, (4, 2, "line 0 of 7", None)]), "is there 2 times"),
    "lines out of order": (
        FACTS,
        with_job(CHILD, entries=[(1, 1, "line 1 of 1", None), (2, 1, "line 0 of 1", None)]),
        "its lines are in the order",
    ),
    "progress that falls": (
        FACTS,
        with_job(CHILD, entries=[(1, 1, "", 50.0), (2, 1, "", 25.0)]),
        "its progress was [50.0, 25.0]",
    ),
    "a child before its parent": (moved("began", 2, to=6), ACCOUNT, "child began before work had ended"),
    "a child with another result": (changed("results", parents={"work": [8]}), ACCOUNT, "child was given"),
    "a child that stays cancelled": (FACTS, with_job(CHILD, state="cancelled"), "should be completed, not cancelled"),
    "a child that its policy lets run": (
        changed("enqueued", 1, policy="all_ended"),
        replace(with_job(CHILD, state="cancelled"), jobs={**with_job(CHILD, state="cancelled").jobs, "work": FAILED}),
        "0 of the 1 jobs that it waited for have completed (all_ended); it should be completed",
    ),
    "a child that its policy does not let run": (
        changed("enqueued", 1, policy="any_completed"),
        with_job(FAILED),
        "(any_completed); it should be cancelled, not completed",
    ),
    "an outage that fails an attempt": (
        FACTS,
        with_job(WORK, failures=[(1, "ConnectionFailed")]),
        "work (steps) failed in attempt 1 by ConnectionFailed",
    ),
    "more failures than retries": (
        changed("enqueued", fails=["ValueError"], failures=1),
        with_job(WORK, failures=[(1, "ValueError"), (2, "ValueError")]),
        "failed 2 times",
    ),
    "an innocent job charged": (FACTS, with_job(CHILD, charged=["b"]), "child (gather) is charged for the end of b"),
    "a poison job that did not fail by it": (FACTS, with_job(POISON), "p has ended its workers, and failed by Value"),
    "nothing begins": (
        later(fact("works", worker="a", at=0.0), EARLY, fact("slots", limit_key="l", limit=1, holders=[], at=40.0)),
        ACCOUNT,
        "nothing began for 30 s, and early was ready",
    ),
    "a job that others overtake": (
        later(*OVERTAKEN, *(began(f"j{number}", 300.0) for number in [*range(1, MOST_OVERTAKEN + 2), 0])),
        ACCOUNT,
        "j0 was overtaken by 201 jobs",
    ),
    "a start in a paused queue": (
        later(PAUSED, began("work", 14.0, queue="side"), fact("resuming", queue="side", at=15.0)),
        ACCOUNT,
        "work began 4.0 s after its queue side was paused",
    ),
    "a low job before an urgent one": (
        later(EARLY, LATE, began("early", 6.0), began("late", 10.0)),
        ACCOUNT,
        "early began before late",
    ),
    "two with one unique key": (beside(unique="u"), BESIDE, "the unique key u had second, work at once"),
    "more than a limit": (beside(limit_key="l", limit=1), BESIDE, "second, work ran at once"),
    "more slots than a limit": (changed("slots", holders=["work", "child"]), ACCOUNT, "was held by work, child"),
    "a time without its job": (FACTS, without(TICKS[1].id), "between 05:00 and 05:02 the schedule did not fire"),
    "a schedule's job that did not end": (FACTS, with_job(TICKS[1], state="queued"), f"{TICKS[1].id} is queued"),
    "a record lost": (FACTS, replace(ACCOUNT, records={}), "the record r1 was acknowledged, and is lost"),
    "a record marked twice": (FACTS, replace(ACCOUNT, records={"r1": {"marks": 2, "value": "v"}}), "marked 2 times"),
    "another value in a later attempt": (
        later(passed("event 0", 4, 2, 14.0, event="go")),
        ACCOUNT,
        "flow: event 0 gave 1 in attempt 3, and 2 in attempt 4",
    ),
    "a sleep that is too short": (changed("passed", 0, at=11.5), ACCOUNT, "flow: sleep was over 0.50 s too early"),
    "a timeout that is too short": (
        later(waits("event 1", 4, 14.0, event="go", seconds=9.0), passed("event 1", 4, None, 20.0, event="go")),
        ACCOUNT,
        "flow: event 1 was over 3.00 s too early",
    ),
    "a job that is woken for nothing": (
        FACTS,
        with_job(FLOW, events=[*WAITED, *[("started", 4), ("suspended", 4)] * 2]),
        "flow was suspended 5 times, and had 4 waits and events",
    ),
    "an event that is taken twice": (
        later(fact("sending", job="flow", value=2), passed("event 1", 4, 1, 14.0, event="go")),
        ACCOUNT,
        "flow took the events [1, 1], and 2 were sent",
    ),
    "an event that nobody sent": (changed("sending", job="work"), ACCOUNT, "flow took the events [1], and 0 were sent"),
    "an event that is lost": (
        later(fact("sending", job="flow", value=2), passed("event 1", 4, 3, 14.0, event="go")),
        ACCOUNT,
        "flow took the events [1, 3], and 2 were sent",
    ),
    "a timeout in place of an event": (
        changed("passed", 2, value=None),
        ACCOUNT,
        "flow: event 0 was over in attempt 3, and an event had come before that began",
    ),
    "a child that is made twice": (changed("enqueued", 5, job="other"), ACCOUNT, "flow/0 made part and other"),
    "a child that its parent does not know": (
        FACTS,
        replace(ACCOUNT, jobs={**ACCOUNT.jobs, "more": replace(PART, id="more")}),
        "flow has completed, and has not made more",
    ),
    "a child of nobody": (FACTS, with_job(PART, parent="lost"), "part are children of lost, which is not there"),
    "a child's result that is another": (changed("passed", 3, value=[8]), ACCOUNT, "given 8 of part, and 3 is stored"),
    "a gather that is over too early": (
        changed("ended", -2, job="work"),
        ACCOUNT,
        "flow was given what part returned before that had ended",
    ),
    "a record of no run": (FACTS, replace(ACCOUNT, records={"r1": {"marks": 1, "value": "w"}}), "no run has returned"),
}


def test_a_sound_ledger_breaks_no_rule() -> None:
    assert violations(FACTS, ACCOUNT) == []


@pytest.mark.parametrize("kind", BAD)
def test_the_checker_finds(kind: str) -> None:
    facts, account, words = BAD[kind]
    found = violations(facts, account)
    assert any(words in sentence for sentence in found), found


def test_every_rule_finds_something() -> None:
    finding = {rule for facts, account, _ in BAD.values() for rule in RULES if list(rule(facts, account))}
    assert finding == set(RULES)


def test_what_a_zombie_does_before_it_is_refused_is_no_violation() -> None:
    """A frozen attempt wakes up: its body goes on, does a step that another has kept, and is told nothing."""
    late = [
        fact("did", job="work", step="step1", index=1, attempt=1),
        fact("resumed", job="work", name="done", value=0, attempt=1),
        fact("ended", job="work", attempt=1, value=["late"]),
    ]
    assert violations([*FACTS, *late], ACCOUNT) == []


def test_an_answer_that_comes_after_the_next_attempt_was_given_its_value_is_no_violation() -> None:
    done = {"job": "counter", "name": "done"}
    facts = [
        fact("resumed", **done, value=1, attempt=2),
        fact("checkpoint", **done, value=2, attempt=2),
        fact("checkpoint", **done, value=1, attempt=1),
        fact("checkpoint", **done, value=3, attempt=2),
    ]
    assert list(checkpoints_never_go_back(facts, ACCOUNT)) == []
    too_late = [facts[0], facts[1], fact("checkpoint", **done, value=2, attempt=1)]
    assert len(list(checkpoints_never_go_back(too_late, ACCOUNT))) == 1, "nobody was given that one"


def test_a_job_whose_parent_has_failed_is_cancelled() -> None:
    child = replace(CHILD, state="cancelled", attempt=0, events=[("created", 0), ("cancelled", 0)])
    account = replace(ACCOUNT, jobs={**ACCOUNT.jobs, "work": FAILED, "child": child})
    facts = changed("enqueued", 0, ends="failed")
    facts = [one for one in facts if one.get("job") != "child" or one["fact"] == "enqueued"]
    assert violations(facts, account) == []


def test_a_timeout_counts_that_an_attempt_may_have_stored_before_the_event_came() -> None:
    """It was killed before it could note so: its attempt does not end with a suspension."""
    killed = with_job(FLOW, events=[one for one in FLOW.events if one != ("suspended", 2)])
    assert list(events_come_before_their_timeout(changed("passed", 2, value=None), killed)) == []


def test_a_timeout_that_was_passed_stays_whatever_comes_after() -> None:
    facts = [
        waits("event 0", 1, 10.0, event="go", seconds=1.0),
        passed("event 0", 2, None, 12.0, event="go"),
        fact("sent", job="flow", value=1),
        fact("began", job="flow", attempt=3, worker="a"),
        waits("event 0", 3, 13.0, event="go", seconds=1.0),
        passed("event 0", 3, None, 13.0, event="go"),
    ]
    assert list(events_come_before_their_timeout(facts, ACCOUNT)) == []


def test_a_clock_that_jumps_ends_sleeps_early_and_wakes_jobs_for_nothing() -> None:
    jump = fact("hurt", how="jump", worker="a", seconds=8.0)
    spun = with_job(FLOW, events=[*WAITED, *[("started", 4), ("suspended", 4)] * 2, ("started", 4), ("completed", 4)])
    found = violations([jump, *changed("passed", 0, at=11.5)], spun)
    assert not [one for one in found if "early" in one or "suspended" in one]


def test_nothing_begins_while_no_worker_is_there() -> None:
    killed = [fact("works", worker="a", at=0.0), EARLY, fact("hurt", how="kill", worker="a", at=2.0)]
    started = [fact("works", worker="b", at=40.0), began("early", 41.0)]
    assert list(blocked_jobs_block_no_others([*killed, *started], ACCOUNT)) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([PAUSED, began("work", 12.0, queue="side")], id="a claim that was on its way"),
        pytest.param(
            [PAUSED, fact("resuming", queue="side", at=14.0), began("work", 14.1, queue="side")], id="a resume"
        ),
        pytest.param(
            [
                fact("hurt", how="freeze", worker="a", at=9.0),
                PAUSED,
                fact("thawed", worker="a", at=13.5),
                began("work", 14.0, queue="side"),
            ],
            id="a worker that was frozen",
        ),
        pytest.param(
            [fact("away", at=9.0), PAUSED, fact("back", at=13.5), began("work", 14.0, queue="side")], id="an outage"
        ),
    ],
)
def test_a_pause_does_not_hold_what_was_claimed_before(facts: list[Fact]) -> None:
    assert list(pauses_hold(facts, ACCOUNT)) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([EARLY, LATE, began("early", 3.0), began("late", 10.0)], id="a claim that was on its way"),
        pytest.param([EARLY, LATE, began("early", 6.0), began("late", 7.0)], id="claims side by side"),
        pytest.param(
            [LATE, ready("early", 3.0, priority=1), began("early", 6.0), began("late", 10.0)], id="a younger one"
        ),
        pytest.param([EARLY, LATE, began("late", 5.5), began("early", 6.0)], id="in order"),
        pytest.param(
            [fact("hurt", how="jump", worker="a", seconds=-8.0), EARLY, LATE, began("early", 6.0), began("late", 10.0)],
            id="a clock that is behind",
        ),
    ],
)
def test_an_urgent_job_may_begin_after(facts: list[Fact]) -> None:
    assert list(urgent_jobs_go_first(facts, ACCOUNT)) == []


def test_a_line_that_a_killed_process_left_half_written_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path).note("began", job="a")
    with path.open("ab") as file:
        file.write(b'\n{"fact":"kep')
    Ledger(path).note("ended", job="a")
    assert [one["fact"] for one in read(path)] == ["began", "ended"]
