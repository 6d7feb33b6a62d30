"""`python -m trust.damage [--seconds N] [--seed N]`: damages pages of a file, and lets `penstock repair` save the rest.

Each round takes a sound file and overwrites some of its pages: with zeros, with noise, with others, bit by bit. Then

1. nothing but a StorageError that names the file may come of an examination and a rescue, and the file is not changed;
2. the new file is sound, and holds as many items as was said;
3. it holds nothing that was never written: where whole pages were damaged each item is as it was, or is missing.

Exit code 0 if all of this held, 1 if something did not: the damaged file is kept, and named.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from penstock.engine import Engine, Pending
from penstock.engine.repair.rescue import Rescued, rescue
from penstock.errors import StorageError
from trust.power_writer import DEFINITION, item

PAGE = 8192
TABLES = ("orders", "customers")
ITEMS = 200
KINDS = ("zeros", "noise", "bit", "bytes", "swap")
Items = dict[str, dict[str, Any]]

WRITTEN: Items = {f"k{number}": item(f"k{number}", number) for number in range(ITEMS)}


def make(path: Path) -> None:
    """Two tables of the same kind, with an index, a stream and a backup each."""
    with Engine(str(path)) as engine:
        for name in TABLES:
            engine.execute("CreateTable", DEFINITION | {"TableName": name})
            puts = [Pending("PutItem", {"TableName": name, "Item": one}) for one in WRITTEN.values()]
            engine.answer_many(puts)
            engine.execute("CreateBackup", {"TableName": name, "BackupName": "monday"})


def spoil(raw: bytearray, kind: str, random: Random) -> None:
    """Damages one page. The first, without which nothing can be known, is spared mostly."""
    pages = len(raw) // PAGE
    place = PAGE * (random.randrange(1, pages) if random.random() < 0.98 else 0)
    page = slice(place, place + PAGE)
    match kind:
        case "zeros":
            raw[page] = bytes(PAGE)
        case "noise":
            raw[page] = random.randbytes(PAGE)
        case "bit":
            raw[place + random.randrange(PAGE)] ^= 1 << random.randrange(8)
        case "bytes":  # where a page says what is in it
            for _ in range(50):
                raw[place + random.randrange(200)] = random.randrange(256)
        case _:
            other = PAGE * random.randrange(1, pages)
            raw[page], raw[other : other + PAGE] = raw[other : other + PAGE], raw[page]


def held(path: Path, table: str) -> Items:
    found: Items = {}
    start: dict[str, Any] = {}
    with Engine(str(path)) as engine:
        while True:
            page = engine.execute("Scan", {"TableName": table} | start)
            found |= {one["id"]["S"]: one for one in page["Items"]}
            if "LastEvaluatedKey" not in page:
                return found
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def faults(done: Rescued, new: Path, whole_pages: bool) -> list[str]:
    """What the new file has that it should not."""
    found = []
    for table in done.tables:
        items = held(new, table.name)
        if len(items) != table.items:
            found.append(f"{table.name} has {len(items)} items, and {table.items} were said")
        unknown = sorted(items.keys() - WRITTEN.keys())
        changed = [key for key, one in items.items() if key in WRITTEN and WRITTEN[key] != one]
        # The pages of a long item say nothing of themselves: one that was swapped with another's is not found out.
        changed = [key for key in changed if int(key[1:]) % 9]
        if unknown or (changed and whole_pages):
            found.append(f"{table.name} has what was never written: {unknown[:5]} {changed[:5]}")
    return found


def one_round(sound: Path, folder: Path, random: Random) -> tuple[str, list[str]]:
    """How it ended ("saved" or "refused"), and what was wrong."""
    path, new = folder / "damaged.db", folder / "new.db"
    new.unlink(missing_ok=True)
    raw = bytearray(sound.read_bytes())
    kinds = [random.choice(KINDS) for _ in range(random.choice((1, 1, 3, 20)))]
    for kind in kinds:
        spoil(raw, kind, random)
    path.write_bytes(raw)
    try:
        done = rescue(str(path), str(new))
    except StorageError as error:
        return "refused", [] if str(path) in str(error) and not new.exists() else [f"a bad refusal: {error}"]
    except Exception:
        return "failed", [traceback.format_exc()]
    changed = [] if path.read_bytes() == raw else ["the damaged file was changed"]
    return "saved", changed + faults(done, new, not {"bit", "bytes"} & set(kinds))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trust.damage", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=None, help="end after so many, however long they take")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int(time.time()) % 1_000_000
    sys.stdout.write(f"seed {seed}\n")
    folder = Path(tempfile.mkdtemp(prefix="penstock-damage-"))
    sound = folder / "sound.db"
    make(sound)
    counts = {"saved": 0, "refused": 0, "failed": 0}
    end = time.monotonic() + given.seconds
    while sum(counts.values()) < given.rounds if given.rounds else time.monotonic() < end:
        how, wrong = one_round(sound, folder, Random(seed))
        counts[how] += 1
        if wrong:
            sys.stdout.write(f"seed {seed}: {'; '.join(wrong)}\nThe file is kept: {folder / 'damaged.db'}\n")
            raise SystemExit(1)
        seed += 1
    shutil.rmtree(folder)
    sys.stdout.write(f"{counts['saved']} damaged files saved, {counts['refused']} refused; nothing was invented\n")


if __name__ == "__main__":
    main()
