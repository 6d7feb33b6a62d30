"""`python -m trust.streams`: consumers that are killed and frozen; no change may be lost or come out of order.

An order service writes changes. Two groups, a mailer and an analysis, read them with several processes each, which are
killed with kill -9, frozen for longer than their leases, stopped in order, and started again. Each process writes what
it is given to its group's ledger. In the end the ledgers must have every change; of each item, first deliveries in
order; and repeats only of what a process had that was killed or frozen.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.client.database import Database, connect
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table

GROUPS = ("mailer", "analysis")
ITEMS = 200
LEASE_SECONDS = 2.0
_START_SECONDS = 60.0
_DRAIN_SECONDS = 180.0
_READER = 0.8
"""How often it is a process that reads, and not one that stands by."""


@dataclass
class Service:
    """Writes changes while consumers are killed, and remembers how often each order was changed."""

    db: Database
    changes: int
    chance: random.Random
    pause_seconds: float
    written: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        table = self.db.table("orders", key="id:S")
        for _ in range(self.changes):
            order = f"o{self.chance.randrange(ITEMS)}"
            table.put({"id": order, "n": self.written[order]})
            self.written[order] += 1
            time.sleep(self.pause_seconds)


@dataclass
class Crew:
    """The processes of one group."""

    target: str
    group: str
    ledger: Path
    chance: random.Random
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    disturbed: set[int] = field(default_factory=set)
    """Pids that were killed or frozen."""
    done: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        words = [self.target, self.group, str(self.ledger), str(LEASE_SECONDS)]
        self.processes.append(subprocess.Popen([sys.executable, "-m", "trust.streams_reader", *words]))

    def disturb(self) -> None:
        """Kills, freezes or stops one of them: mostly the one that read last."""
        lines = self.lines()
        readers = [one for one in self.processes if lines and one.pid == lines[-1][0]]
        one = self.chance.choice(readers if readers and self.chance.random() < _READER else self.processes)
        deed = self.chance.choices(("kill", "freeze", "stop"), (5, 2, 2))[0]
        self.done[deed] += 1
        if deed == "freeze":
            self.disturbed.add(one.pid)
            one.send_signal(signal.SIGSTOP)
            time.sleep(2 * LEASE_SECONDS)
            one.send_signal(signal.SIGCONT)
            return
        if deed == "kill":
            self.disturbed.add(one.pid)
            one.kill()
        else:
            one.terminate()
        one.wait()
        self.processes.remove(one)
        self.start()

    def lines(self) -> list[tuple[int, str, int]]:
        """What was delivered, in the order of the writes: pid, order, number."""
        if not self.ledger.exists():
            return []
        rows = [line.split() for line in self.ledger.read_text(encoding="utf-8").splitlines()]
        return [(int(pid), order, int(number)) for pid, order, number, _ in rows]

    def distinct(self) -> int:
        return len({(order, number) for _, order, number in self.lines()})

    def stop(self) -> None:
        for one in self.processes:
            with suppress(ProcessLookupError):
                one.send_signal(signal.SIGCONT)
                one.terminate()
        for one in self.processes:
            one.wait()


def problems(lines: list[tuple[int, str, int]], written: Counter[str], disturbed: set[int]) -> tuple[list[str], int]:
    """Everything that is not as it should be in a ledger, and the number of repeats."""
    wrong: list[str] = []
    newest: dict[str, int] = {}
    holders: dict[tuple[str, int], set[int]] = {}
    repeats = 0
    for pid, order, number in lines:
        last = newest.get(order, -1)
        if number > last + 1:
            wrong.append(f"{order}: {number} came after {last}")
        before = holders.setdefault((order, number), set())
        if before:
            repeats += 1
            if not (before | {pid}) & disturbed:
                wrong.append(f"{order}: {number} came again, and neither {before} nor {pid} was disturbed")
        before.add(pid)
        newest[order] = max(last, number)
    wrong += [
        f"{order}: {count - 1 - newest.get(order, -1)} changes are lost"
        for order, count in written.items()
        if newest.get(order, -1) != count - 1
    ]
    return wrong, repeats


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """A server on the file; its URL."""
    words = ["serve", "--db", str(path), "--port", "0"]
    child = subprocess.Popen([sys.executable, "-m", "penstock", *words], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        for line in child.stdout:
            place = next((word for word in line.split() if word.startswith("http://")), None)
            if place is not None:
                yield place.rstrip(".,")
                return
        raise RuntimeError("The server did not start.")
    finally:
        child.terminate()
        child.wait()


def trial(
    path: Path, *, changes: int, processes: int, kills: int, seed: int, target: str | None = None
) -> tuple[list[str], str]:
    """One run; what was wrong, and a summary."""
    chance = random.Random(seed)
    place = target or str(path)
    began_at = time.monotonic()
    with connect(place) as db:
        make(db, Table("orders", key="id:S", stream="NEW_IMAGE"), "orders")
        crews = [Crew(place, group, path.with_name(f"{group}.ledger"), chance) for group in GROUPS]
        service = Service(db, changes, random.Random(seed + 1), 1.5 * kills / changes)
        writer = threading.Thread(target=service.run)
        try:
            for crew in crews:
                for _ in range(processes):
                    crew.start()
            writer.start()
            _await(lambda: all(crew.lines() for crew in crews))
            for _ in range(kills):
                chance.choice(crews).disturb()
                time.sleep(chance.uniform(0.1, 1.0))
            writer.join()
            wanted = sum(service.written.values())
            _await(lambda: all(crew.distinct() >= wanted for crew in crews), seconds=_DRAIN_SECONDS)
        finally:
            for crew in crews:
                crew.stop()
            writer.join()
    wrong: list[str] = []
    told = [
        f"{changes:,} changes of {ITEMS} orders, {processes} processes a group, {time.monotonic() - began_at:.1f} s"
    ]
    for crew in crews:
        found, repeats = problems(crew.lines(), service.written, crew.disturbed)
        wrong += [f"{crew.group}: {one}" for one in found]
        told.append(f"{crew.group}: {len(crew.lines()):,} deliveries, {repeats:,} repeats, {dict(crew.done)}")
    return wrong, "\n".join([*told, f"{len(wrong)} wrong"])


def _await(is_so: Callable[[], bool], *, seconds: float = _START_SECONDS) -> None:
    ends_at = time.monotonic() + seconds
    while not is_so() and time.monotonic() < ends_at:
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trust.streams", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--serve", action="store_true", help="over `penstock serve`, not on the file")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 30)
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    options = {"changes": given.changes, "processes": given.processes, "kills": given.kills, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.db"
        if given.serve:
            with serving(path) as url:
                wrong, summary = trial(path, target=url, **options)
        else:
            wrong, summary = trial(path, **options)
    sys.stdout.write("".join(f"{one}\n" for one in wrong[:20]) + summary + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parent.parent))
    sys.exit(main())
