"""The rules of jobs that sleep, wait for events and have children, with the facts of `trust.ledger_rules`.

An attempt that waits ends, and the next one comes to the same wait: so what a workflow was given counts by its key.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from trust.ledger import Account, Fact

_WITHIN_SECONDS: Final = 0.05
"""How far the times of two processes of a machine may lie apart."""


def _of(facts: Sequence[Fact], *kinds: str) -> Iterator[Fact]:
    return (fact for fact in facts if fact["fact"] in kinds)


def _clocks_are_right(facts: Sequence[Fact]) -> bool:
    return not any(fact["how"] == "jump" and fact.get("seconds") for fact in _of(facts, "hurt"))


def each_attempt_is_given_the_same(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """What an operation of a workflow gave is what it gives in every later attempt."""
    given: dict[tuple[str, str], Fact] = {}
    for fact in _of(facts, "passed"):
        first = given.setdefault((fact["job"], fact["key"]), fact)
        if fact["value"] != first["value"]:
            yield (
                f"{fact['job']}: {fact['key']} gave {first['value']} in attempt {first['attempt']}, "
                f"and {fact['value']} in attempt {fact['attempt']}"
            )


def waits_last_as_long_as_they_were_to(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """No sleep and no timeout is over before its time, from when it was first come to; by clocks that are right."""
    if not _clocks_are_right(facts):
        return
    ends: dict[tuple[str, str], float] = {}
    for fact in _of(facts, "waits", "passed"):
        place = (fact["job"], fact["key"])
        if fact["fact"] == "waits":
            ends.setdefault(place, fact.get("at", -math.inf) + fact.get("seconds", -math.inf))
        elif fact["value"] is None and fact.get("at", math.inf) < ends.get(place, -math.inf) - _WITHIN_SECONDS:
            yield f"{fact['job']}: {fact['key']} was over {ends[place] - fact['at']:.2f} s too early"


def waits_end_one_attempt(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A job that waits is woken once for each wait and each event, at most; by clocks that are right."""
    if not _clocks_are_right(facts):
        return
    waits: dict[str, set[str]] = defaultdict(set)
    for fact in _of(facts, "waits"):
        waits[fact["job"]].add(fact["key"])
    events = Counter(fact["job"] for fact in _of(facts, "sending"))
    for job in account.jobs.values():
        suspensions = sum(type_ == "suspended" for type_, _ in job.events)
        reasons = len(waits[job.id]) + events[job.id]
        if suspensions > reasons:
            yield f"{job.id} was suspended {suspensions} times, and had {reasons} waits and events"


def events_are_taken_once_and_in_order(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Events are numbered as they are sent, one after the other: what a job takes are the first ones, each once."""
    sending: Counter[str] = Counter()
    taken: dict[str, dict[str, Any]] = defaultdict(dict)
    for fact in _of(facts, "sending", "passed"):
        if fact["fact"] == "sending":
            sending[fact["job"]] += 1
        elif fact.get("event") and fact["value"] is not None:
            taken[fact["job"]].setdefault(fact["key"], fact["value"])
    for job_id, values in taken.items():
        numbers = [values[key] for key in sorted(values)]
        if numbers != list(range(1, len(numbers) + 1)) or len(numbers) > sending[job_id]:
            yield f"{job_id} took the events {numbers}, and {sending[job_id]} were sent to it"


def events_come_before_their_timeout(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """An attempt that begins after an event was acknowledged takes it, whatever the time.

    Unless one before it has stored that the time was over, or may have: each that came to the wait has noted what
    it was given, or has stored nothing but its suspension.
    """
    sent: Counter[str] = Counter()
    sent_before: dict[tuple[str, int], int] = {}
    waited: dict[tuple[str, str], set[int]] = defaultdict(set)
    taken: dict[str, set[str]] = defaultdict(set)
    over = set[tuple[str, str]]()
    for fact in _of(facts, "sent", "began", "waits", "passed"):
        job, attempt, place = fact["job"], fact.get("attempt", 0), (fact["job"], fact.get("key", ""))
        if fact["fact"] == "sent":
            sent[job] += 1
        elif fact["fact"] == "began":
            sent_before[job, attempt] = sent[job]
        elif fact["fact"] == "waits":
            waited[place].add(attempt)
        elif fact.get("event") and fact["value"] is not None:
            taken[job].add(fact["key"])
        elif fact.get("event") and place not in over:
            over.add(place)
            stored = account.jobs.get(job)
            suspended = {number for type_, number in stored.events if type_ == "suspended"} if stored else set()
            is_first = waited[place] - {attempt} <= suspended
            if is_first and sent_before.get((job, attempt), 0) > len(taken[job]):
                yield f"{job}: {fact['key']} was over in attempt {attempt}, and an event had come before that began"


def children_are_made_once(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Each place has one child, whatever the attempts; a workflow that completed has those, and no others."""
    noted: dict[str, dict[str, str]] = defaultdict(dict)
    for fact in _of(facts, "enqueued"):
        if fact.get("parent"):
            place = noted[fact["parent"]].setdefault(fact["key"], fact["job"])
            if place != fact["job"]:
                yield f"{fact['parent']}: {fact['key']} made {place} and {fact['job']}"
    stored: dict[str, set[str]] = defaultdict(set)
    for job in account.jobs.values():
        if job.parent:
            stored[job.parent].add(job.id)
    for parent in sorted(stored.keys() - account.jobs.keys()):
        yield f"{', '.join(sorted(stored[parent]))} are children of {parent}, which is not there"
    for job in account.jobs.values():
        others = stored[job.id] - set(noted[job.id].values())
        if others and job.state == "completed":
            yield f"{job.id} has completed, and has not made {', '.join(sorted(others))}"


def parents_are_given_what_their_children_returned(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """After all have ended; a child that was retried later was not gathered again."""
    ended: set[str] = {job.id for job in account.jobs.values() if any(type_ == "parked" for type_, _ in job.events)}
    for fact in _of(facts, "ended", "raised", "passed"):
        if fact["fact"] != "passed":
            ended.add(fact["job"])
            continue
        if not fact.get("children"):
            continue
        for child_id, value in zip(fact["children"], fact["value"], strict=True):
            child = account.jobs.get(child_id)
            if child_id not in ended:
                yield f"{fact['job']} was given what {child_id} returned before that had ended"
            elif child is not None and not any(type_ == "retried" for type_, _ in child.events):
                wanted = child.result if child.state == "completed" else "failed"
                if value != wanted:
                    yield f"{fact['job']} was given {value} of {child_id}, and {wanted} is stored"


WORKFLOW_RULES: Final[tuple[Callable[[Sequence[Fact], Account], Iterable[str]], ...]] = (
    each_attempt_is_given_the_same,
    waits_last_as_long_as_they_were_to,
    waits_end_one_attempt,
    events_are_taken_once_and_in_order,
    events_come_before_their_timeout,
    children_are_made_once,
    parents_are_given_what_their_children_returned,
)
