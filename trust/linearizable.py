"""`python -m trust.linearizable [--seconds 30 --http --kill --seed N]`: an order must explain all concurrent answers.

Client processes call a few hot items of one file (or of one server, with --http) as fast as they can: reads of every
kind, conditional writes, counters, batches, transactions, PartiQL. They write down who called what, when it began, when
it ended and what was answered, by a clock that all processes share. Afterwards `penstock.testing.linearizability` looks
for an order of the calls, one at a time, that explains every answer.

--kill ends clients, and the server too, with SIGKILL all the time: of the calls that they had begun nobody knows what
came. --break NAME uses a database that is broken on purpose, which must be found. --endpoint URL tries another
DynamoDB; there only what DynamoDB promises decides, and what more it gives is told.

Ends with 0 if there is an order, with 1 if there is none (the calls that contradict each other are shown, and the
histories are kept), with 2 if the search was given up.

    python -m trust.linearizable --seconds 60 --http --kill
    python -m trust.linearizable --processes 1 --threads 8 --memory
    python -m trust.linearizable --seconds 3 --break stale
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from penstock.testing.item_model import Call, ItemModel, Result
from penstock.testing.linearizability import Linearizable, Operation, Undecided, Verdict, Violation, check
from trust.linearizable_broken import FAULTS
from trust.linearizable_history import History, as_one_moment, as_promised, read
from trust.linearizable_world import World

_MOST_ODD = 5


def main() -> int:
    options = _options()
    print(f"seed {options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="penstock-linearizable-"))
    with World(folder, options) as world:
        world.run()
    history = read(sorted(folder.glob("*.history")))
    _tell(history, world)
    code = _judged(history, is_ours=options.endpoint is None)
    if code or world.troubles:
        print(f"The histories are in {folder}.", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code or int(bool(world.troubles))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m trust.linearizable",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="how long clients call (30)")
    parser.add_argument("--calls", type=int, default=0, help="at most so many of each thread (any number)")
    parser.add_argument("--processes", type=int, default=4, help="client processes (4)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each (2)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses calls and kills")
    parser.add_argument("--http", action="store_true", help="through `penstock serve` instead of on the file")
    parser.add_argument("--memory", action="store_true", help="in memory: with --http, or one process with threads")
    parser.add_argument("--sync", choices=["normal", "full"], default="normal", help="as of `penstock serve`")
    parser.add_argument("--kill", action="store_true", help="SIGKILL clients, and the server of a file, all the time")
    parser.add_argument("--endpoint", metavar="URL", help="another DynamoDB, such as http://localhost:8000")
    parser.add_argument("--break", dest="broken", choices=sorted(FAULTS), help="a broken database, to be found")
    options = parser.parse_args()
    if options.memory and not options.http and (options.processes > 1 or options.kill):
        parser.error("--memory without --http is one process that lives: add --processes 1, and leave out --kill.")
    return options


def _tell(history: History, world: World) -> None:
    kinds = Counter(one.kind for one in history.calls)
    print(f"{len(history.calls):,} calls: {', '.join(f'{kind} {n:,}' for kind, n in kinds.most_common())}")
    refused = sum(one.operation.result is not None and not one.operation.result.done for one in history.calls)
    print(f"{refused:,} were refused by their condition; of {history.unknown:,} nobody knows what came", flush=True)
    if world.kills:
        print(f"killed: {', '.join(f'{what} {n} times' for what, n in sorted(world.kills.items()))}", flush=True)
    for trouble in [*world.troubles, *history.odd[:_MOST_ODD]]:
        print(f"TROUBLE {trouble}", flush=True)


def _judged(history: History, is_ours: bool) -> int:
    """The exit code, after an account of what holds."""
    if history.odd or not history.calls:
        return 1
    # An order of whole calls is one of their parts too: what holds of the first holds of the second.
    whole = _checked("every call at one moment, reads of indexes too", as_one_moment(history.calls))
    if isinstance(whole, Linearizable):
        return 0
    promised = _checked("what DynamoDB promises", as_promised(history.calls))
    decisive = [promised, whole] if is_ours else [promised]
    if any(isinstance(verdict, Violation) for verdict in decisive):
        return 1
    return 2 if any(isinstance(verdict, Undecided) for verdict in decisive) else 0


def _checked(what: str, operations: Iterable[Operation[Call, Result]]) -> Verdict:
    began = time.process_time()
    verdict = check(operations, ItemModel)
    took = time.process_time() - began
    match verdict:
        case Linearizable():
            print(f"linearizable ({what}): {verdict.operations:,} operations, {verdict.steps:,} steps, {took:.1f} s")
        case Undecided():
            print(
                f"undecided ({what}): given up after {verdict.steps:,} steps, when {verdict.checked:,} of "
                f"{verdict.operations:,} operations on {', '.join(verdict.keys)} were explained"
            )
        case Violation():
            print(f"NOT linearizable ({what}): {verdict}")
    sys.stdout.flush()
    return verdict


if __name__ == "__main__":
    sys.exit(main())
