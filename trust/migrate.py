"""`python -m trust.migrate`: a migration beside a live writer, killed again and again; nothing may be lost.

A table is filled with items of the old shape. `penstock tables migrate up` runs in a process of its own and is killed,
while a writer counts in items, renames them in the old shape, adds and deletes some. At the end each item must be what
the writer's last acknowledged write left of it, in the new shape, or be reported as failed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from penstock.client.database import Database, connect
from penstock.client.items.expressions import F
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.migrations.migration import load_folder
from penstock.tables.migrations.migrator import Migrator, Options, Status

MIGRATION = """\
from penstock import F

table = "people"
where = F("name").exists()


def up(item):
    first, last = item.pop("name").split(" ")
    item["first"], item["last"] = first, last
    return item
"""

_END_SECONDS = 600.0
"""Then something hangs, and the kill comes anyway."""
_LOOKED_AT = 50
"""Items whose new shape tells how far a run is: by the clock alone, a busy machine kills before the first write."""
BROKEN_EVERY = 1_000
"""One in so many names cannot be split: such an item has to be reported."""


@dataclass(slots=True)
class Person:
    """What the writer knows of an item."""

    name: str
    hits: int = 0


@dataclass
class Writer:
    """Writes as a program of before the migration does, and remembers each acknowledged write."""

    db: Database
    people: dict[str, Person]
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        table, ids = self.db.table("people", key="id:S"), list(self.people)
        while not self.stopped.is_set():
            deed = self.chance.choices(("hit", "rename", "add", "delete"), (70, 20, 8, 2))[0]
            id = self.chance.choice(ids)
            person = self.people.get(id)
            self.done[deed] += 1
            if deed == "add":
                id = f"new{self.done['add']}"
                table.put({"id": id, "name": f"New {id}", "hits": 0})
                self.people[id] = Person(f"New {id}")
                ids.append(id)
            elif person is None:
                continue
            elif deed == "hit":
                table.update({"id": id}, add={"hits": 1}, if_=F("id").exists())
                person.hits += 1
            elif deed == "rename":
                name = f"Re {self.done['rename']}"
                table.update({"id": id}, set={"name": name}, remove=["first", "last"], if_=F("id").exists())
                person.name = name
            else:
                table.delete({"id": id})
                del self.people[id]
            self.stopped.wait(0.0005)  # the file has one writer at a time: the migration has its turn


def fill(db: Database, count: int) -> dict[str, Person]:
    make(db, Table("people", key="id:S"), "people")
    people = {f"p{n}": Person(f"Ada L{n}" if (n + 1) % BROKEN_EVERY else f"Plato{n}") for n in range(count)}
    with db.table("people").batch() as batch:
        for id, person in people.items():
            batch.put({"id": id, "name": person.name, "hits": 0})
    return people


def run_and_kill(path: Path, folder: Path, ids: list[str], share: float) -> float | None:
    """Runs the command, and kills it when this share of these items has the new shape; what share had it then. None
    if it had ended before.
    """
    words = ["tables", "migrate", "up", "--yes", "--no-backup", "--folder", str(folder), "--db", str(path)]
    child = subprocess.Popen([sys.executable, "-m", "penstock", *words], stdout=subprocess.DEVNULL)
    try:
        with connect(str(path)) as db:
            ends_at = time.monotonic() + _END_SECONDS
            while child.poll() is None and _migrated(db, ids) < share and time.monotonic() < ends_at:
                time.sleep(0.002)
            ended = child.poll() is not None
            child.kill()
            child.wait()
            return None if ended else _migrated(db, ids)
    finally:
        child.kill()
        child.wait()


def _migrated(db: Database, ids: list[str]) -> float:
    """The share of these items that has the new shape."""
    found = db.table("people", key="id:S").batch_get({"id": id} for id in ids)
    return sum("first" in item for item in found) / len(ids)


def problems(db: Database, people: dict[str, Person], reported: set[str]) -> list[str]:
    """Everything that is not as it should be."""
    wrong, seen = [], set()
    for item in db.table("people").scan():
        id = item["id"]
        seen.add(id)
        person = people.get(id)
        if person is None:
            wrong.append(f"{id} was deleted, and is back: {item}")
        elif item["hits"] != person.hits:
            wrong.append(f"{id} has {item['hits']} hits, not {person.hits}: a write was lost")
        elif id in reported:
            if item.get("name") != person.name:
                wrong.append(f"{id} is reported as failed, and was changed: {item}")
        elif "name" in item or f"{item.get('first')} {item.get('last')}" != person.name:
            wrong.append(f"{id} should be {person.name} in the new shape: {item}")
    return wrong + [f"{id} is lost" for id in people if id not in seen]


def trial(path: Path, *, items: int, kills: int, seed: int) -> tuple[list[str], str]:
    """One run; what was wrong, and a summary."""
    chance = random.Random(seed)
    folder = path.with_name("migrations")
    folder.mkdir(exist_ok=True)
    (folder / "0001_split_name.py").write_text(MIGRATION, encoding="utf-8")
    with connect(str(path)) as db:
        people = fill(db, items)
        everyone = list(people)
        writer = Writer(db, people, chance)
        thread = threading.Thread(target=writer.run)
        thread.start()
        try:
            ids = chance.sample(everyone, _LOOKED_AT)
            shares = [(kill + chance.random()) / (kills + 1) for kill in range(kills)]
            killed = [run_and_kill(path, folder, ids, share) for share in shares]
            migrator = Migrator(db, load_folder(folder), Naming(), Options(backup=False))
            done: list[Status] = list(migrator.up())
        finally:
            writer.stopped.set()
            thread.join()
        late = migrator.verify()[0]
        again = next(iter(migrator.again()))
        reported = {one.key["id"]["S"] for one in again.failed}
        wrong = problems(db, people, reported)
        left = migrator.verify()[0]
        if left.old:
            wrong.append(f"{left.old} items of the old shape are left")
        expected = {id for id, person in people.items() if " " not in person.name}
        if reported != expected:
            wrong.append(f"reported as failed: {len(reported)}, and {len(expected)} cannot be split")
    counts = done[-1].progress.counts if done and done[-1].progress else None
    summary = (
        f"{items:,} items, killed when {_percent(killed)} of them had the new shape\n"
        f"{sum(writer.done.values()):,} live writes ({dict(writer.done)})\nin all runs: {counts}\n"
        f"verify: {late.old:,} of the old shape added by the writer, all migrated by `up --again`; "
        f"{len(reported)} reported as failed\n{len(wrong)} wrong"
    )
    return wrong, summary


def _percent(shares: list[float | None]) -> str:
    return ", ".join("all" if share is None else f"{share:.0%}" for share in shares)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trust.migrate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 30)
    sys.stdout.write(f"seed {seed}\n")
    with tempfile.TemporaryDirectory() as folder:
        wrong, summary = trial(Path(folder) / "people.db", items=given.items, kills=given.kills, seed=seed)
    sys.stdout.write("".join(f"{one}\n" for one in wrong[:20]) + summary + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
