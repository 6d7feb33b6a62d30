"""`python -m trust.powerloss [--sync full|normal|both|off] [--seed N]`: cuts the power while a process writes.

A process writes to a database under strace, which records every write and sync of its files. From the record, the run
builds states of the disk that a power cut may leave (power_states.py), opens each with Penstock, and checks that

1. the file opens, and `penstock repair` finds nothing wrong with it;
2. it holds what some number of whole writes left, in their order: nothing half-done, nothing out of order;
3. with --sync full, no write that was acknowledged before the cut is missing.

--sync off is no setting of Penstock's: it shows that the run would find what goes wrong without syncs.

Exit code 0 if all of this held, 1 if something did not (the states are kept), 2 if strace cannot be used here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from penstock.engine import Engine
from penstock.engine.repair.examine import examine
from trust.power_events import CALLS, Event, events
from trust.power_states import Disk, Files, cuts
from trust.power_writer import TABLE, Version, make, start

_LONGEST_STRING = 1_000_000


@dataclass
class Tally:
    states: int = 0
    lost: int = 0
    """Acknowledged writes that were missing, over all states."""
    most_lost: int = 0
    failures: list[str] = field(default_factory=list)


def record(folder: Path, sync: str, seed: int, writes: int) -> tuple[Files, list[Event]]:
    """Lets a writer write; the files before, and what it did to them."""
    path = folder / "power.db"
    make(str(path))
    before = {str(path): path.read_bytes()}
    trace = folder / "trace"
    command = ["strace", "-f", "-xx", "-s", str(_LONGEST_STRING), "-e", f"trace={','.join(CALLS)}", "-o", str(trace)]
    command += [sys.executable, "-m", "trust.power_writer", str(path), sync, str(seed), str(writes)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"The writer could not be run under strace: {ended.stderr[-500:]}")
    with trace.open() as lines:
        return before, [one for one in events(lines, before) if _is_ours(one, str(folder))]


def _is_ours(event: Event, folder: str) -> bool:
    path = getattr(event, "path", None)
    # What SQLite shares between processes lies in memory, and is made anew after a crash.
    return path is None or (path.startswith(folder) and not path.endswith("-shm"))


def standings(said: list[str]) -> tuple[list[Version], int]:
    """What the table held after each write that was begun, the first one before any; how many were acknowledged."""
    now = start()
    found = [dict(now)]
    done = 0
    for line in said:
        if line == "done":
            done += 1
            continue
        for key, version in json.loads(line.removeprefix("try ")).items():
            if version is None:
                now.pop(key, None)
            else:
                now[key] = version
        found.append(dict(now))
    return found, done


def written(state: Files, folder: Path, random: Random) -> Path:
    """Puts a state on the disk, with rubbish where SQLite shares its memory: nobody may believe it."""
    folder.mkdir()
    for path, data in state.items():
        (folder / Path(path).name).write_bytes(data)
    if random.random() < 0.3:
        (folder / "power.db-shm").write_bytes(random.randbytes(32_768))
    return folder / "power.db"


def held(path: Path) -> Version:
    with Engine(str(path)) as engine:
        found = engine.execute("Scan", {"TableName": TABLE})["Items"]
    return {one["id"]["S"]: int(one["version"]["N"]) for one in found}


def check(path: Path, disk: Disk, sync: str, tally: Tally) -> str | None:
    """What is wrong with a state."""
    possible, done = standings(disk.said)
    try:
        found = held(path)
        findings = examine(str(path))
    except Exception as error:  # whatever it is, a sound file raises nothing
        return f"it cannot be read: {error!r}"
    if not findings.sound:
        return f"it is damaged: {findings}"
    if found not in possible:
        return f"it holds what no number of whole writes left: {found}"
    count = len(possible) - 1 - possible[::-1].index(found)
    lost = max(0, done - count)
    tally.lost += lost
    tally.most_lost = max(tally.most_lost, lost)
    if lost and sync == "full":
        return f"{lost} acknowledged writes are missing of {done}"
    return None


def run(sync: str, seed: int, writes: int, states: int, folder: Path) -> Tally:
    random = Random(seed)
    before, happened = record(folder, sync, seed, writes)
    tally = Tally()
    for number, disk in _chosen(before, happened, states, random):
        place = folder / f"state{tally.states}"
        path = written(disk.state(random), place, random)
        shutil.copytree(place, folder / "as-found")
        wrong = check(path, disk, sync, tally)
        tally.states += 1
        shutil.rmtree(place)
        if wrong is None:
            shutil.rmtree(folder / "as-found")
        else:
            kept = (folder / "as-found").rename(folder / f"failed{tally.states}")
            tally.failures.append(f"cut after event {number} of {len(happened)}: {wrong}; kept in {kept}")
    return tally


def _chosen(before: Files, happened: list[Event], states: int, random: Random) -> Iterator[tuple[int, Disk]]:
    """Cuts at so many moments, several times at one where there are fewer moments than states."""
    moments = [random.randrange(len(happened)) for _ in range(states)]
    for number, disk in cuts(before, happened, set(moments)):
        for _ in range(moments.count(number)):
            yield number, disk


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trust.powerloss", description=__doc__.partition("\n")[0])
    parser.add_argument("--sync", choices=("full", "normal", "both", "off"), default="both")
    parser.add_argument("--writes", type=int, default=150, help="writes of the process (default 150)")
    parser.add_argument("--states", type=int, default=150, help="states of the disk to look at (default 150)")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    if shutil.which("strace") is None:
        sys.stderr.write("strace is not here: it records what a process writes and syncs. Install it (Linux only).\n")
        raise SystemExit(2)
    seed = given.seed if given.seed is not None else int(time.time()) % 1_000_000
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="penstock-power-"))
    failed = False
    for sync in ("full", "normal") if given.sync == "both" else (given.sync,):
        (folder / sync).mkdir()
        tally = run(sync, seed, given.writes, given.states, folder / sync)
        failed = failed or bool(tally.failures)
        print(_told(sync, tally), flush=True)
    if failed:
        raise SystemExit(1)
    shutil.rmtree(folder)


def _told(sync: str, tally: Tally) -> str:
    lines = [f"--sync {sync}: {tally.states} power cuts, {len(tally.failures)} failures"]
    if not tally.failures:
        lines[0] += "; every file opened and was sound; "
        lines[0] += (
            f"in the worst case the last {tally.most_lost} acknowledged writes were missing"
            if tally.most_lost
            else "no acknowledged write was missing"
        )
    return "\n".join([*lines, *(f"  {one}" for one in tally.failures)])


if __name__ == "__main__":
    main()
