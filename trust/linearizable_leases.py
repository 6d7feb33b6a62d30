"""`python -m trust.linearizable_leases [--seconds 20 --http --kill --seed N]`: many workers, few jobs, one holder each.

Workers in several processes fight for the same few jobs, with the shortest leases there are. They report under their
lease, give jobs back, and sometimes sleep for longer than their lease and write then. What was granted and acknowledged
is written down, by a clock that all processes share, and checked by `trust.lease_rules`: tokens only grow,
no write of an old token is taken, no lease is taken before it ran out or its holder's process was killed, no write is
lost or doubled.

Ends with 0 if that holds, with 1 if not.

    python -m trust.linearizable_leases --seconds 60 --kill
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import penstock
from penstock.jobs.store.store import JobStore
from penstock.testing.invariants import broken_rules
from trust.lease_rules import Fact, broken_lease_rules
from trust.linearizable_world import World

LEASE_SECONDS = 0.5
_MOST_SHOWN = 10


def main() -> int:
    options = _options()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="penstock-leases-"))
    with World(folder, options, client="trust.linearizable_lease_client") as world:
        world.run()
    facts = [Fact(*json.loads(line)) for path in folder.glob("*.history") for line in _lines(path)]
    letters = [chr(ord("a") + number) for number in range(options.threads)]
    facts += [Fact("end", "", 0, name + letter, *times) for name, *times in world.ends for letter in letters]
    kinds = Counter(fact.what for fact in facts)
    jobs = sorted({fact.job for fact in facts} - {""})
    print(f"{len(jobs)} jobs: {', '.join(f'{what} {n:,}' for what, n in sorted(kinds.items()))}", flush=True)
    if world.kills:
        print(f"killed: {', '.join(f'{what} {n} times' for what, n in sorted(world.kills.items()))}", flush=True)
    found = [
        *world.troubles,
        *broken_lease_rules(facts, LEASE_SECONDS),
        *_broken_records(folder / "hot.db", jobs, facts),
    ]
    for text in found[:_MOST_SHOWN]:
        print(f"BROKEN {text}", flush=True)
    print(
        f"{len(found)} violations; see {folder}" if found else "One holder each: every rule of leases holds.",
        flush=True,
    )
    if not found:
        shutil.rmtree(folder, ignore_errors=True)
    return int(bool(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m trust.linearizable_leases",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="how long workers fight (20)")
    parser.add_argument("--processes", type=int, default=4, help="worker processes (4)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each (2)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses what workers do")
    parser.add_argument("--http", action="store_true", help="through `penstock serve` instead of on the file")
    parser.add_argument("--sync", choices=["normal", "full"], default="normal", help="as of `penstock serve`")
    parser.add_argument("--kill", action="store_true", help="SIGKILL workers, and the server, all the time")
    parser.set_defaults(calls=0, memory=False, endpoint=None, broken=None)
    return parser.parse_args()


def _lines(path: Path) -> list[str]:
    """Whole ones: the last one of a worker that was killed may be half."""
    return [line for line in path.read_text().splitlines() if line.endswith("]")]


def _broken_records(path: Path, jobs: list[str], facts: list[Fact]) -> list[str]:
    """What the jobs' own records break, and acknowledged writes that are not among them."""
    found: list[str] = []
    with penstock.connect(path) as db:
        store = JobStore(db)
        for job_id in jobs:
            history = store.history(job_id)
            found += broken_rules(history)
            there = {entry.number for entry in history.entries}
            lost = [fact for fact in facts if fact.job == job_id and fact.what == "write" and fact.number not in there]
            found += [f"{job_id}: acknowledged and not there: {fact}" for fact in lost]
    return found


if __name__ == "__main__":
    sys.exit(main())
