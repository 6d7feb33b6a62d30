"""`python -m tools.walk put-item|enqueue|work|apply`: which files a call goes through, in which order.

A walk is what `sys.setprofile` sees of one call: each time that control enters a function of another file of Penstock's
is a *hop*. A hop to a file that was left before is a *return*: the reader of the walk has to open that file again.
Generators count where they are entered, too. What is imported or prepared once is left out: the call is made twice,
and the second time is counted. `jobs/`, `engine/` and so on below the table are each package's share of the hops.

    python -m tools.walk put-item
    python -m tools.walk --all
    python -m tools.walk work --steps        every hop, in order
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import penstock

SOURCE = str(Path(penstock.__file__).parent) + "/"


@dataclass(slots=True)
class Walk:
    """The files of one call, each time that control enters another one."""

    hops: list[str] = field(default_factory=list)

    def enter(self, file: str) -> None:
        if not self.hops or self.hops[-1] != file:
            self.hops.append(file)

    @property
    def files(self) -> list[str]:
        """Each once, in the order of the first visit."""
        return list(dict.fromkeys(self.hops))

    @property
    def returns(self) -> int:
        return len(self.hops) - len(self.files)

    def visits(self, file: str) -> int:
        return self.hops.count(file)


@contextmanager
def traced() -> Iterator[list[Walk]]:
    """The walk of each thread that runs in the block; the first one is this thread's."""
    walks: dict[int, Walk] = {threading.get_ident(): Walk()}
    found: list[Walk] = list(walks.values())

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            thread = threading.get_ident()
            if thread not in walks:
                walks[thread] = Walk()
                found.append(walks[thread])
            walks[thread].enter(frame.f_code.co_filename[len(SOURCE) :])

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


# ── the calls ────────────────────────────────────────────────────────────────────────────────────


def put_item(folder: Path) -> Walk:
    """A PutItem over HTTP: the server's side, from the bytes of the request to those of the answer."""
    from urllib.request import Request, urlopen

    from penstock.engine import Engine
    from penstock.server import ServerThread

    definition = {
        "TableName": "walk",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Date": "20260101T000000Z",
        "X-Amz-Target": "DynamoDB_20120810.PutItem",
        "Authorization": "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=" + "a" * 64,
    }
    body = b'{"TableName":"walk","Item":{"pk":{"S":"a"}}}'
    with Engine(str(folder / "walk.db")) as engine:
        engine.execute("CreateTable", definition)
        with traced() as walks:  # threads are traced from their start, and the server is one
            server = ServerThread(engine)
            server.start()
            for _ in range(2):
                for walk in walks:
                    walk.hops.clear()
                with urlopen(Request(server.url, body, headers), timeout=30) as answer:  # noqa: S310 - our own server
                    answer.read()
                _await_end(walks)
            found = max(walks, key=lambda walk: len(walk.hops))
            kept = Walk(list(found.hops))
        server.stop()
    return kept


def _await_end(walks: list[Walk]) -> None:
    """Waits until no thread goes on walking: the server notices the end of the connection after the answer."""
    before = -1
    while before != (hops := sum(len(walk.hops) for walk in walks)):
        before = hops
        time.sleep(0.2)


def enqueue(folder: Path) -> Walk:
    """`task.enqueue` of a job without arguments, on the embedded engine."""
    app, task = _app(folder)
    task.enqueue()
    with traced() as walks:
        task.enqueue()
    app.close()
    return walks[0]


def work(folder: Path) -> Walk:
    """A worker runs one job, from its first look at the queue to the stored outcome: the thread that calls the task."""
    from penstock.jobs.worker.worker import Worker

    app, task = _app(folder)
    task.enqueue()
    Worker(app, concurrency=1, burst=True).run()
    task.enqueue()
    kept = Walk()
    with traced() as walks:

        def keep_walk(*_: Any) -> None:
            """The outcome is stored. What the thread does next, it does for another job."""
            kept.hops += max(walks, key=lambda walk: walk.visits("jobs/worker/worker.py")).hops

        Worker(app, concurrency=1, burst=True, on_end=keep_walk).run()
    app.close()
    return kept


def apply(folder: Path) -> Walk:
    """`penstock tables apply` of one table with one index."""
    from click.testing import CliRunner

    from penstock.cli.main import cli

    (folder / "walk_tables.py").write_text(
        'from penstock import Index, Table\njobs = Table("jobs", "id:S", indexes=[Index("by-status", "status:S")])\n'
    )
    sys.path.insert(0, str(folder))
    words = ["tables", "apply", "walk_tables:jobs", "--yes", "--prefix", ""]
    run = CliRunner().invoke
    run(cli, [*words, "--db", str(folder / "first.db")])
    with traced() as walks:
        done = run(cli, [*words, "--db", str(folder / "second.db")])
    assert done.exit_code == 0, done.output
    return walks[0]


def _app(folder: Path) -> tuple[penstock.App, Any]:
    app = penstock.App(folder / "walk.db", shards=1)  # each further shard is the same two Queries once more

    @app.task()
    def nothing(_: penstock.JobContext) -> None: ...

    return app, nothing


CALLS: dict[str, Callable[[Path], Walk]] = {"put-item": put_item, "enqueue": enqueue, "work": work, "apply": apply}


def walk_of(name: str) -> Walk:
    with tempfile.TemporaryDirectory() as folder:
        return CALLS[name](Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.walk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("call", nargs="?", choices=list(CALLS))
    parser.add_argument("--all", action="store_true", help="the figures of all four")
    parser.add_argument("--steps", action="store_true", help="every hop, in order")
    options = parser.parse_args()
    if options.call is None and not options.all:
        parser.error("name a call, or --all")
    if options.all:
        print(f"{'walk':<10} {'files':>6} {'hops':>6} {'returns':>8}")
        for name in CALLS:
            walk = walk_of(name)
            print(f"{name:<10} {len(walk.files):>6} {len(walk.hops):>6} {walk.returns:>8}", flush=True)
        return
    walk = walk_of(options.call)
    if options.steps:
        print("\n".join(walk.hops))
        return
    print(f"{'visits':>6}  file")
    for file in walk.files:
        print(f"{walk.visits(file):>6}  {file}")
    shares = Counter(hop.partition("/")[0] for hop in walk.hops)
    print("        " + ", ".join(f"{room} {count}" for room, count in shares.most_common()))
    print(f"{len(walk.files)} files, {len(walk.hops)} hops, {walk.returns} returns")


if __name__ == "__main__":
    main()
