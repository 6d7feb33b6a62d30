"""The checker: what a ledger and the store's own account must agree on. Pure; each rule finds sentences.

Facts, beside `fact` itself:

    asked       key                                 somebody is about to enqueue with this key
    enqueued    key job task ends [after policy]    acknowledged; `ends` is the state that it must end in, `fails` are
                [unique] [limit_key limit] [queue]  the kinds of errors that its task raises itself, `failures` how
                [priority] [fails failures]         often at most; `parent` is the workflow that has made it, which
                [parent]                            notes it in each attempt
    cancelled   job                                 acknowledged
    retried     job                                 an operator has retried it, acknowledged
    began       job attempt worker queue            a body begins
    raised      job attempt kind                    it has raised an error of its own
    ended       job attempt value                   it is about to return this value
    did         job step index attempt              the body of a step begins
    kept        job step attempt value              the step is a checkpoint, acknowledged
    checkpoint  job name value attempt              a growing number is a checkpoint, acknowledged
    resumed     job name value attempt              an attempt was given this number to go on from
    entry       job number text attempt             an entry of the log, acknowledged
    results     job parents                         what a job was given of those it waited for
    waits       job key attempt [event] [seconds]   a workflow comes to a sleep, an event or its children; for how long
    passed      job key attempt value [event]       it goes on, and was given this; `children` are those it waited for
                [children]
    sending     job value                           somebody is about to send this event
    sent        job value                           acknowledged
    slots       limit_key limit holders             who held a limit's slots, as the store told at a moment
    put         record value                        a record was written, acknowledged
    ran         record value                        a record's function returned this
    hurt        how [worker] [seconds] [locks]      kill, freeze, jump, stop, faults, poison, pause, server, hang, lock;
                                                    `locks`: it may hold the database's file
    works       worker                              a worker of jobs has been started, and is about to take some
    thawed      worker                              a frozen one is about to go on
    away, back                                      the database is about to be stopped; it is there again
    paused      queue                               acknowledged
    resuming    queue                               somebody is about to resume it
"""

from __future__ import annotations

import math
from bisect import bisect, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from trust.ledger import Account, Fact, StoredJob
from trust.workflow_rules import WORKFLOW_RULES

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
        elif fact.get("parent") and wanted == "cancelled" and job.error_kind == _WORKER_DIED:
            continue  # before its parent was cancelled
        elif job.state != wanted and not fact.get("after"):  # of those, children_end_as_their_policy_says
            yield f"{job_id} ({job.task}) should be {wanted}, and is {job.state}"


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
    strangers = sorted(
        job.id
        for job in account.jobs.values()
        if job.id not in known and not job.parent and not job.id.startswith(CRON_PREFIX)
    )
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
        if ends != 1 + counts["retried"] + counts["revived"]:
            again = counts["retried"] + counts["revived"]
            yield f"{job.id} has ended {ends} times, and was retried {again} times"


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
    """Acknowledged numbers grow, nobody is given an older one, and the last one is stored.

    An answer may be late: what a later attempt has been given already was stored before that attempt began.
    """
    last: dict[tuple[str, str], Fact] = {}
    given: dict[tuple[str, str], Fact] = {}
    for fact in _of(facts, "checkpoint", "resumed"):
        place = (fact["job"], fact["name"])
        before = last.get(place)
        if fact["fact"] == "resumed":
            if before is not None and fact["value"] < before["value"] and fact["attempt"] >= before["attempt"]:
                yield f"{place[0]}: {place[1]} was {_told(before)}, and what was given to go on from is {_told(fact)}"
            given[place] = fact
            continue
        resumed = given.get(place)
        if resumed is not None and fact["attempt"] < resumed["attempt"] and fact["value"] <= resumed["value"]:
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
    """A body begins after all that it waits for have ended (or any, by its policy), and is given their results."""
    after = {fact["job"]: fact.get("after") or [] for fact in _of(facts, "enqueued")}
    policies = {fact["job"]: fact.get("policy") for fact in _of(facts, "enqueued")}
    ended = {job.id for job in account.jobs.values() if any(type_ == "parked" for type_, _ in job.events)}
    completed: set[str] = set()
    for fact in _of(facts, "began", "ended", "raised", "results"):
        parents = after.get(fact["job"], [])
        if fact["fact"] in ("ended", "raised"):
            ended.add(fact["job"])
            completed |= {fact["job"]} if fact["fact"] == "ended" else set()
        elif fact["fact"] == "began":
            policy = policies.get(fact["job"])
            early = [parent for parent in parents if parent not in (ended if policy == "all_ended" else completed)]
            if len(early) > (len(parents) - 1 if policy == "any_completed" else 0):
                yield f"{fact['job']} began before {', '.join(early)} had ended"
        else:
            wanted = {parent: account.jobs[parent].result for parent in parents if parent in account.jobs}
            if fact["parents"] != wanted:
                yield f"{fact['job']} was given {fact['parents']}, and {wanted} is stored"


def children_end_as_their_policy_says(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """By the states that those before it have at the end: a parent that was retried and completed has completed."""
    for fact in _of(facts, "enqueued"):
        child = account.jobs.get(fact["job"])
        if child is None or not fact.get("after"):
            continue
        done = [parent in account.jobs and account.jobs[parent].state == "completed" for parent in fact["after"]]
        policy = fact.get("policy") or "all_completed"
        goes_on = {"all_completed": all(done), "any_completed": any(done), "all_ended": True}[policy]
        wanted = "completed" if goes_on else "cancelled"
        if child.state != wanted:
            number = f"{sum(done)} of the {len(done)} jobs that it waited for"
            yield f"{child.id}: {number} have completed ({policy}); it should be {wanted}, not {child.state}"


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


def failures_are_the_tasks_own(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """An attempt fails by what its task raises, and no outage, fault or lost lease uses up a retry."""
    for fact in {fact["job"]: fact for fact in _of(facts, "enqueued")}.values():
        job = account.jobs.get(fact["job"])
        if job is None:
            continue
        own = [(attempt, kind) for attempt, kind in job.failures if kind in (fact.get("fails") or ())]
        yield from (
            f"{job.id} ({job.task}) failed in attempt {attempt} by {kind}, which is not its task's error"
            for attempt, kind in job.failures
            if (attempt, kind) not in own
        )
        if len(own) > fact.get("failures", 0):
            yield f"{job.id} ({job.task}) failed {len(own)} times, and has no retries for more than {fact['failures']}"


_POISON: Final = "poison"
_WORKER_DIED: Final = "WorkerDied"


def only_poison_is_charged(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """A job that ends its workers fails by that. One beside it is not charged: only for harm of its worker's own."""
    hurt = {fact["worker"] for fact in _of(facts, "hurt") if fact["how"] in ("kill", "freeze")}
    # To a clock that is ahead, every lease has run out; its worker takes jobs of workers that live.
    clocks_jump = any(fact["how"] == "jump" and fact.get("seconds") for fact in _of(facts, "hurt"))
    for job in account.jobs.values():
        if job.task == _POISON:
            if job.error_kind != _WORKER_DIED:
                yield f"{job.id} has ended its workers, and failed by {job.error_kind}"
        elif not clocks_jump:
            for worker in job.charged:
                if worker not in hurt:
                    yield f"{job.id} ({job.task}) is charged for the end of {worker}, which others have caused"


STALL_SECONDS: Final = 30.0
MOST_OVERTAKEN: Final = 200


def blocked_jobs_block_no_others(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """While jobs wait that any worker can run, and one works, some begin; none is overtaken by many of its rank."""
    ready = {fact["job"]: fact for fact in _of(facts, "enqueued") if _is_ready_at_once(fact)}
    waiting: dict[str, float] = {}
    overtakers: dict[int, list[float]] = defaultdict(list)
    since, is_away = -math.inf, False
    at_work, frozen = set[str](), set[str]()
    for fact in facts:
        now = fact.get("at")
        if now is None:
            continue
        if waiting and at_work and not is_away and now - max(since, min(waiting.values())) > STALL_SECONDS:
            yield f"nothing began for {STALL_SECONDS:g} s, and {next(iter(waiting))} was ready"
            since = now
        if fact["fact"] in ("away", "back"):
            is_away, since = fact["fact"] == "away", now
        elif fact["fact"] == "works" or (fact["fact"] == "thawed" and fact["worker"] in frozen):
            since = since if at_work else now
            at_work.add(fact["worker"])
        elif fact["fact"] == "hurt" and fact["how"] in ("kill", "freeze", "stop", "poison"):
            frozen |= at_work & {fact["worker"]}
            at_work.discard(fact["worker"])
        elif fact["fact"] == "enqueued" and fact["job"] in ready:
            waiting[fact["job"]] = now
        elif fact["fact"] == "began" and fact["job"] in waiting:
            since, enqueued = now, waiting.pop(fact["job"])
            rank = overtakers[ready[fact["job"]].get("priority") or 0]
            later = len(rank) - bisect(rank, enqueued)
            if later > MOST_OVERTAKEN:
                yield f"{fact['job']} was overtaken by {later} jobs"
            insort(rank, enqueued)


def _is_ready_at_once(fact: Fact) -> bool:
    """Whether nothing keeps it: no limit, no other job, no pause, no delay, no task that workers lack.

    A child may have begun long before it is noted.
    """
    kept_by = any(fact.get(name) for name in ("limit_key", "after", "queue", "unique", "parent"))
    return not kept_by and fact["ends"] == "completed" and fact.get("task") != "rare" and "at" in fact


class _Disturbances:
    """When the database was away, and when workers were frozen."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._database: list[tuple[float, float]] = []
        self._frozen: dict[str, list[tuple[float, float]]] = defaultdict(list)
        away_at, frozen_at = math.inf, dict[str, float]()
        for fact in facts:
            if fact["fact"] == "away":
                away_at = fact["at"]
            elif fact["fact"] == "back":
                self._database.append((away_at, fact["at"] + GRACE_SECONDS))
            elif fact["fact"] == "hurt" and fact["how"] == "freeze" and "at" in fact:
                frozen_at[fact["worker"]] = fact["at"]
            elif fact["fact"] == "thawed":
                began = frozen_at.pop(fact["worker"], fact["at"])
                self._frozen[fact["worker"]].append((began, fact["at"] + GRACE_SECONDS))
        if any(fact.get("locks") for fact in facts):
            self._database += [span for spans in self._frozen.values() for span in spans]

    def excuse(self, worker: str, begin: float, end: float) -> bool:
        """Whether something kept this worker between these times."""
        spans = [*self._database, *self._frozen.get(worker, ())]
        return any(from_ <= end and until >= begin for from_, until in spans)


GRACE_SECONDS: Final = 3.0
"""For a claim that was on its way: a call that fails is repeated for up to two seconds."""


def pauses_hold(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """Nothing of a queue begins after its pause was acknowledged and before it is resumed."""
    paused: dict[str, float] = {}
    disturbances = _Disturbances(facts)
    for fact in _of(facts, "paused", "resuming", "began"):
        queue = fact.get("queue")
        if fact["fact"] == "paused":
            paused[fact["queue"]] = fact["at"]
        elif fact["fact"] == "resuming":
            paused.pop(fact["queue"], None)
        elif queue in paused:
            seconds = fact["at"] - paused[queue]
            if seconds > GRACE_SECONDS and not disturbances.excuse(fact["worker"], paused[queue], fact["at"]):
                yield f"{fact['job']} began {seconds:.1f} s after its queue {queue} was paused"


def urgent_jobs_go_first(facts: Sequence[Fact], account: Account) -> Iterator[str]:
    """No first attempt of a job of lower priority, enqueued before, begins while an urgent one waits to be claimed.

    Two claims of one poll are made side by side, and may be answered in any order.
    Only workers whose clocks are right count, and urgent jobs that their first claim began: what was claimed by a
    worker that died is not waiting.
    """
    disturbances = _Disturbances(facts)
    wrong = {fact["worker"] for fact in _of(facts, "hurt") if fact["how"] == "jump" and fact.get("seconds")}
    enqueued = {fact["job"]: fact for fact in _of(facts, "enqueued") if _is_ready_at_once(fact)}
    firsts = [fact for fact in _of(facts, "began") if fact["attempt"] == 1 and fact["job"] in enqueued]
    others = sorted((fact for fact in firsts if fact["worker"] not in wrong), key=lambda fact: fact["at"])
    times = [fact["at"] for fact in others]
    for urgent in firsts:
        asked = enqueued[urgent["job"]]
        if disturbances.excuse(urgent["worker"], asked["at"], urgent["at"]):
            continue
        for fact in others[bisect(times, asked["at"] + GRACE_SECONDS) : bisect(times, urgent["at"] - GRACE_SECONDS)]:
            other = enqueued[fact["job"]]
            is_lower = _priority(other) < _priority(asked) and other["at"] < asked["at"]
            if is_lower and not disturbances.excuse(fact["worker"], asked["at"], fact["at"]):
                yield f"{fact['job']} began before {urgent['job']}, which is more urgent and had waited"


_NORMAL: Final = 5


def _priority(fact: Fact) -> int:
    priority: int = fact.get("priority", _NORMAL)
    return priority


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
    children_end_as_their_policy_says,
    unique_jobs_are_alone,
    limits_hold,
    schedules_fire_once_a_time,
    records_are_marked_once,
    failures_are_the_tasks_own,
    only_poison_is_charged,
    blocked_jobs_block_no_others,
    pauses_hold,
    urgent_jobs_go_first,
    *WORKFLOW_RULES,
)
