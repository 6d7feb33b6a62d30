"""`python -m trust.soak [--seconds 60 --seed N]`: jobs under faults, kills and wrong clocks; none lost, none doubled.

Jobs of every shape (steps, growing checkpoints, logs, fan-out and fan-in, unique ones, limits, retries, cancelled ones,
a schedule, a pipeline, workflows) and records are run by several worker processes, first on a file and then over HTTP,
half of the time each. One call in five fails, in every way that DynamoDB and networks fail. Meanwhile workers are
killed, frozen for longer than their leases, stopped and replaced, their clocks jump forward and back, and the server is
killed.

Every acknowledged write is a line of a ledger outside the database. At the end all jobs must have ended, and the rules
of `trust.ledger_rules` are checked. Ends with 0 if they hold, with 1 if not; then the folder is kept.

    python -m trust.soak --seconds 600 --seed 7
    python -m trust.soak --over http --jump 30 --faults 0.4
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from trust import ledger
from trust.ledger_rules import violations
from trust.soak_world import World, account_of

_MOST_SHOWN = 20
_DRAIN_SECONDS = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trust.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long jobs are made and workers hurt")
    parser.add_argument("--workers", type=int, default=3, help="worker processes for jobs; one more is for records")
    parser.add_argument("--faults", type=float, default=0.2, help="the part of all calls that fails")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses jobs, faults and harm")
    parser.add_argument("--rate", type=float, default=8.0, help="jobs made in a second")
    parser.add_argument("--jump", type=float, default=8.0, help="seconds that clocks are wrong by, at most")
    parser.add_argument("--pace", type=float, default=0.7, help="seconds between two harms; more on a busy machine")
    parser.add_argument("--lease", type=float, default=1.0, help="seconds of a job's lease; more on a busy machine")
    parser.add_argument("--calm", action="store_true", help="hurt no worker and no clock; faults stay")
    parser.add_argument("--over", choices=["both", "file", "http"], default="both")
    parser.add_argument("--url", help="a running endpoint, in place of a file and a server of its own")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    logging.getLogger("penstock").setLevel(logging.CRITICAL)  # what it would warn of is what is done to it
    ways = ["url"] if options.url else ["file", "http"] if options.over == "both" else [options.over]
    found = [fault for way in ways for fault in soak(way, options, options.seconds / len(ways))]
    print("Nothing was lost, doubled or reordered." if not found else f"{len(found)} violations.", flush=True)
    return 1 if found else 0


def soak(way: str, options: argparse.Namespace, seconds: float) -> list[str]:
    """One run on one kind of database; what is wrong at its end."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    draw = random.Random(f"{options.seed}:{way}")
    began = time.monotonic()
    with World(folder, way, options, draw, seconds) as world:
        world.live_through(seconds)
        world.calm_down()
        waiting = world.wait_for_ends(_DRAIN_SECONDS)
        world.stop_workers()
        account = account_of(world.store)
        faults = [*waiting, *world.troubles, *violations(ledger.read(world.ledger_path), account)]
    facts = ledger.read(world.ledger_path)
    print(f"over {way}: {summary(facts, time.monotonic() - began)}", flush=True)
    print(
        f"  attempts {_counted(Counter(min(job.attempt, 5) for job in account.jobs.values()))} (5: or more)", flush=True
    )
    if faults:
        shown = "\n  ".join(faults[:_MOST_SHOWN])
        print(f"  {shown}\n  The ledger and the database are in {folder}.", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return faults


def summary(facts: list[ledger.Fact], took: float) -> str:
    made = len({fact["job"] for fact in facts if fact["fact"] == "enqueued"})
    puts = sum(fact["fact"] == "put" for fact in facts)
    hurt = Counter(fact["how"] for fact in facts if fact["fact"] == "hurt")
    return f"{made:,} jobs, {puts:,} records, {len(facts):,} facts in {took:.0f} s; {_counted(hurt)}"


def _counted(counts: Counter[str] | Counter[int]) -> str:
    return ", ".join(f"{what}: {number:,}" for what, number in sorted(counts.items()))


if __name__ == "__main__":
    os.chdir(Path(__file__).parent.parent)
    sys.exit(main())
