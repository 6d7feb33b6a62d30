"""The HTTP API of jobs: what it answers, what it refuses, and what its OpenAPI document says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

import penstock
from penstock.client.database import Database, connect
from penstock.client.transports.base import Answer, Request, Transport
from penstock.errors import ConnectionFailed
from penstock.jobs.model.job import JobError
from penstock.jobs.model.state import State
from penstock.web.dashboard.app import make_dashboard
from penstock.web.dashboard.source import Source
from penstock.web.jobs_api import ENQUEUE_BYTES, PREFIX, jobs_api

sys.path.insert(0, str(Path(__file__).parents[1] / "jobs" / "metrics"))
from prometheus_parser import parse

TOKEN = "s3cret"


class Switch:
    """A transport that a test can take away."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.name, self.away, self.calls = inner, inner.name, False, 0

    def execute(self, operation: str, request: Request) -> Answer:
        self.calls += 1
        if self.away:
            raise ConnectionFailed("http://db.test", "connection refused", "Is it running?", sent=False)
        return self.inner.execute(operation, request)

    def close(self) -> None:
        self.inner.close()


class World:
    def __init__(self, *, app: bool = True, tables: bool = True, token: str | None = TOKEN, read_only: bool = False):
        self.switch = Switch(connect(":memory:").transport)
        self.db = Database(self.switch)
        self.app = penstock.App(self.db)

        @self.app.task(tags=["import"])
        def load(file: str, rows: int = 3) -> int:
            return rows

        if tables:
            self.app.store  # noqa: B018 - makes the table
        source = Source(self.db)
        api = jobs_api(source, self.app if app else None, token=token, read_only=read_only)
        self.dashboard = make_dashboard(source, token=token, read_only=read_only, api=api, pause_seconds=60)
        self.api = api
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = TestClient(
            self.dashboard, base_url="http://127.0.0.1", headers=headers, raise_server_exceptions=False
        )

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.client.get(PREFIX + path, params=params)

    def post(self, path: str, body: Any = None) -> httpx.Response:
        return self.client.post(PREFIX + path) if body is None else self.client.post(PREFIX + path, json=body)

    def failed(self, kind: str = "ValueError") -> str:
        job = self.app.store.claim(self.app.tasks["load"].enqueue(file="x"), "w1", 30)
        assert job is not None
        return self.app.store.fail(job, JobError(kind, "no")).id


@pytest.fixture
def world() -> World:
    return World()


def error(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]
    assert found["message"] and found["next_step"], "an error names the next step"
    return found


# ── enqueueing ───────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_enqueued_run_and_read(world: World):
    made = world.post("/jobs", {"task": "load", "args": {"file": "a.csv"}, "tags": ["eu"], "priority": 9})
    assert made.status_code == 201 and made.headers["cache-control"] == "no-store"
    job = made.json()
    assert (job["state"], job["args"], job["tags"], job["priority"]) == (
        "queued",
        {"file": "a.csv"},
        ["import", "eu"],
        9,
    )
    penstock.Worker(world.app, burst=True).run()
    done = world.get(f"/jobs/{job['id']}").json()
    assert (done["state"], done["result"]) == ("completed", 3)


def test_the_arguments_of_a_task_that_this_process_has_are_checked(world: World):
    refused = world.post("/jobs", {"task": "load", "args": {"folder": "a"}})
    assert refused.status_code == 422 and "load(file" in error(refused)["message"]


def test_a_task_of_another_program_is_enqueued_by_its_name_and_the_table_made():
    world = World(app=False, tables=False)
    assert world.get("/jobs").status_code == 404
    assert world.post("/jobs", {"task": "elsewhere", "args": {"x": 1}}).status_code == 201
    assert [job["task"] for job in world.get("/jobs").json()["jobs"]] == ["elsewhere"]


def test_a_second_request_with_an_idempotency_key_gets_the_first_ones_job(world: World):
    body = {"task": "load", "args": {"file": "a"}, "idempotency_key": "november"}
    first, second = world.post("/jobs", body), world.post("/jobs", body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    other = world.post("/jobs", {**body, "args": {"file": "b"}})
    assert other.status_code == 409 and "idempotency key" in error(other)["message"]


def test_long_integers_come_back_as_they_were():
    world = World(app=False)
    number = 12345678901234567890123
    made = world.client.post(
        f"{PREFIX}/jobs",
        content=f'{{"task": "x", "args": {{"n": {number}}}}}',
        headers={"Content-Type": "application/json"},
    )
    assert made.json()["args"] == {"n": number}
    assert world.get(f"/jobs/{made.json()['id']}").json()["args"] == {"n": number}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"task": "load", "argz": {}}, 400),
        ({"task": "load", "args": []}, 400),
        ({"task": "load", "priority": 10}, 400),
        ({"task": "load", "priority": "9"}, 400),
        ({"task": "load", "tags": ["a"] * 6}, 400),
        ({"task": "a#b"}, 422),
        ({"task": "../etc"}, 422),
        ({"task": "x", "run_at": "2030-01-01T00:00:00"}, 422),
        ({"task": "x", "run_at": "tomorrow"}, 422),
        ({"task": "x", "run_at": "2030-01-01T00:00:00Z", "delay_seconds": 3}, 422),
        ({"task": "x", "max_concurrent": 3}, 422),
        ({"task": "x", "tags": ["a#b"]}, 422),
        ({"task": "x", "depends_on": ["job_none"]}, 404),
        ([1], 400),
    ],
)
def test_a_bad_job_is_refused_with_the_next_step_and_nothing_is_made(world: World, body: Any, status: int):
    refused = world.post("/jobs", body)
    assert refused.status_code == status, refused.text
    error(refused)
    assert world.get("/jobs").json()["jobs"] == []


def test_a_body_that_is_no_json_or_another_type_is_refused(world: World):
    url = f"{PREFIX}/jobs"
    for content, kind, status in (
        (b"{", "application/json", 400),
        (b'{"task": NaN}', "application/json", 400),
        (b"[" * 60_000, "application/json", 400),
        (b'{"task": "load"}', "text/plain", 415),
        (b"task=load", "application/x-www-form-urlencoded", 415),
    ):
        refused = world.client.post(url, content=content, headers={"Content-Type": kind})
        assert refused.status_code == status, (content[:20], refused.text)
        error(refused)


def test_a_body_that_is_too_long_is_refused_whatever_its_length_says(world: World):
    body = b'{"task": "x", "args": {"text": "' + b"x" * ENQUEUE_BYTES + b'"}}'
    headers = {"Content-Type": "application/json"}
    told = world.client.post(f"{PREFIX}/jobs", content=body, headers=headers)
    untold = world.client.post(f"{PREFIX}/jobs", content=iter([body]), headers=headers)
    other = world.client.post(f"{PREFIX}/jobs/retry-all", content=b" " * 70_000, headers=headers)
    assert [told.status_code, untold.status_code, other.status_code] == [413, 413, 413]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_a_list_has_pages_that_neither_repeat_nor_leave_out(world: World):
    made = {world.post("/jobs", {"task": "load", "args": {"file": str(n)}}).json()["id"] for n in range(7)}
    seen: list[str] = []
    token: str | None = None
    while True:
        page = world.get("/jobs", limit=3, **({} if token is None else {"token": token})).json()
        seen += [job["id"] for job in page["jobs"]]
        token = page["token"]
        if token is None:
            break
    assert len(seen) == 7 and set(seen) == made


def test_a_list_is_filtered(world: World):
    bad = world.failed()
    world.post("/jobs", {"task": "load", "args": {"file": "a"}, "tags": ["eu"], "tenant": "acme"})
    for params, count in (
        ({"state": "failed"}, 1),
        ({"task": "load"}, 2),
        ({"tag": "eu"}, 1),
        ({"tag": "import"}, 2),
        ({"tenant": "acme"}, 1),
        ({"since": "2000-01-01T00:00:00Z"}, 2),
        ({"until": "2000-01-01T00:00:00+01:00"}, 0),
    ):
        assert len(world.get("/jobs", **params).json()["jobs"]) == count, params
    assert world.get("/jobs", state="failed").json()["jobs"][0]["id"] == bad


@pytest.mark.parametrize(
    "params",
    [
        {"state": "running"},
        {"limit": "0"},
        {"limit": "501"},
        {"limit": "x"},
        {"since": "2030-01-01T00:00:00"},
        {"since": "3h"},
        {"where": "1=1"},
        {"token": "x" * 2000},
        {"task": "x" * 201},
    ],
)
def test_a_bad_filter_is_refused(world: World, params: dict[str, str]):
    refused = world.get("/jobs", **params)
    assert refused.status_code == 400
    error(refused)


@pytest.mark.parametrize("token", ["~", "#", "0", "￿", "2026", "' OR 1"])
def test_a_token_that_nobody_gave_is_no_error(world: World, token: str):
    world.post("/jobs", {"task": "load", "args": {"file": "a"}})
    assert world.get("/jobs", token=token).status_code == 200


def test_the_log_and_the_events_of_a_job_are_read(world: World):
    job = world.app.store.claim(world.app.tasks["load"].enqueue(file="a"), "w1", 30)
    assert job is not None
    for number in range(5):
        job = world.app.store.report(job, progress=number, message=f"m{number}", data={"n": number})
    first = world.get(f"/jobs/{job.id}/log", limit=3).json()
    assert [one["message"] for one in first["entries"]] == ["m0", "m1", "m2"] and first["after"] == 3
    rest = world.get(f"/jobs/{job.id}/log", after=first["after"]).json()
    assert [one["data"] for one in rest["entries"]] == [{"n": 3}, {"n": 4}] and rest["after"] is None
    events = world.get(f"/jobs/{job.id}/events").json()["events"]
    assert [one["type"] for one in events] == ["created", "started"]


@pytest.mark.parametrize("path", ["", "/log", "/events"])
@pytest.mark.parametrize("job_id", ["job_none", "tenants", "a%23b", "..%2Fx", "%00"])
def test_a_job_that_is_not_there_is_not_found(world: World, path: str, job_id: str):
    assert world.client.get(f"{PREFIX}/jobs/{job_id}{path}").status_code == 404


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_cancelled_and_not_twice(world: World):
    job = world.app.tasks["load"].enqueue(file="a")
    assert world.post(f"/jobs/{job.id}/cancel", {"reason": "twice"}).json()["cancel_reason"] == "twice"
    again = world.post(f"/jobs/{job.id}/cancel")
    assert again.status_code == 409
    error(again)


def test_only_a_failed_job_is_retried(world: World):
    bad = world.failed()
    assert world.post(f"/jobs/{bad}/retry").json()["state"] == "queued"
    assert world.post(f"/jobs/{bad}/retry").status_code == 409
    assert world.post("/jobs/job_none/retry").status_code == 404


def test_many_jobs_are_retried_and_cancelled(world: World):
    world.failed("ValueError"), world.failed("ConnectionError")
    dry = world.post("/jobs/retry-all", {"error": "ValueError", "dry_run": True}).json()
    assert (dry["matched"], dry["changed"], dry["dry_run"]) == (1, 0, True)
    assert world.post("/jobs/retry-all", {"error": "ValueError", "task": "load"}).json()["changed"] == 1
    assert world.post("/jobs/retry-all", {}).json()["changed"] == 1
    assert world.post("/jobs/cancel-all", {"reason": "no", "tag": "import"}).json()["changed"] == 2
    assert world.post("/jobs/cancel-all", {"state": "failed"}).status_code == 400
    assert world.post("/jobs/retry-all", {"since": "yesterday"}).status_code == 422


def test_queues_are_paused_and_workers_and_schedules_shown(world: World):
    paused = world.post("/queues/default/pause", {"reason": "the bank is closed"}).json()
    assert (paused["paused"], paused["reason"]) == (True, "the bank is closed")
    assert world.post("/queues/default/resume").json()["paused"] is False
    world.app.tasks["load"].enqueue(file="a")
    (queue,) = world.get("/queues").json()["queues"]
    assert (queue["name"], queue["ready"], queue["counted_to_the_end"]) == ("default", 1, True)
    assert world.post("/queues/a%23b/pause").status_code == 422
    assert world.get("/workers").json() == {"workers": []}
    assert world.get("/schedules").json() == {"schedules": []}


# ── who may ──────────────────────────────────────────────────────────────────────────────────────


def test_every_path_needs_the_token_and_a_cookie_of_the_dashboard_is_none(world: World):
    document = world.api.openapi()
    stranger = TestClient(world.dashboard, base_url="http://127.0.0.1")
    stranger.get("/login", params={"token": TOKEN})  # signs in to the dashboard
    for path, operations in document["paths"].items():
        for method in operations:
            url = re.sub(r"\{.*?\}", "x", path)
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": TOKEN},
                {"Authorization": "Bearer"},
            ):
                refused = stranger.request(method, url, headers=headers)
                assert refused.status_code == 401, (method, path)
                assert refused.headers["www-authenticate"] == "Bearer"
                error(refused)
    for path in ("/openapi.json", "/docs", "/nothing", ""):
        assert stranger.get(PREFIX + path).status_code == 401


def test_without_a_token_this_machine_may_do_everything():
    world = World(token=None)
    assert world.get("/jobs").status_code == 200


def test_a_read_only_server_changes_nothing():
    world = World(read_only=True)
    for path, operations in world.api.openapi()["paths"].items():
        if "post" in operations:
            refused = world.client.post(re.sub(r"\{.*?\}", "x", path), json={})
            assert refused.status_code == 403, path
    assert world.get("/jobs").status_code == 200


def test_another_site_reads_and_changes_nothing(world: World):
    evil = {"Origin": "https://evil.example"}
    assert world.client.post(f"{PREFIX}/jobs", json={"task": "x"}, headers=evil).status_code == 403
    assert world.client.post(f"{PREFIX}/queues/default/pause", headers=evil).status_code == 403
    assert world.client.get(f"{PREFIX}/jobs", headers={"Host": "evil.example"}).status_code == 400
    answer = world.client.options(f"{PREFIX}/jobs", headers=evil)
    assert not [name for name in answer.headers if name.startswith("access-control")]


HOSTILE_IDS = (
    "%00",
    "..%2f..%2fetc%2fpasswd",
    "%ff%fe",
    "a" * 5_000,
    "%0d%0aX-Injected:%201",
    "%7b%7b7*7%7d%7d",
    "job_%F0%9F%92%A5",
    "'%20OR%201=1",
)
HOSTILE_BODIES: tuple[bytes, ...] = (
    b"[" * 100_000,
    b'{"task": ' + b"9" * 5_000 + b"}",
    b'{"task": "load", "task": "penstock.webhook", "args": {}}',
    b'{"__proto__": {}, "task": {"$gt": ""}}',
    b'{"task": "load", "args": {"file": "\\ud800"}}',
    b'{"task": "load", "args": {"file": NaN}}',
    b"\xff\xfe{}",
)


def test_no_path_and_no_body_that_a_stranger_makes_up_is_an_error_of_ours(world: World):
    """Each is an answer or a refusal, in our form, with no header of its own, no trace and no path of this machine."""
    for path, operations in world.api.openapi()["paths"].items():
        for method in operations:
            ids = HOSTILE_IDS if "{" in path else ("",)
            bodies = HOSTILE_BODIES if method == "post" else (b"",)
            for number in range(max(len(ids), len(bodies))):
                url = re.sub(r"\{.*?\}", lambda _, n=number, i=ids: i[n % len(i)], path)
                headers = {"Content-Type": "application/json"}
                answer = world.client.request(method, url, content=bodies[number % len(bodies)], headers=headers)
                assert answer.status_code < 500, (method, url[:80], answer.text[:300])
                assert "x-injected" not in answer.headers
                assert "Traceback" not in answer.text and "site-packages" not in answer.text
                assert len(answer.content) < 100_000
    assert not [job for job in world.app.jobs.find() if job.task.startswith("penstock.")]


def test_answers_are_data_that_no_browser_runs(world: World):
    for path in ("/jobs", "/jobs/%3Cscript%3E", "/openapi.json", "/nothing"):
        headers = world.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]


def test_the_api_is_there_only_if_asked_for():
    db = connect(":memory:")
    client = TestClient(make_dashboard(Source(db), pause_seconds=60), base_url="http://127.0.0.1")
    assert client.get(f"{PREFIX}/jobs").status_code == 404
    assert client.get("/healthz").status_code == 200


# ── health, metrics, OpenAPI ─────────────────────────────────────────────────────────────────────


def test_healthz_needs_no_token_and_says_whether_the_database_answers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.web.dashboard.metrics._FRESH_SECONDS", 0.0)
    world = World()
    stranger = TestClient(world.dashboard, base_url="http://127.0.0.1")
    assert stranger.get("/healthz").json() == {"status": "ok", "database": "answers"}
    world.switch.away = True
    away = stranger.get("/healthz")
    assert (away.status_code, away.json()["database"]) == (503, "does not answer")
    assert "db.test" not in away.text  # a stranger is not told where it is
    refused = world.get("/jobs")
    assert refused.status_code == 503
    error(refused)


def test_a_flood_of_health_checks_is_one_call_of_the_database(world: World):
    stranger = TestClient(world.dashboard, base_url="http://127.0.0.1")
    stranger.get("/healthz")
    before = world.switch.calls
    for _ in range(20):
        stranger.get("/healthz")
    assert world.switch.calls - before <= 1


def test_metrics_are_prometheus_text_and_need_the_token(world: World):
    world.failed()
    stranger = TestClient(world.dashboard, base_url="http://127.0.0.1")
    assert stranger.get("/metrics").status_code == 401
    answer = world.client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parse(answer.text)
    assert found["penstock_jobs"].samples["penstock_jobs", (("state", "failed"),)] == 1
    assert {"penstock_queue_jobs", "penstock_workers", "penstock_queue_oldest_ready_seconds"} <= set(found)


def test_the_openapi_document_names_every_path_its_errors_and_its_schemas(world: World):
    document = world.get("/openapi.json").json()
    assert set(document["paths"]) == {
        f"{PREFIX}{path}"
        for path in (
            *("/jobs", "/jobs/retry-all", "/jobs/cancel-all", "/jobs/{id}", "/jobs/{id}/log", "/jobs/{id}/events"),
            *("/jobs/{id}/cancel", "/jobs/{id}/retry", "/queues", "/queues/{name}/pause", "/queues/{name}/resume"),
            *("/jobs/{id}/events/{name}", "/workers", "/schedules", "/health"),
        )
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            if not path.endswith("/health"):
                assert {"401", "503"} <= set(operation["responses"]), (method, path)
            assert "422" not in operation["responses"] or "ErrorAnswer" in str(operation["responses"]["422"])
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= set(document["components"]["schemas"])


def fits(value: Any, schema: dict[str, Any], document: dict[str, Any], path: str = "") -> None:
    """Whether a value is what the schema says: as much of JSON Schema as the document uses."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        for one in schema["anyOf"]:
            try:
                return fits(value, one, document, path)
            except AssertionError:
                continue
        raise AssertionError(f"{path}: {value!r} is none of {schema['anyOf']}")
    kinds: dict[str, Any] = {"string": str, "integer": int, "number": int | float, "boolean": bool, "null": type(None)}
    kind = schema.get("type")
    if kind == "object":
        assert isinstance(value, dict), path
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), path
        assert not properties or set(value) <= set(properties), (path, set(value) - set(properties))
        for name, member in value.items():
            fits(member, properties.get(name, {}), document, f"{path}.{name}")
    elif kind == "array":
        for one in value:
            fits(one, schema["items"], document, f"{path}[]")
    elif kind is not None:
        assert isinstance(value, kinds[kind]), (path, value)
        assert "enum" not in schema or value in schema["enum"]
    return None


def test_every_answer_is_what_the_document_says(world: World):
    bad = world.failed()
    job = world.app.store.claim(world.app.tasks["load"].enqueue(file="a"), "w1", 30)
    assert job is not None
    world.app.store.report(job, progress=5, data={"a": [1]})
    document = world.api.openapi()
    for method, template, path, body in (
        ("post", "/jobs", "/jobs", {"task": "load", "args": {"file": "x"}}),
        ("get", "/jobs", "/jobs", None),
        ("get", "/jobs/{id}", f"/jobs/{job.id}", None),
        ("get", "/jobs/{id}", f"/jobs/{bad}", None),
        ("get", "/jobs/{id}/log", f"/jobs/{job.id}/log", None),
        ("get", "/jobs/{id}/events", f"/jobs/{job.id}/events", None),
        ("post", "/jobs/{id}/cancel", f"/jobs/{job.id}/cancel", {}),
        ("post", "/jobs/{id}/retry", f"/jobs/{bad}/retry", None),
        ("post", "/jobs/retry-all", "/jobs/retry-all", {}),
        ("post", "/jobs/cancel-all", "/jobs/cancel-all", {}),
        ("get", "/queues", "/queues", None),
        ("post", "/queues/{name}/pause", "/queues/default/pause", {"reason": "x"}),
        ("post", "/queues/{name}/resume", "/queues/default/resume", None),
        ("get", "/workers", "/workers", None),
        ("get", "/schedules", "/schedules", None),
        ("get", "/jobs/{id}", "/jobs/job_none", None),
    ):
        answer = world.client.request(method, PREFIX + path, json=body)
        described = document["paths"][PREFIX + template][method]["responses"][str(answer.status_code)]
        fits(answer.json(), described["content"]["application/json"]["schema"], document, path)
    assert {one.value for one in State} == set(document["components"]["schemas"]["State"]["enum"])


def test_an_event_reaches_its_job_once_for_its_id_and_not_after_its_end(world: World):
    job = world.app.task_named("order").enqueue()
    sent = {"data": {"by": "ada"}, "event_id": "webhook-1"}
    assert world.post(f"/jobs/{job.id}/events/approval", sent).status_code == 200
    assert world.post(f"/jobs/{job.id}/events/approval", sent).status_code == 200
    assert world.app.get(job.id).sent == 1
    assert world.post(f"/jobs/{job.id}/events/a%23b", {}).status_code == 422
    assert world.post("/jobs/job_none/events/approval", {}).status_code == 404
    world.app.cancel(job.id)
    assert world.post(f"/jobs/{job.id}/events/approval", {}).status_code == 409


@pytest.mark.parametrize("has_app", [True, False])
def test_a_webhook_cannot_be_forged(has_app: bool):
    world = World(app=has_app)
    answer = world.post("/jobs", {"task": "penstock.webhook", "args": {"event": {"job_id": "x", "state": "completed"}}})
    assert answer.status_code == 422 and "Penstock's own tasks" in answer.text
    assert not world.app.store.find(limit=10).jobs


@pytest.mark.parametrize("delay", [1e12, 1e308])
def test_a_delay_that_no_clock_reaches_is_refused(world: World, delay: float):
    answer = world.post("/jobs", {"task": "load", "args": {"file": "x"}, "delay_seconds": delay})
    assert answer.status_code == 422 and "hundred years" in answer.text


@pytest.mark.parametrize("bound", [{"since": "0001-01-01T00:00:00+23:59"}, {"until": "9999-12-31T23:59:59-23:59"}])
def test_a_time_outside_of_the_calendar_is_refused(world: World, bound: dict[str, str]):
    answers = [world.get("/jobs", **bound), world.post("/jobs/retry-all", bound), world.post("/jobs/cancel-all", bound)]
    assert [one.status_code for one in answers] == [422, 422, 422]
    assert all("years 1 to 9999" in one.text for one in answers)
