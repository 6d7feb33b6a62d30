"""Microseconds a call without a network: `python -m bench inprocess`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.report import Section, Table, times
from bench.servers import find_peers, running

ROOT = Path(__file__).parent.parent
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Plan:
    calls: int
    slow_calls: int


TITLES = {
    "execute": '`execute("…")`, file',
    "boto3-embedded": "boto3 on the embedded engine, file",
    "boto3-alone": "boto3 alone: an answer at hand, no server",
    "boto3-http": "boto3 to Dynoxide over HTTP, file",
    "moto": "boto3 under moto, in process, memory",
}


def run(plan: Plan, given_peers: list[str], moto_python: str | None, command: str) -> Section:
    notes = ["CPU is the calling process's own (`process_time`), wall is what the caller waits; medians of 7 rounds."]
    figures: dict[str, Figures] = {}
    for subject in ("execute", "boto3-embedded", "boto3-alone"):
        calls = plan.calls if subject == "execute" else plan.slow_calls
        _measure(figures, notes, subject, ["--calls", str(calls)])
    _measure_dynoxide(figures, notes, plan, given_peers)
    interpreter = moto_python or os.environ.get("PENSTOCK_BENCH_MOTO_PYTHON") or sys.executable
    _measure(figures, notes, "moto", ["--calls", str(plan.slow_calls // 4)], interpreter)
    tables = [table for table in (_figures(figures), _ratios(figures)) if table.rows]
    return Section("In process", command, tables, notes)


def _measure(
    figures: dict[str, Figures],
    notes: list[str],
    subject: str,
    arguments: list[str],
    interpreter: str = sys.executable,
) -> None:
    words = [interpreter, "-m", "bench.calls", subject, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        notes.append(f"{TITLES[subject]}: not measured ({last[:200]}).")
        return
    figures[subject] = json.loads(done.stdout)


def _measure_dynoxide(figures: dict[str, Figures], notes: list[str], plan: Plan, given_peers: list[str]) -> None:
    peers, _ = find_peers(given_peers)
    dynoxide = next((one for one in peers if one.name == "dynoxide"), None)
    if dynoxide is None:
        notes.append("dynoxide: not found, not measured.")
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, running(dynoxide, Path(directory)) as server:
        _measure(figures, notes, "boto3-http", ["--calls", str(plan.slow_calls), "--url", server.url])


def _figures(figures: dict[str, Figures]) -> Table:
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
