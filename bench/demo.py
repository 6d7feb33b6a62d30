"""The demo, timed: `python -m bench demo`. Twice, the first time with an empty cache of compiled code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone

LIMIT_SECONDS = 600


@dataclass(frozen=True)
class Plan:
    runs: int


PLANS = {"full": Plan(2), "quick": Plan(1)}
RUNS = ("first", "second")


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    table = Table("`penstock demo`, all systems", ["", "seconds"])
    section = Section("demo", "The demo", [table])
    with tempfile.TemporaryDirectory(prefix="bench-") as cache:
        # What numba compiles it keeps in its cache; an empty one makes the first run a first run.
        environment = {"NUMBA_CACHE_DIR": cache} if plan.runs > 1 else {}
        for name in RUNS[: plan.runs]:
            seconds = _demo(environment)
            table.rows.append([name, f"{seconds:.1f}"])
            section.figures[f"seconds/{name}"] = seconds
    if plan.runs > 1:
        section.notes.append("The first time with an empty cache of compiled code, as on a new machine.")
    return section


def _demo(environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        words = [sys.executable, "-m", "penstock", "demo", "--keep", str(Path(folder) / "demo")]
        whole = {**os.environ, **environment}
        began = time.perf_counter()
        done = subprocess.run(
            words, cwd=folder, env=whole, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
        seconds = time.perf_counter() - began
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise RuntimeError(f"penstock demo ended with {done.returncode}: {' '.join(told)}")
    return seconds


if __name__ == "__main__":
    alone("demo")
