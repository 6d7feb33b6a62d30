"""How long the slowest calls take over HTTP, at a load that every server can bear: `python -m bench tail`.

A process reads an item at a steady rate, another writes one; each call's time counts from the moment at which it was
due, so that a call which a stalled one kept from being sent has waited too. One server runs at a time, and they take
turns, so that none is measured beside another.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import Subject, find_peers, penstock, running
from bench.stalls import GET, PUT, Samples, make_small, start_client

PARTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
WARM = 10
"""The first tenth of a round's calls is not counted: imports, first connections and caches are not what is asked."""


@dataclass(frozen=True)
class Plan:
    rounds: int
    seconds: float
    gets_a_second: float
    puts_a_second: float


PLANS = {
    "full": Plan(rounds=5, seconds=10, gets_a_second=200, puts_a_second=100),
    "quick": Plan(rounds=1, seconds=3, gets_a_second=100, puts_a_second=50),
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    peers, missing = find_peers(options)
    section = Section("tail", "Slow calls over HTTP", missing=missing)
    taken: dict[str, dict[str, list[dict[str, float]]]] = {}
    for _ in range(plan.rounds):
        for subject in (penstock(), *peers):
            try:
                told = _round(subject, plan)
            except (OSError, RuntimeError, ValueError) as problem:
                section.notes.append(f"{subject.name}: a round was not measured ({str(problem)[:200]}).")
                continue
            for operation, parts in told.items():
                taken.setdefault(operation, {}).setdefault(subject.name, []).append(parts)
    rates = {GET: plan.gets_a_second, PUT: plan.puts_a_second}
    for operation, by_server in taken.items():
        table = Table(f"Milliseconds of {operation}, {rates[operation]:.0f} a second", ["server", *PARTS])
        for name, rounds in by_server.items():
            medians = {part: statistics.median(one[part] for one in rounds) for part in PARTS}
            table.rows.append([name, *(f"{value:.2f}" for value in medians.values())])
            section.figures |= {f"{operation} {part}/{name}": value for part, value in medians.items()}
        section.tables.append(table)
    section.notes.append(
        f"{plan.gets_a_second:.0f} GetItem and {plan.puts_a_second:.0f} PutItem a second at the same time, each from a "
        f"process of its own, for {plan.seconds:.0f} s; medians of {plan.rounds} rounds. A call's time counts from "
        "when it was due."
    )
    return section


def _round(subject: Subject, plan: Plan) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, running(subject, Path(folder)) as server:
        make_small(server.execute)
        clients = {
            GET: start_client(GET, server, plan.gets_a_second),
            PUT: start_client(PUT, server, plan.puts_a_second),
        }
        try:
            time.sleep(plan.seconds)
            told = {name: json.loads(client.communicate("stop\n")[0]) for name, client in clients.items()}
        finally:
            for client in clients.values():
                client.kill()
                client.wait()
    return {name: percentiles(samples) for name, samples in told.items()}


def percentiles(samples: Samples) -> dict[str, float]:
    """Of the calls, but for the first ones."""
    times = sorted(taken for _, taken in samples[len(samples) // WARM :])
    if not times:
        raise RuntimeError("no call was made")
    return {name: times[round((len(times) - 1) * part)] for name, part in PARTS.items()}


if __name__ == "__main__":
    alone("tail")
