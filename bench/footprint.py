"""Start-up, memory and file size of every server: `python -m bench footprint`.

Each server starts some times in an empty folder (the servers take turns), is then given the same items and the same
load, and tells its memory and what its folder holds. Ours opens a large file as well.
"""

from __future__ import annotations

import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bench import workload
from bench.options import Options
from bench.report import Section, Table, count, megabytes
from bench.sections import alone
from bench.servers import Server, Subject, find_peers, penstock, running
from bench.throughput import SCRIPTS
from bench.workload import Json

SCANNED_PAGES = 200
WIDE_BYTES = 8000
"""Data of the items that fill the large file: few enough to write in a minute, many enough to be a real tree."""
READS = ("get.lua", "query.lua")  # no puts: a faster server would end with more items
LOADERS = 4
SETTLE_SECONDS = 1.0


@dataclass(frozen=True)
class Plan:
    starts: int
    partitions: int  # of 100 items, given to every server
    seconds: int  # of each load by wrk; 0: none
    file_megabytes: int


PLANS = {
    "full": Plan(starts=3, partitions=100, seconds=3, file_megabytes=2000),
    "quick": Plan(starts=1, partitions=5, seconds=0, file_megabytes=40),
}


@dataclass
class Told:
    """What was seen of one server. Times are seconds, sizes bytes."""

    starts: list[tuple[float, float]]
    idle: int = 0
    loaded: int = 0
    highest: int = 0
    file: int = 0
    again: float = 0.0


def run(options: Options) -> Section:
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not on PATH (Debian: apt install wrk)")
    plan = options.plan(PLANS)
    peers, missing = find_peers(options)
    section = Section("footprint", "Start-up, memory, file size", missing=missing)
    told: dict[str, Told] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        ours = _as_installed(Path(directory))
        for number in range(plan.starts):
            for subject in (ours, *peers):
                _noted(section, subject, lambda s=subject, n=number: _start(s, Path(directory) / f"{s.name}-{n}", told))
        for subject in (ours, *peers):
            if subject.name in told:
                place = Path(directory) / f"{subject.name}-data"
                _noted(section, subject, lambda s=subject, p=place: _fill_and_load(s, p, plan, told[s.name]))
    section.tables.append(_table(plan, told, {one.name: one.keeps for one in (ours, *peers)}))
    section.figures = _flat(told)
    _large_file(plan, section)
    section.notes += [
        "Starting is from exec to the first answer of ListTables; CPU is of the process and its children until then. "
        "Ours starts from bytecode, as after an installation by pip: an earlier start, not measured, wrote it.",
        f"The load is {plan.seconds} s each of gets and queries by wrk; the files are what is there after the server "
        "has ended; “again” is a start on them.",
    ]
    return section


def _as_installed(directory: Path) -> Subject:
    """Ours, its bytecode kept in `directory`. Run from a clone, where Python may not write any, it would be compiled
    at every start, which nothing that pip installed is."""
    kept = f"PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX={shlex.quote(str(directory / 'bytecode'))}"
    ours = penstock()
    subject = replace(ours, command=f"{kept} {ours.command}")
    with running(subject, directory / "first"):
        return subject


def _noted(section: Section, subject: Subject, work: object) -> None:
    try:
        work()  # type: ignore[operator]
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        last = (str(error).strip().splitlines() or ["no message"])[-1]
        note = f"{subject.name}: could not be measured ({last[:200]})."
        if note not in section.notes:
            section.notes.append(note)


def _start(subject: Subject, directory: Path, told: dict[str, Told]) -> None:
    with running(subject, directory) as server:
        told.setdefault(subject.name, Told([])).starts.append((server.ready_seconds, server.cpu_seconds()))
    shutil.rmtree(directory)


def _fill_and_load(subject: Subject, directory: Path, plan: Plan, told: Told) -> None:
    with running(subject, directory) as server:
        time.sleep(SETTLE_SECONDS)
        told.idle = server.memory()["VmRSS"]
        _fill(server, plan)
        _visit(server, READS, plan.seconds, plan.partitions)
        memory = server.memory()
        told.loaded, told.highest = memory["VmRSS"], memory["VmHWM"]
    told.file = _size(directory)
    if told.file:
        with running(subject, directory) as server:
            told.again = server.ready_seconds


def _fill(server: Server, plan: Plan) -> None:
    """The items by some connections at once: a server that syncs every commit would take minutes by one."""
    workload.create_table(server.execute)
    requests = list(workload.batches(workload.partitions(plan.partitions)))

    def some(place: int) -> None:
        writer = replace(server, _connection=None)
        for request in requests[place::LOADERS]:
            if writer.execute("BatchWriteItem", request).get("UnprocessedItems"):
                raise RuntimeError("BatchWriteItem left items unprocessed")

    with ThreadPoolExecutor(LOADERS) as threads:
        list(threads.map(some, range(LOADERS)))


def _visit(server: Server, scripts: tuple[str, ...], seconds: int, partitions: int) -> None:
    for script in scripts if seconds else ():
        words = ["wrk", "-t1", "-c16", f"-d{seconds}s", "-s", str(SCRIPTS / script), server.url]
        subprocess.run(
            [*words, "--", workload.TABLE, str(partitions)], capture_output=True, check=True, timeout=seconds + 60
        )


def _size(directory: Path) -> int:
    """What a server keeps in its folder, its log apart."""
    files = (one for one in directory.rglob("*") if one.is_file() and one.name != "server.log")
    return sum(one.stat().st_size for one in files)


def _table(plan: Plan, told: dict[str, Told], keeps: dict[str, str]) -> Table:
    title = f"{plan.partitions * 100:,} items of 300 bytes; starts are medians of {plan.starts}, milliseconds"
    columns = ["", "start", "CPU of it", "again", "memory idle", "after the load", "highest", "files", "keeps"]
    table = Table(title, columns)
    for name, one in told.items():
        starts = [count(1000 * statistics.median(column)) for column in zip(*one.starts, strict=True)]
        again = count(1000 * one.again) if one.again else "–"
        sizes = [megabytes(size) if size else "–" for size in (one.idle, one.loaded, one.highest)]
        table.rows.append([name, *starts, again, *sizes, f"{one.file / 1e6:.1f} MB" if one.file else "–", keeps[name]])
    return table


def _flat(told: dict[str, Told]) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, one in told.items():
        flat[f"start/{name}"] = statistics.median(wall for wall, _ in one.starts)
        for what in ("idle", "loaded", "highest", "file", "again"):
            if getattr(one, what):
                flat[f"{what}/{name}"] = getattr(one, what)
    return flat


# ── ours with a large file ───────────────────────────────────────────────────────────────────────


def _large_file(plan: Plan, section: Section) -> None:
    items = plan.file_megabytes * 1_000_000 // (WIDE_BYTES + 300)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        path = Path(directory) / "penstock.db"
        _make_large(path, items)
        size = path.stat().st_size
        ours, starts = _as_installed(path.parent), []
        for _ in range(plan.starts):
            with running(ours, path.parent) as server:
                starts.append(server.ready_seconds)
        with running(ours, path.parent) as server:
            ready = server.memory()
            _visit(server, (*READS, "put.lua"), plan.seconds, items // 100)
            _scan(server)
            after = server.memory()
    table = Table(f"Penstock with a file of {size / 1e9:.2f} GB", ["", "resident", "highest"])
    table.rows.append(["ready", megabytes(ready["VmRSS"]), megabytes(ready["VmHWM"])])
    what = f"after {3 * plan.seconds} s of gets, puts and queries and a scan of {SCANNED_PAGES} pages"
    table.rows.append([what, megabytes(after["VmRSS"]), megabytes(after["VmHWM"])])
    start = statistics.median(starts)
    table.rows.append([f"ready {1000 * start:,.0f} ms after exec (median of {len(starts)})", "", ""])
    section.tables.append(table)
    section.figures |= {"large/bytes": size, "large/highest": after["VmHWM"], "large/start": start}


def _make_large(path: Path, items: int) -> None:
    import penstock

    with penstock.connect(str(path)) as database:
        workload.create_table(database.execute)
        workload.load_fast(database, items, 100, padding=WIDE_BYTES)


def _scan(server: Server) -> None:
    page: Json = {}
    for _ in range(SCANNED_PAGES):
        page = server.execute("Scan", {"TableName": workload.TABLE, **page})
        if "LastEvaluatedKey" not in page:
            return
        page = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


if __name__ == "__main__":
    alone("footprint")
