"""Requests a second over HTTP: `python -m bench http`.

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
from bench.report import Section, Table, count, times
from bench.servers import Server, Subject, describe, find_peers, penstock, running

SCRIPTS = Path(__file__).with_name("wrk")
CONNECTIONS = 16
LOADED_PARTITIONS = 100
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


@dataclass(frozen=True)
class Sample:
    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int


def run(plan: Plan, given_peers: list[str], sync: str | None, command: str) -> Section:
    """Measure ours and every peer that can be found."""
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not on PATH (Debian: apt install wrk)")
    peers, missing = find_peers(given_peers)
    if sync == "full":
        peers, missing = [one for one in peers if one.name == "dynoxide"], missing
        missing = [name for name in missing if name == "dynoxide"]
    subjects = [penstock(sync=sync), *peers]
    loads = SYNCED_LOADS if sync == "full" else tuple(LOADS)
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, ExitStack() as stack:
        servers = _start(subjects, Path(directory), stack, notes)
        samples = _interleaved(servers, loads, plan, notes)
    title = f"Requests a second, {CONNECTIONS} keep-alive connections, 300-byte items, one server process each"
    if sync == "full":
        title += ", every commit synced"
    tables = [_figures(title, servers, loads, samples), _latencies(servers, loads, samples), _subjects(subjects)]
    notes.append(f"Median of {plan.rounds} interleaved rounds of {plan.seconds} s.")
    notes += [f"{name}: not found, not measured." for name in missing]
    return Section("Over HTTP" if sync != "full" else "Over HTTP, synced", command, tables, notes)


def _start(subjects: list[Subject], root: Path, stack: ExitStack, notes: list[str]) -> list[Server]:
    servers = []
    for subject in subjects:
        try:
            server = stack.enter_context(running(subject, root / subject.name))
            workload.load(server.execute, workload.partitions(LOADED_PARTITIONS))
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
                taken.setdefault((load, server.subject.name), []).append(_wrk(server, load, plan.seconds))
    for (load, name), samples in taken.items():
        failed = sum(sample.failed for sample in samples)
        if failed:
            notes.append(f"{name}: {failed:,} failed requests in {load}.")
    return {place: _median(samples) for place, samples in taken.items()}


def _wrk(server: Server, load: str, seconds: int) -> Sample:
    words = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "10s"]
    words += ["-s", str(SCRIPTS / LOADS[load]), server.url, "--", workload.TABLE, str(LOADED_PARTITIONS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=seconds + 60)
    line = next(one for one in done.stdout.splitlines() if one.startswith("RESULT "))
    told = json.loads(line.removeprefix("RESULT "))
    return Sample(
        told["requests"] / (told["microseconds"] / 1e6), told["p50"] / 1000, told["p99"] / 1000, told["failed"]
    )


def _median(samples: list[Sample]) -> Sample:
    return Sample(
        statistics.median(one.per_second for one in samples),
        statistics.median(one.p50_ms for one in samples),
        statistics.median(one.p99_ms for one in samples),
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
    table = Table("Milliseconds a request under that load: median / 99th percentile", ["load", *names])
    for load in loads:
        cells = [f"{samples[load, name].p50_ms:.1f} / {samples[load, name].p99_ms:.1f}" for name in names]
        table.rows.append([load, *cells])
    return table


def _subjects(subjects: list[Subject]) -> Table:
    table = Table("What ran", ["server", "version", "keeps its data in", "command"])
    for told in describe(subjects):
        table.rows.append([told["name"], told["version"], told["keeps"], f"`{told['command']}`"])
    return table
