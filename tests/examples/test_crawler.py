"""examples/crawler, on a web site of this machine: every page once, and no host asked more often than its rate."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import Worker

PLACE = Path(__file__).parents[2] / "examples" / "crawler" / "crawler.py"
PAGES = 12
LISTED = 150


@contextmanager
def web_site() -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Its host, and what was asked of it, and when. Every page links to all; one fails the first time."""
    asked: list[tuple[str, float]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, time.time()))
            if self.path == "/page/7":
                self.send_error(404)
                return
            fails = self.path == "/3" and [path for path, _ in asked].count("/3") == 1
            self.send_response(503 if fails else 200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.path == "/pages.txt":
                pages = [f"http://{self.headers['Host']}/page/{number}" for number in range(LISTED)]
                self.wfile.write("\n".join(pages).encode())
                return
            links = "".join(f'<a href="/{number}#part">{number}</a>' for number in range(PAGES))
            self.wfile.write(f'{links}<a href="http://elsewhere.test/">x</a><a href="mailto:a@b.test">y</a>'.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def crawler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("CRAWLER_DB", str(tmp_path / "crawler.db"))
    monkeypatch.setenv("CRAWLER_RATE", "20/s")
    spec = importlib.util.spec_from_file_location("crawler", PLACE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "crawler", module)
    spec.loader.exec_module(module)
    object.__setattr__(module.crawl.settings.retries, "base_seconds", 0.0)
    yield module
    module.app.close()


def test_every_page_is_fetched_once_and_no_host_more_often_than_its_rate(crawler: ModuleType) -> None:
    with web_site() as (one, of_one), web_site() as (other, of_other):
        began = time.time()
        for host in (one, other):
            crawler.start("monday", f"http://{host}/", [one, other])
        workers = [Worker(crawler.app, until_empty=True, concurrency=4) for _ in range(2)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    jobs = crawler.app.store.find(limit=100).jobs
    assert {job.state for job in jobs} == {State.COMPLETED}
    assert len(jobs) == 2 * (PAGES + 1)
    wanted = sorted(["/", "/3", *(f"/{number}" for number in range(PAGES))])
    for asked in (of_one, of_other):
        assert sorted(path for path, _ in asked) == wanted, "one page failed, and was tried again"
        for number, (_, at) in enumerate(asked):
            assert at >= began + number / 20 - 0.001


def test_the_pages_of_a_list_are_children_of_one_job_each_fetched_in_a_slot_of_its_host(
    crawler: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawler.check, "rate", "500/s")
    with web_site() as (host, asked):
        job = crawler.check_list.enqueue(url=f"http://{host}/pages.txt")
        Worker(crawler.app, until_empty=True, concurrency=4).run()
    found = crawler.app.result(job.id, timeout_seconds=1)
    assert (found["pages"], found["failed"]) == (LISTED, 1)
    assert found["bytes"] > 0
    ended = crawler.app.get(job.id)
    assert ended.attempt == 2, "the wait for all of them is one attempt more"
    children = list(crawler.app.children(job.id))
    assert len(children) == LISTED
    assert {child.parent_id for child in children} == {job.id}
    paths = [path for path, _ in asked if path != "/pages.txt"]
    assert len(set(paths)) == LISTED
    assert len(paths) == LISTED + 3, "one page is tried again, three times"
