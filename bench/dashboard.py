"""`python -m bench.dashboard`: what the dashboard costs, with few jobs and with many, in the same run.

Server time is the CPU time of this process for one request of `/`, without a network: what other work the machine has
does not change it. "read now" is a page after nobody has looked for a long time; "fresh" is one within two seconds of
the last poll, or of another page.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.client.database import Database, connect
from penstock.jobs.changes import created
from penstock.jobs.job import Job, JobError, altered
from penstock.jobs.new import NewJob, first_version
from penstock.jobs.state import State
from penstock.jobs.store import JobStore
from penstock.records.leases import grant
from penstock.web.dashboard.app import make_dashboard
from penstock.web.dashboard.live import Hub, running
from penstock.web.dashboard.source import Source

OF_A_HUNDRED = ((State.COMPLETED, 75), (State.QUEUED, 15), (State.FAILED, 8), (State.PROCESSING, 2))
PAGES = 200
BATCH = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=100)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        worlds = {number: _world(Path(folder) / f"{number}.db", number) for number in (options.small, options.large)}
        _server_time(worlds, options.rounds)
        _sizes(worlds[options.large])
        asyncio.run(_polls(worlds[options.large]))
        for _, db in worlds.values():
            db.close()


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
        job = _in_state(created(first_version(new, at, int(now + 30 * 86_400))).job, kinds[place * 37 % 100], at, now)
        items.append({"PutRequest": {"Item": store.layout.main(job)}})
    for start in range(0, number, BATCH):
        store.db.execute("BatchWriteItem", {"RequestItems": {store.layout.table: items[start : start + BATCH]}})


def _in_state(job: Job, state: State, at: float, now: float) -> Job:
    match state:
        case State.QUEUED:
            return job
        case State.PROCESSING:
            lease = grant(0, "bench:1:a", now, 60.0)
            return altered(job, {"state": state, "attempt": 1, "token": 1, "lease": lease, "started_at": at})
    ended = {"state": state, "attempt": 1, "started_at": at, "ended_at": min(now, at + 30), "progress": 100.0}
    error = {"error": JobError("ValueError", "no such project")} if state is State.FAILED else {}
    return altered(job, {**ended, **error})


# ── server time ──────────────────────────────────────────────────────────────────────────────────


def _server_time(worlds: dict[int, tuple[Any, Database]], rounds: int) -> None:
    spent: dict[tuple[int, str], list[float]] = {}
    for app, _ in worlds.values():
        request(app, "/")
    for _ in range(rounds):
        for number, (app, _) in worlds.items():
            app.state.desk.board.forget()
            for kind in ("read now", "fresh"):
                spent.setdefault((number, kind), []).append(cpu_ms(lambda app=app: request(app, "/")))
    small, large = worlds
    for kind in ("read now", "fresh"):
        few, many = (statistics.median(spent[number, kind]) for number in (small, large))
        print(f"/ ({kind}): {few:.1f} ms with {small:,} jobs, {many:.1f} ms with {large:,}: {many / few:.2f} times")


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


def _sizes(world: tuple[Any, Database]) -> None:
    app, _ = world
    for path in ("/", "/jobs"):
        page = request(app, path)
        assets = {one: request(app, one) for one in set(re.findall(r'"(/static/[^"]+)"', page.decode()))}
        whole = len(page) + sum(len(one) for one in assets.values())
        packed = len(gzip.compress(page)) + sum(len(gzip.compress(one)) for one in assets.values())
        print(f"{path}: {whole / 1024:.1f} KB with its assets, {packed / 1024:.1f} KB gzipped")


async def _polls(world: tuple[Any, Database]) -> None:
    """Two hundred open pages of four kinds, for ten seconds."""
    app, _ = world
    for pages in (1, PAGES):
        hub = Hub(app.state.hub.feeds)
        meter = app.state.desk.source.meter
        async with running(hub):
            kinds = [("overview", ""), ("jobs", "\n"), ("workers", ""), ("jobs", "status:failed\n")]
            chosen = kinds if pages > 1 else kinds[:1]
            tasks = [asyncio.create_task(_read(hub, *chosen[n % len(chosen)])) for n in range(pages)]
            await asyncio.sleep(3)  # the first of each is sent
            start, polls, before, cpu = time.monotonic(), hub.polls, meter.units(), time.process_time()
            await asyncio.sleep(10)
            seconds = time.monotonic() - start
            after = meter.units()
            print(
                f"{pages} open page{'s' * (pages > 1)}: {(hub.polls - polls) / seconds:.2f} polls a second, "
                f"{(after.calls - before.calls) / seconds:.0f} calls and "
                f"{(after.read_units - before.read_units) / seconds:.0f} read units a second, "
                f"{(time.process_time() - cpu) / seconds * 100:.1f} % of a core"
            )
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _read(hub: Hub, feed: str, key: str) -> None:
    async for _ in hub.follow(feed, key, None):
        pass


if __name__ == "__main__":
    main()
