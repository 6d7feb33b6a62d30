"""Job systems: no-op jobs enqueued and executed, and a worker that is killed: `python -m bench jobs`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path

from bench import job_crash
from bench.job_peers.work import STAMP
from bench.job_stores import Store, stores
from bench.job_systems import CONCURRENCY, SYSTEMS, Bench, Producer, System, bench, cpu_seconds, interpreter, version
from bench.options import Options
from bench.report import Section, Table, count, times
from bench.sections import alone

OURS, OURS_SYNCED = "penstock", "penstock-synced"
LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Plan:
    rounds: int
    jobs: int
    give_up_seconds: float  # of the crash
    crashes: int  # systems whose worker is killed: ours, then so many others


PLANS = {
    "full": Plan(rounds=3, jobs=5000, give_up_seconds=60.0, crashes=len(SYSTEMS)),
    "quick": Plan(rounds=1, jobs=200, give_up_seconds=15.0, crashes=0),
}


@dataclass(frozen=True)
class Figures:
    """One round of one system. Rates are a second, CPU is seconds a job."""

    enqueued: float
    together: float  # enqueued by one call for all; 0 where there is none
    executed: float
    producer_cpu: float
    worker_cpu: float
    store_cpu: float


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("jobs", "Jobs")
    problems: list[str] = []
    with stores() as servers:
        found = _found(servers, options, section)
        rounds: dict[str, list[Figures]] = {}
        for _ in range(plan.rounds):
            for system, python in found:
                _measure(plan, system, python, servers, rounds, problems)
        crashes = job_crash.run(found[: 1 + plan.crashes], servers, plan.give_up_seconds)
        told = ", ".join(store.title for store in servers.values())
    measured = {name: _median(taken) for name, taken in rounds.items()}
    section.notes = [*_explanations(plan, told), *(_setting(one, path) for one, path in found), *problems]
    tables = [_rates(measured), _ratios(measured), job_crash.table(crashes, plan.give_up_seconds)]
    section.tables = [table for table in tables if table.rows]
    section.figures = _flat(measured) | job_crash.figures(crashes)
    return section


def _found(servers: dict[str, Store], options: Options, section: Section) -> list[tuple[System, str]]:
    """The systems that can be run, with their interpreters; what the others need is told of."""
    found = []
    lacking: dict[str, None] = {}
    for system in SYSTEMS:
        if not (options.wants(system.name) or options.wants(system.package)):
            continue
        python = interpreter(system, options.peers)
        if python is None:
            lacking[system.package] = None
        elif system.store and system.store not in servers:
            lacking[system.store] = None
        else:
            found.append((system, python))
    section.missing = list(lacking)
    return found


def _flat(measured: dict[str, Figures]) -> dict[str, float]:
    return {
        f"{field.name}/{name}": getattr(one, field.name)
        for name, one in measured.items()
        for field in fields(Figures)
        if getattr(one, field.name)
    }


def _measure(
    plan: Plan,
    system: System,
    python: str,
    servers: dict[str, Store],
    rounds: dict[str, list[Figures]],
    problems: list[str],
) -> None:
    store = servers[system.store] if system.store else None
    with bench(system, python, store, tuned=True) as place:
        try:
            figures = _round(place, plan.jobs // system.share)
        except RuntimeError as problem:
            problems.append(f"{system.title}: a round was not measured ({problem}).")
            return
    rounds.setdefault(system.name, []).append(figures)
    shown = ", ".join(f"{field.name} {getattr(figures, field.name):.6g}" for field in fields(figures))
    sys.stderr.write(f"{system.title}: {shown}\n")


def _round(place: Bench, jobs: int) -> Figures:
    with place.producer() as producer:
        producer.ask("prepare")
        before = place.store_cpu_seconds()
        enqueued = producer.ask(f"enqueue {jobs}")
        with place.worker() as worker:
            seconds, worker_cpu = _executed(place, worker, producer, jobs)
        store_cpu = place.store_cpu_seconds() - before
        together = producer.ask(f"all {jobs}")
        return Figures(
            enqueued=jobs / enqueued["wall"],
            together=jobs / together["wall"] if together["value"] else 0.0,
            executed=jobs / seconds,
            producer_cpu=enqueued["cpu"] / jobs,
            worker_cpu=worker_cpu / jobs,
            store_cpu=store_cpu / jobs,
        )


def _executed(place: Bench, worker: subprocess.Popen[bytes], producer: Producer, jobs: int) -> tuple[float, float]:
    """Seconds from the first job's run until none is left, and the worker's CPU in them."""
    trace = place.place / "ran"
    _wait_for_size(place, worker, trace, 1)
    cpu = cpu_seconds(worker.pid)
    _wait_for_size(place, worker, trace, jobs * STAMP.size)
    while producer.ask("left")["value"]:
        time.sleep(POLL_SECONDS)
    (begun,) = STAMP.unpack(trace.read_bytes()[: STAMP.size])
    return time.monotonic() - begun, cpu_seconds(worker.pid) - cpu


def _wait_for_size(place: Bench, worker: subprocess.Popen[bytes], trace: Path, size: int) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not trace.exists() or trace.stat().st_size < size:
        if worker.poll() is not None:
            raise RuntimeError(f"the worker ended: {place.last_words()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done after {LIMIT_SECONDS:.0f} s: {place.last_words()}")
        time.sleep(POLL_SECONDS)


def _median(taken: list[Figures]) -> Figures:
    return Figures(*(statistics.median(getattr(one, field.name) for one in taken) for field in fields(Figures)))


def _rates(measured: dict[str, Figures]) -> Table:
    columns = ["", "enqueued a second", "by one call", "executed a second", "producer's", "worker's", "its server's"]
    table = Table("No-op jobs a second, and milliseconds of CPU a job", columns)
    for system in SYSTEMS:
        if system.name in measured:
            one = measured[system.name]
            cpu = (f"{1000 * seconds:.2f}" for seconds in (one.producer_cpu, one.worker_cpu, one.store_cpu))
            together = count(one.together) if one.together else "–"
            shown = [count(one.enqueued), together, count(one.executed), *cpu]
            table.rows.append([system.title, *(shown if system.store else [*shown[:-1], "none"])])
    return table


def _ratios(measured: dict[str, Figures]) -> Table:
    table = Table("Penstock in terms of others", ["", "enqueued", "executed", "CPU of all processes"])
    for system in SYSTEMS:
        ours = measured.get(OURS_SYNCED if system.synced else OURS)  # like with like
        if system.name in measured and system.package != OURS and ours is not None:
            theirs = measured[system.name]
            ratios = (ours.enqueued / theirs.enqueued, ours.executed / theirs.executed, _cpu(ours) / _cpu(theirs))
            table.rows.append([system.title, *map(times, ratios)])
    return table


def _cpu(one: Figures) -> float:
    return one.producer_cpu + one.worker_cpu + one.store_cpu


def _explanations(plan: Plan, servers: str) -> list[str]:
    return [
        f"{plan.jobs:,} jobs whose body appends eight bytes to a file; medians of rounds ({plan.rounds}) in which the "
        f"systems take turns. One producer enqueues them one call after another (where a system can, all by one call "
        f"too, at the end); then one worker at concurrency "
        f"{CONCURRENCY} starts, and is timed from its first job until none is left.",
        "CPU is user and system time of the process with its children, from its first job on (starting is not "
        f"counted). A server's CPU, of enqueueing and executing together, is extra. Servers: {servers or 'none'}.",
        "What is synced is compared with what is synced: the systems that lose nothing at a power cut, and the others.",
        "The kill is of the worker and all its processes.",
    ]


def _setting(system: System, python: str) -> str:
    return f"{system.title}: {system.package} {version(python, system.package)}; {system.settings}."


if __name__ == "__main__":
    alone("jobs")
