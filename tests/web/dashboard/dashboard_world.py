"""What the tests of the dashboard share: a database with jobs, and a browser's manners without a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from penstock.client.database import Database, connect
from penstock.client.transports.base import Answer, Request, Transport
from penstock.errors import ConnectionFailed
from penstock.files import open_files
from penstock.jobs.model.job import Job, JobError, NewJob
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.app import make_dashboard
from penstock.web.dashboard.source import Source

FAILURE = JobError("ValueError", "no such project", "Traceback …\nValueError: no such project")
CSRF = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Switch:
    """A transport that counts calls, and that a test can take away."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.name = inner.name
        self.away = False
        self.calls: list[str] = []

    def execute(self, operation: str, request: Request) -> Answer:
        if self.away:
            raise ConnectionFailed("http://db.test", "connection refused", "Is it running?", sent=False)
        self.calls.append(operation)
        return self.inner.execute(operation, request)

    def close(self) -> None:
        self.inner.close()


class World:
    """A database in memory (or in a file), the jobs in it, and the dashboard before it."""

    def __init__(self, tmp_path: Path, *, tables: bool = True, url: str = ":memory:", **options: Any) -> None:
        self.switch = Switch(connect(url).transport)
        self.db = Database(self.switch)
        self.files = open_files(tmp_path / "files")
        self.store = JobStore(self.db, files=self.files)
        if tables:
            self.store.create_tables()
        self.source = Source(self.db, files=self.files)
        self.app = make_dashboard(self.source, **{"pause_seconds": 0.02, **options})
        self.client = TestClient(self.app, base_url="http://localhost")

    @classmethod
    def beside(cls, other: World, **options: Any) -> World:
        """Another dashboard on the same database: the process was started anew."""
        found = object.__new__(cls)
        found.__dict__.update(other.__dict__)
        found.app = make_dashboard(Source(other.db, files=other.files), **options)
        return found

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    def made(self, task: str = "report", args: dict[str, Any] | None = None, **options: Any) -> Job:
        return self.store.create(NewJob(task, args or {}, **options))[0]

    def running(self, task: str = "report", *, owner: str = "w1", **options: Any) -> Job:
        job = self.store.claim(self.made(task, **options), owner, 60.0)
        assert job is not None
        return job

    def failed(self, task: str = "report", **options: Any) -> Job:
        return self.store.fail(self.running(task, **options), FAILURE)

    def completed(self, task: str = "report", result: object = None, **options: Any) -> Job:
        return self.store.complete(self.running(task, **options), result)

    # ── pages ────────────────────────────────────────────────────────────────────────────────────

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.client.get(path, **options)

    def page(self, path: str) -> str:
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.text

    def post(self, path: str, fields: list[tuple[str, str]], *, csrf: str | None = None) -> httpx.Response:
        """Sends a form as a page would: with the token of that page."""
        if csrf is None:
            found = CSRF.search(self.get("/jobs").text)
            csrf = "" if found is None else found.group(1)
        data: dict[str, Any] = {"csrf": csrf}
        for name, value in fields:
            data.setdefault(name, []).append(value.replace("\n", "\r\n"))  # as browsers do
        return self.client.post(path, data=data)

    def close(self) -> None:
        self.client.close()
        self.db.close()
