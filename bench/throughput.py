"""Requests a second over HTTP: `python -m bench http`, and `python -m bench synced`.

Every server runs at once, each on its own data; the load visits them in turn, round after round, so that a change
of the machine's mood touches all of them. A figure is the median of its rounds.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.options import Options
from bench.report import Figures, Section, Table, count, times
from bench.sections import alone
from bench.servers import Server, Subject, describe, find_peers, penstock, running

SCRIPTS = Path(__file__).with_name("wrk")
CONNECTIONS = 16
LOADS = {
    "GetItem": "get.lua",
    "PutItem": "put.lua",
    "Query of 100": "query.lua",
    "BatchWriteItem of 25": "batch_write.lua",
}
SYNCED_LOADS = ("PutItem", "BatchWriteItem of 25")


@dataclass(frozen=True)
class Plan:
    rounds: int
    seconds: int
    partitions: int  # of 100 items, loaded beforehand


PLANS = {"full": Plan(rounds=3, seconds=3, partitions=100), "quick": Plan(rounds=1, seconds=1, partitions=10)}


@dataclass(frozen=True)
class Sample:
    per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    failed: int


def run(options: Options) -> Section:
    """Ours and every server that can be found."""
    peers, missing = find_peers(options)
    section = Section("http", "Over HTTP", missing=missing)
    return _measured(section, options.plan(PLANS), [penstock(), *peers], tuple(LOADS), "")


def run_synced(options: Options) -> Section:
    """Ours and Dynoxide, which syncs every commit as SQLite does by default."""
    peers, missing = find_peers(options)
    section = Section("synced", "Over HTTP, synced", missing=[name for name in missing if name == "dynoxide"])
    subjects = [penstock(sync="full"), *(one for one in peers if one.name == "dynoxide")]
    return _measured(section, options.plan(PLANS), subjects, SYNCED_LOADS, ", every commit synced")


def _measured(section: Section, plan: Plan, subjects: list[Subject], loads: tuple[str, ...], how: str) -> Section:
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not on PATH (Debian: apt install wrk)")
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, ExitStack() as stack:
        servers = _start(subjects, Path(directory), stack, plan, section.notes)
        samples = _interleaved(servers, loads, plan, section.notes)
    title = f"Requests a second, {CONNECTIONS} keep-alive connections, 300-byte items, one server process each{how}"
    section.tables = [_figures(title, servers, loads, samples), _latencies(servers, loads, samples)]
    section.tables.append(_subjects(subjects))
    section.notes.append(f"Median of {plan.rounds} interleaved rounds of {plan.seconds} s.")
    section.figures = _flat(samples)
    return section


def _flat(samples: dict[tuple[str, str], Sample]) -> Figures:
    return {f"{load}/{name}": sample.per_second for (load, name), sample in samples.items()}


def _start(subjects: list[Subject], root: Path, stack: ExitStack, plan: Plan, notes: list[str]) -> list[Server]:
    servers = []
    for subject in subjects:
        try:
            server = stack.enter_context(running(subject, root / subject.name))
            workload.load(server.execute, workload.partitions(plan.partitions))
            _check(server)
        except (OSError, RuntimeError) as error:
            last = (str(error).strip().splitlines() or ["no message"])[-1]
            notes.append(f"{subject.name}: could not be measured ({last[:200]}).")
            continue
        servers.append(server)
    return servers


def _check(server: Server) -> None:
    """The server does what will be counted: a fast wrong answer is no figure."""
    got = server.execute("GetItem", workload.get_item(1, 42)).get("Item")
    if got != workload.item(1, 42):
        raise RuntimeError(f"GetItem answered {str(got)[:120]}")
    found = server.execute("Query", workload.query(1))["Count"]
    if found != workload.ROWS_PER_PARTITION:
        raise RuntimeError(f"Query found {found} items")


def _interleaved(
    servers: list[Server], loads: tuple[str, ...], plan: Plan, notes: list[str]
) -> dict[tuple[str, str], Sample]:
    taken: dict[tuple[str, str], list[Sample]] = {}
    for load in loads:
        for _ in range(plan.rounds):
            for server in servers:
                taken.setdefault((load, server.subject.name), []).append(_wrk(server, load, plan))
    for (load, name), samples in taken.items():
        failed = sum(sample.failed for sample in samples)
        if failed:
            notes.append(f"{name}: {failed:,} failed requests in {load}.")
    return {place: _median(samples) for place, samples in taken.items()}


def _wrk(server: Server, load: str, plan: Plan) -> Sample:
    words = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{plan.seconds}s", "--timeout", "10s"]
    words += ["-s", str(SCRIPTS / LOADS[load]), server.url, "--", workload.TABLE, str(plan.partitions)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=plan.seconds + 60)
    line = next(one for one in done.stdout.splitlines() if one.startswith("RESULT "))
    told = json.loads(line.removeprefix("RESULT "))
    milliseconds = (told[name] / 1000 for name in ("p50", "p99", "p999"))
    return Sample(told["requests"] / (told["microseconds"] / 1e6), *milliseconds, told["failed"])


def _median(samples: list[Sample]) -> Sample:
    return Sample(
        statistics.median(one.per_second for one in samples),
        statistics.median(one.p50_ms for one in samples),
        statistics.median(one.p99_ms for one in samples),
        statistics.median(one.p999_ms for one in samples),
        sum(one.failed for one in samples),
    )


def _figures(
    title: str, servers: list[Server], loads: tuple[str, ...], samples: dict[tuple[str, str], Sample]
) -> Table:
    names = [server.subject.name for server in servers]
    table = Table(title, ["load", *names, "ours / fastest peer"])
    for load in loads:
        rates = {name: samples[load, name].per_second for name in names}
        peers = [rate for name, rate in rates.items() if name != "penstock"]
        ratio = times(rates["penstock"] / max(peers)) if peers and "penstock" in rates else "-"
        table.rows.append([load, *(count(rates[name]) for name in names), ratio])
    return table


def _latencies(servers: list[Server], loads: tuple[str, ...], samples: dict[tuple[str, str], Sample]) -> Table:
    names = [server.subject.name for server in servers]
    table = Table("Milliseconds a request under that load: median / 99th / 99.9th percentile", ["load", *names])
    for load in loads:
        parts = ((one.p50_ms, one.p99_ms, one.p999_ms) for one in (samples[load, name] for name in names))
        table.rows.append([load, *(" / ".join(f"{milliseconds:.1f}" for milliseconds in one) for one in parts)])
    return table


def _subjects(subjects: list[Subject]) -> Table:
    table = Table("What ran", ["server", "version", "keeps its data in", "command"])
    for told in describe(subjects):
        table.rows.append([told["name"], told["version"], told["keeps"], f"`{told['command']}`"])
    return table


if __name__ == "__main__":
    alone("http")
