"""The checker: what a ledger and the store's own account must agree on. Pure; each rule finds sentences.

Facts, beside `fact` itself:

    asked       key                                 somebody is about to enqueue with this key
    enqueued    key job ends [after] [unique]       acknowledged; `ends` is the state that it must end in
                [limit_key limit]
    cancelled   job                                 acknowledged
    began       job attempt worker                  a body begins
    ended       job attempt value                   it is about to return this value
    did         job step index attempt              the body of a step begins
    kept        job step attempt value              the step is a checkpoint, acknowledged
    checkpoint  job name value attempt              a growing number is a checkpoint, acknowledged
    resumed     job name value attempt              an attempt was given this number to go on from
    entry       job number text attempt             an entry of the log, acknowledged
    results     job parents                         what a job was given of those it waited for
    slots       limit_key limit holders             who held a limit's slots, as the store told at a moment
    put         record value                        a record was written, acknowledged
    ran         record value                        a record's function returned this
    hurt        how [worker]                        kill, freeze, jump, stop, faults, server
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from trust.ledger import Account, Fact, StoredJob

Rule = Callable[[Sequence[Fact], Account], Iterable[str]]

CRON_PREFIX: Final = "cron_"
_CLAIMS: Final = ("started", "taken_over")
_ENDS: Final = ("completed", "failed", "cancelled", "parked")


def violations(facts: Sequence[Fact], account: Account) -> list[str]:
    """Everything that was lost, doubled or reordered; nothing for a sound run."""
    return [found for rule in RULES for found in rule(facts, account)]


def _of(facts: Sequence[Fact], *kinds: str) -> Iterator[Fact]:
    return (fact for fact in facts if fact["fact"] in kinds)


def nothing_acknowledged_is_lost(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Every job that was acknowledged is there, and has ended as it had to."""
    wishes = {fact["job"] for fact in _of(facts, "cancelled")}
    for job_id, fact in {fact["job"]: fact for fact in _of(facts, "enqueued")}.items():
        wanted = "cancelled" if job_id in wishes else fact["ends"]
        job = account.jobs.get(job_id)
        if job is None:
            yield f"{job_id} was acknowledged, and is lost"
        elif job.state != wanted and not (job.state == "cancelled" and _has_failed(fact.get("after") or [], account)):
            yield f"{job_id} ({job.task}) should be {wanted}, and is {job.state}"


def _has_failed(parents: Iterable[str], account: Account) -> bool:
    """Whether one of these has ever failed: those that wait for it are cancelled then."""
    events = [type_ for parent in parents if parent in account.jobs for type_, _ in account.jobs[parent].events]
    return "failed" in events or "parked" in events


def nothing_comes_from_nowhere(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A job was asked for, by its key; a key has one job."""
    keys: dict[str, set[str]] = defaultdict(set)
    for fact in _of(facts, "enqueued"):
        keys[fact["key"]].add(fact["job"])
    for key, ids in keys.items():
        if len(ids) > 1:
            yield f"the key {key} has several jobs: {', '.join(sorted(ids))}"
    known = {fact["job"] for fact in _of(facts, "enqueued")}
    unsure = {fact["key"] for fact in _of(facts, "asked")} - keys.keys()
    strangers = sorted(job for job in account.jobs if job not in known and not job.startswith(CRON_PREFIX))
    if len(strangers) > len(unsure):
        yield f"nobody asked for some of these jobs ({len(unsure)} askers are unsure): {', '.join(strangers)}"


def each_job_ends_once(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """One end after each beginning, by the job's own events; and the rules that every job must keep."""
    for job in account.jobs.values():
        yield from job.broken
        counts = Counter(type_ for type_, _ in job.events)
        if counts["completed"] > 1:
            yield f"{job.id} has completed {counts['completed']} times"
        ends = sum(counts[end] for end in _ENDS)
        if ends != 1 + counts["retried"]:
            yield f"{job.id} has ended {ends} times, and was retried {counts['retried']} times"


def results_are_those_of_the_last_attempt(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """What is stored is what the attempt that completed was about to return."""
    values = {(fact["job"], fact["attempt"]): fact["value"] for fact in _of(facts, "ended")}
    for job in account.jobs.values():
        if job.state == "completed":
            last = values.get((job.id, job.attempt), "nothing")
            if job.result != last:
                yield f"{job.id} has the result {job.result}, and its attempt {job.attempt} returned {last}"


def attempts_are_explained(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A body runs once for each claim; a claim after the first follows an end, or a worker that came to harm."""
    runs = Counter((fact["job"], fact["attempt"]) for fact in _of(facts, "began"))
    yield from (f"the body of {job}, attempt {attempt}, ran {n} times" for (job, attempt), n in runs.items() if n > 1)
    was_hurt = any(_of(facts, "hurt"))
    for job in account.jobs.values():
        claims = [attempt for type_, attempt in job.events if type_ in _CLAIMS]
        if claims != list(range(1, job.attempt + 1)):
            yield f"{job.id} is in attempt {job.attempt}, and was claimed for the attempts {claims}"
        if not was_hurt and any(type_ == "taken_over" for type_, _ in job.events):
            yield f"{job.id} was taken over, and no worker came to harm"
    for job_id, attempt in runs:
        stored = account.jobs.get(job_id)
        if stored is None or attempt > stored.attempt:
            yield f"the body of {job_id} ran in attempt {attempt}, which nobody was granted"


def steps_are_kept_once(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A step that is kept is never done again by that attempt or a later one, and its value stays."""
    kept: dict[tuple[str, str], Fact] = {}
    for fact in _of(facts, "did", "kept"):
        place = (fact["job"], fact["step"])
        before = kept.get(place)
        if fact["fact"] == "kept":
            if before is not None:
                yield f"{place[0]}: {place[1]} was kept by the attempts {before['attempt']} and {fact['attempt']}"
            kept[place] = fact
        elif before is not None and before["attempt"] <= fact["attempt"]:
            yield f"{place[0]}: {place[1]} was kept, and done again in attempt {fact['attempt']}"
    for (job_id, step), fact in kept.items():
        job = account.jobs.get(job_id)
        if job is not None and job.checkpoints.get(step) != fact["value"]:
            stored = job.checkpoints.get(step)
            yield f"{job_id}: {step} was kept as {fact['value']}, and {stored} is stored"


def steps_follow_each_other(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Once a step has begun, no later attempt does one before it; and no attempt does one twice."""
    furthest: dict[str, tuple[int, int]] = {}
    done: Counter[tuple[str, str, int]] = Counter()
    for fact in _of(facts, "did"):
        job, index, attempt = fact["job"], fact["index"], fact["attempt"]
        done[job, fact["step"], attempt] += 1
        index_before, attempt_before = furthest.get(job, (-1, 0))
        if index < index_before and attempt >= attempt_before:
            yield f"{job}: step {fact['step']} was done in attempt {attempt} after a later step had begun"
        if index >= index_before:
            furthest[job] = (index, max(attempt, attempt_before))
    yield from (f"{j}: attempt {a} did {step} {n} times" for (j, step, a), n in done.items() if n > 1)


def checkpoints_never_go_back(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Acknowledged numbers grow, nobody is given an older one, and the last one is stored."""
    last: dict[tuple[str, str], Fact] = {}
    for fact in _of(facts, "checkpoint", "resumed"):
        place = (fact["job"], fact["name"])
        before = last.get(place)
        if fact["fact"] == "resumed":
            if before is not None and fact["value"] < before["value"] and fact["attempt"] >= before["attempt"]:
                yield f"{place[0]}: {place[1]} was {_told(before)}, and what was given to go on from is {_told(fact)}"
            continue
        if before is not None and (fact["value"] <= before["value"] or fact["attempt"] < before["attempt"]):
            yield f"{place[0]}: {place[1]} went from {_told(before)} to {_told(fact)}"
        last[place] = fact
    for (job_id, name), fact in last.items():
        job = account.jobs.get(job_id)
        if job is not None and not _at_least(job.checkpoints.get(name), fact["value"]):
            yield f"{job_id}: {name} was {fact['value']}, and {job.checkpoints.get(name)} is stored"


def _told(fact: Fact) -> str:
    return f"{fact['value']} (attempt {fact['attempt']})"


def _at_least(stored: Any, value: int) -> bool:
    return isinstance(stored, int) and stored >= value


def logs_are_whole_and_in_order(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Acknowledged entries are where they were written, none twice; attempts follow each other."""
    for fact in _of(facts, "entry"):
        job = account.jobs.get(fact["job"])
        entries = {} if job is None else {number: (attempt, text) for number, attempt, text, _ in job.entries}
        if job is not None and entries.get(fact["number"]) != (fact["attempt"], fact["text"]):
            yield f"{job.id}: entry {fact['number']} was {fact['text']!r}, and {entries.get(fact['number'])} is stored"
    for job in account.jobs.values():
        yield from _entries_out_of_order(job)


def _entries_out_of_order(job: StoredJob) -> Iterator[str]:
    numbers = [number for number, *_ in job.entries]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"{job.id}: its entries are numbered {numbers}"
    attempts = [attempt for _, attempt, _, _ in job.entries]
    if attempts != sorted(attempts):
        yield f"{job.id}: its entries are of the attempts {attempts}"
    progress = [(attempt, percent) for _, attempt, _, percent in job.entries if percent is not None]
    if progress != sorted(progress):
        yield f"{job.id}: its progress was {[percent for _, percent in progress]}"
    lines = Counter((attempt, text) for _, attempt, text, _ in job.entries if text.startswith("line "))
    yield from (
        f"{job.id}: {text!r} of attempt {attempt} is there {n} times" for (attempt, text), n in lines.items() if n > 1
    )
    spoken = [(attempt, int(text.split()[1])) for _, attempt, text, _ in job.entries if text.startswith("line ")]
    if spoken != sorted(spoken):
        yield f"{job.id}: its lines are in the order {spoken}"


def dependencies_come_first(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A body begins after all that it waits for have ended, and is given their results."""
    after = {fact["job"]: fact.get("after") or [] for fact in _of(facts, "enqueued")}
    ended: set[str] = set()
    for fact in _of(facts, "began", "ended", "results"):
        parents = after.get(fact["job"], [])
        if fact["fact"] == "ended":
            ended.add(fact["job"])
        elif fact["fact"] == "began":
            early = [parent for parent in parents if parent not in ended]
            if early:
                yield f"{fact['job']} began before {', '.join(early)} had ended"
        else:
            wanted = {parent: account.jobs[parent].result for parent in parents if parent in account.jobs}
            if fact["parents"] != wanted:
                yield f"{fact['job']} was given {fact['parents']}, and {wanted} is stored"


def unique_jobs_are_alone(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A second job with a unique key is made after the first one's last attempt has come to its end."""
    keys = {fact["job"]: fact["unique"] for fact in _of(facts, "enqueued") if fact.get("unique")}
    open_: dict[str, set[str]] = defaultdict(set)
    for fact in _of(facts, "began", "ended"):
        key, job = keys.get(fact["job"]), account.jobs.get(fact["job"])
        if key is None or job is None or fact["attempt"] != job.attempt:
            continue  # an attempt that was taken over: whatever its body still does is refused
        if fact["fact"] == "ended":
            open_[key].discard(job.id)
            continue
        open_[key].add(job.id)
        if len(open_[key]) > 1:
            yield f"the unique key {key} had {', '.join(sorted(open_[key]))} at once"


def limits_hold(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """By the store's own account, and by the bodies of the attempts that held the jobs to their ends."""
    for fact in _of(facts, "slots"):
        if len(fact["holders"]) > fact["limit"]:
            yield f"the limit {fact['limit_key']} is {fact['limit']}, and was held by {', '.join(fact['holders'])}"
    limits = {f["job"]: (f["limit_key"], f["limit"]) for f in _of(facts, "enqueued") if f.get("limit_key")}
    finished = {(fact["job"], fact["attempt"]) for fact in _of(facts, "ended")}
    running: dict[str, set[str]] = defaultdict(set)
    for fact in _of(facts, "began", "ended"):
        job = account.jobs.get(fact["job"])
        if job is None or job.id not in limits or fact["attempt"] != job.attempt:
            continue
        key, limit = limits[job.id]
        if fact["fact"] == "ended":
            running[key].discard(job.id)
        elif (job.id, job.attempt) in finished:
            running[key].add(job.id)
            if len(running[key]) > limit:
                yield f"the limit {key} is {limit}, and {', '.join(sorted(running[key]))} ran at once"


def schedules_fire_once_a_time(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """One job for each minute between the first and the last, which has run."""
    ticks = sorted(job for job in account.jobs if job.startswith(CRON_PREFIX))
    yield from (f"{tick} is {account.jobs[tick].state}" for tick in ticks if account.jobs[tick].state != "completed")
    times = [datetime.strptime(tick.rpartition("_")[2], "%Y%m%dT%H%M%S.%f%z") for tick in ticks]
    for earlier, later in pairwise(times):
        if later - earlier != timedelta(minutes=1):
            yield f"between {earlier:%H:%M} and {later:%H:%M} the schedule did not fire"


def records_are_marked_once(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Each acknowledged record is there, as its function left it, marked once."""
    values: dict[str, set[Any]] = defaultdict(set)
    for fact in _of(facts, "ran"):
        values[fact["record"]].add(fact["value"])
    for record in dict.fromkeys(fact["record"] for fact in _of(facts, "put")):
        stored = account.records.get(record)
        if stored is None:
            yield f"the record {record} was acknowledged, and is lost"
        elif stored.get("marks") != 1:
            yield f"the record {record} was marked {stored.get('marks', 0)} times"
        elif stored.get("value") not in values[record]:
            yield f"the record {record} has {stored.get('value')}, which no run has returned"


RULES: Final[tuple[Rule, ...]] = (
    nothing_acknowledged_is_lost,
    nothing_comes_from_nowhere,
    each_job_ends_once,
    results_are_those_of_the_last_attempt,
    attempts_are_explained,
    steps_are_kept_once,
    steps_follow_each_other,
    checkpoints_never_go_back,
    logs_are_whole_and_in_order,
    dependencies_come_first,
    unique_jobs_are_alone,
    limits_hold,
    schedules_fire_once_a_time,
    records_are_marked_once,
)
