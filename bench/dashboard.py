"""`python -m bench dashboard`: what the dashboard costs, with few jobs and with many, in the same run.

Server time is the CPU time of this process for one request of `/`, without a network: what other work the machine has
does not change it. "read now" is a page after nobody has looked for a long time; "fresh" is one within two seconds of
the last poll, or of another page.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.options import Options
from bench.report import Section, Table, times
from bench.sections import alone
from penstock.client.database import Database, connect
from penstock.jobs.model.job import Job, JobError, NewJob, Payload, first_version
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import copy_with, create
from penstock.jobs.store.payloads import to_json
from penstock.jobs.store.store import JobStore
from penstock.leases import grant
from penstock.web.dashboard.app import make_dashboard
from penstock.web.dashboard.poller import Poller, running_poller
from penstock.web.dashboard.source import Source

OF_A_HUNDRED = ((State.COMPLETED, 75), (State.QUEUED, 15), (State.FAILED, 8), (State.PROCESSING, 2))
PAGES = 200
BATCH = 25


@dataclass(frozen=True)
class Plan:
    small: int
    large: int
    rounds: int
    seconds: float  # in which polls are counted


PLANS = {
    "full": Plan(small=100, large=100_000, rounds=15, seconds=10.0),
    "quick": Plan(small=100, large=1_000, rounds=2, seconds=2.0),
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("dashboard", "The dashboard")
    with tempfile.TemporaryDirectory() as folder:
        worlds = {number: _world(Path(folder) / f"{number}.db", number) for number in (plan.small, plan.large)}
        _server_time(worlds, plan, section)
        _sizes(worlds[plan.large], section)
        asyncio.run(_polls(worlds[plan.large], plan, section))
        for _, db in worlds.values():
            db.close()
    section.notes = [
        "Server time is CPU of the process for one request, without a network. “Read now” is a page after nobody has "
        "looked for a long time; “fresh” is one within two seconds of the last poll, or of another page.",
    ]
    return section


def _world(path: Path, number: int) -> tuple[Any, Database]:
    db = connect(str(path))
    store = JobStore(db)
    store.create_tables()
    fill(store, number)
    return make_dashboard(Source(db)), db


def fill(store: JobStore, number: int) -> None:
    """So many jobs of the last hours, in all states, newest last; written as they are stored."""
    now = time.time()
    kinds = [state for state, share in OF_A_HUNDRED for _ in range(share)]
    items: list[dict[str, Any]] = []
    for place in range(number):
        at = now - 6 * 3600 * (1 - place / number)
        new = NewJob(f"task_{place % 7}", {"project": f"project {place % 100}"})
        first = first_version(new, at, int(now + 30 * 86_400))
        created = create(first, Payload(store.payloads.encode(first, "args", to_json(new.args, "arguments")))).job
        job = _in_state(created, kinds[place * 37 % 100], at, now)
        items.append({"PutRequest": {"Item": store.layout.main(job)}})
    for start in range(0, number, BATCH):
        store.db.execute("BatchWriteItem", {"RequestItems": {store.layout.table: items[start : start + BATCH]}})


def _in_state(job: Job, state: State, at: float, now: float) -> Job:
    match state:
        case State.QUEUED:
            return job
        case State.PROCESSING:
            lease = grant(0, "bench:1:a", now, 60.0)
            return copy_with(job, {"state": state, "attempt": 1, "token": 1, "lease": lease, "started_at": at})
    ended = {"state": state, "attempt": 1, "started_at": at, "ended_at": min(now, at + 30), "progress": 100.0}
    error = {"error": JobError("ValueError", "no such project")} if state is State.FAILED else {}
    return copy_with(job, {**ended, **error})


# ── server time ──────────────────────────────────────────────────────────────────────────────────


def _server_time(worlds: dict[int, tuple[Any, Database]], plan: Plan, section: Section) -> None:
    spent: dict[tuple[int, str], list[float]] = {}
    for app, _ in worlds.values():
        request(app, "/")
    for _ in range(plan.rounds):
        for number, (app, _) in worlds.items():
            app.state.site.overview.forget()
            for kind in ("read now", "fresh"):
                spent.setdefault((number, kind), []).append(cpu_ms(lambda app=app: request(app, "/")))  # type: ignore[misc]
    columns = ["", f"{plan.small:,} jobs", f"{plan.large:,} jobs", "ratio"]
    table = Table("The first page, milliseconds of server time", columns)
    for kind in ("read now", "fresh"):
        few, many = (statistics.median(spent[number, kind]) for number in (plan.small, plan.large))
        table.rows.append([kind, f"{few:.1f}", f"{many:.1f}", times(many / few)])
        section.figures |= {f"ms/{kind}/{plan.small}": few, f"ms/{kind}/{plan.large}": many}
    section.tables.append(table)


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def request(app: Any, path: str) -> bytes:
    """The body that the application answers with; no server and no client is between."""
    body: list[bytes] = []

    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in asked:
            return message
        return await asyncio.Future()  # the client stays

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message
        body.append(message.get("body", b""))

    scope = {
        "type": "http", "method": "GET", "path": path.partition("?")[0], "raw_path": path.encode(), "root_path": "",
        "query_string": path.partition("?")[2].encode(), "headers": [(b"host", b"localhost")], "scheme": "http",
        "server": ("localhost", 80), "client": ("127.0.0.1", 1), "http_version": "1.1", "state": {},
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return b"".join(body)


# ── sizes and polls ──────────────────────────────────────────────────────────────────────────────


def _sizes(world: tuple[Any, Database], section: Section) -> None:
    app, _ = world
    table = Table("Pages with their assets", ["", "KB", "KB gzipped"])
    for path in ("/", "/jobs"):
        page = request(app, path)
        assets = {one: request(app, one) for one in set(re.findall(r'"(/static/[^"]+)"', page.decode()))}
        whole = len(page) + sum(len(one) for one in assets.values())
        packed = len(gzip.compress(page)) + sum(len(gzip.compress(one)) for one in assets.values())
        table.rows.append([path, f"{whole / 1024:.1f}", f"{packed / 1024:.1f}"])
        section.figures[f"kilobytes/{path}"] = whole / 1024
    section.tables.append(table)


async def _polls(world: tuple[Any, Database], plan: Plan, section: Section) -> None:
    """One open page, then two hundred of four kinds."""
    app, _ = world
    table = Table("Open pages, a second", ["pages", "polls", "calls", "read units", "% of a core"])
    for pages in (1, PAGES):
        poller = Poller(app.state.poller.feeds)
        meter = app.state.site.source.meter
        async with running_poller(poller):
            kinds = [("overview", ""), ("jobs", "\n"), ("workers", ""), ("jobs", "status:failed\n")]
            chosen = kinds if pages > 1 else kinds[:1]
            tasks = [asyncio.create_task(_read(poller, *chosen[n % len(chosen)])) for n in range(pages)]
            await asyncio.sleep(min(3.0, plan.seconds))  # the first of each is sent
            start, polls, before, cpu = time.monotonic(), poller.polls, meter.units(), time.process_time()
            await asyncio.sleep(plan.seconds)
            seconds, after = time.monotonic() - start, meter.units()
            each = (poller.polls - polls, after.calls - before.calls, after.read_units - before.read_units)
            rates = [float(one) / seconds for one in each]
            core = (time.process_time() - cpu) / seconds * 100
            table.rows.append([str(pages), f"{rates[0]:.2f}", f"{rates[1]:.0f}", f"{rates[2]:.0f}", f"{core:.1f}"])
            section.figures[f"polls/{pages}"] = rates[0]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    section.tables.append(table)


async def _read(poller: Poller, feed: str, key: str) -> None:
    async for _ in poller.follow(feed, key, None):
        pass


if __name__ == "__main__":
    alone("dashboard")
