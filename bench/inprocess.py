"""Microseconds a call without a network: `python -m bench inprocess`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.options import Options
from bench.report import Section, Table, times
from bench.sections import alone
from bench.servers import find_peers, running

ROOT = Path(__file__).parent.parent
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Plan:
    calls: int
    slow_calls: int


PLANS = {"full": Plan(calls=5000, slow_calls=1000), "quick": Plan(calls=500, slow_calls=100)}
TITLES = {
    "execute": '`execute("…")`, file',
    "boto3-embedded": "boto3 on the embedded engine, file",
    "boto3-alone": "boto3 alone: an answer at hand, no server",
    "boto3-http": "boto3 to Dynoxide over HTTP, file",
    "moto": "boto3 under moto, in process, memory",
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("inprocess", "In process")
    section.notes.append(
        "CPU is the calling process's own (`process_time`), wall is what the caller waits; medians of 7 rounds."
    )
    figures: dict[str, Figures] = {}
    for subject in ("execute", "boto3-embedded", "boto3-alone"):
        calls = plan.calls if subject == "execute" else plan.slow_calls
        _measure(figures, section, subject, ["--calls", str(calls)])
    if options.wants("dynoxide"):
        _measure_dynoxide(figures, section, plan, options)
    if options.wants("moto"):
        interpreter = options.peers.for_moto() or sys.executable
        _measure(figures, section, "moto", ["--calls", str(max(1, plan.slow_calls // 4))], interpreter)
    section.tables = [table for table in (_table(figures), _ratios(figures)) if table.rows]
    section.figures = {
        f"{operation}/{subject}/{kind}": value
        for subject, told in figures.items()
        for operation, kinds in told.items()
        for kind, value in kinds.items()
    }
    return section


def _measure(
    figures: dict[str, Figures],
    section: Section,
    subject: str,
    arguments: list[str],
    interpreter: str = sys.executable,
) -> None:
    words = [interpreter, "-m", "bench.calls", subject, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if subject == "moto" and "No module" in last:
            section.missing.append("moto")
        else:
            section.notes.append(f"{TITLES[subject]}: not measured ({last[:200]}).")
        return
    figures[subject] = json.loads(done.stdout)


def _measure_dynoxide(figures: dict[str, Figures], section: Section, plan: Plan, options: Options) -> None:
    peers, _ = find_peers(options)
    dynoxide = next((one for one in peers if one.name == "dynoxide"), None)
    if dynoxide is None:
        section.missing.append("dynoxide")
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, running(dynoxide, Path(directory)) as server:
        _measure(figures, section, "boto3-http", ["--calls", str(plan.slow_calls), "--url", server.url])


def _table(figures: dict[str, Figures]) -> Table:
    table = Table("Microseconds a call", ["", "GetItem CPU", "GetItem wall", "PutItem CPU", "PutItem wall"])
    for subject, title in TITLES.items():
        if subject in figures:
            told = figures[subject]
            cells = [told[operation][kind] for operation in ("GetItem", "PutItem") for kind in ("cpu", "wall")]
            table.rows.append([title, *(f"{cell:.1f}" for cell in cells)])
    return table


def _ratios(figures: dict[str, Figures]) -> Table:
    table = Table("Faster a call (wall)", ["", "GetItem", "PutItem"])
    for ours, theirs in (
        ("boto3-embedded", "boto3-http"),
        ("execute", "boto3-http"),
        ("execute", "boto3-alone"),
        ("boto3-embedded", "moto"),
    ):
        if ours in figures and theirs in figures:
            ratios = [
                times(figures[theirs][operation]["wall"] / figures[ours][operation]["wall"])
                for operation in ("GetItem", "PutItem")
            ]
            table.rows.append([f"{ours} against {theirs}", *ratios])
    return table


if __name__ == "__main__":
    alone("inprocess")
