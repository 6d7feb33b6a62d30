"""examples/fastapi_service, and the blocks about it in docs/in-your-program.md: requests, streams, a real browser."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_programs import PATIENCE_SECONDS, answers, copied, free_port, started, wait_for

import penstock

pytest.importorskip("fastapi.sse", reason="FastAPI is not installed, or older than 0.135: pip install 'penstock[web]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied("fastapi_service", tmp_path)


@pytest.fixture
def module(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The service's module, with a worker in the process."""
    monkeypatch.setenv("PENSTOCK_DB", str(tmp_path / "jobs.db"))
    monkeypatch.setenv("SERVICE_WORKER", "1")
    monkeypatch.delenv("PENSTOCK_FILES", raising=False)
    monkeypatch.syspath_prepend(folder)
    import service

    yield service
    service.jobs.close()
    for name in ("service", "tasks"):
        sys.modules.pop(name)


@pytest.fixture
def client(module: Any) -> Iterator[Any]:
    from fastapi.testclient import TestClient

    with TestClient(module.service) as client:
        yield client


def events_of(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Kind, id and data of each event of a stream."""
    found = []
    for part in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], fields.get("id", ""), json.loads(fields["data"])))
    return found


def make_report(client: Any, pages: int = 5) -> str:
    answer = client.post("/jobs", json={"project": "bodwassho", "pages": pages})
    assert answer.status_code == 202
    job_id: str = answer.json()["id"]
    return job_id


def test_a_report_is_made_followed_and_downloaded(client: Any) -> None:
    job_id = make_report(client)
    events = events_of(client.get(f"/jobs/{job_id}/events").text)
    assert [int(number) for kind, number, _ in events if kind == "progress"] == list(range(1, len(events)))
    percents = [data["progress"] for kind, _, data in events if kind == "progress" and data["progress"] is not None]
    assert percents == [20, 40, 60, 80, 100]
    kind, _, end = events[-1]
    assert (kind, end["state"], end["result"], end["files"]) == ("end", "completed", {"pages": 5}, ["report.csv"])
    file = client.get(f"/jobs/{job_id}/files/report.csv")
    assert file.text.splitlines() == ["project,page", *(f"bodwassho,{number}" for number in range(1, 6))]
    assert file.headers["content-disposition"] == "attachment"
    assert client.get(f"/jobs/{job_id}/files/other.csv").status_code == 404
    assert client.get(f"/jobs/{job_id}").json()["state"] == "completed"


def test_a_browser_that_reconnects_gets_what_it_has_not_seen(client: Any) -> None:
    job_id = make_report(client)
    everything = events_of(client.get(f"/jobs/{job_id}/events").text)
    rest = events_of(client.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": "4"}).text)
    assert rest == everything[4:]


def test_a_job_is_cancelled_and_cannot_be_cancelled_twice(client: Any) -> None:
    job_id = make_report(client, pages=500)
    assert client.post(f"/jobs/{job_id}/cancel").status_code == 200
    assert events_of(client.get(f"/jobs/{job_id}/events").text)[-1][2]["state"] == "cancelled"
    again = client.post(f"/jobs/{job_id}/cancel")
    assert again.status_code == 409 and "cancelled" in again.json()["detail"]


def test_nobody_sees_the_job_of_another_user(client: Any, module: Any) -> None:
    job_id = make_report(client)
    module.service.dependency_overrides[module.current_user] = lambda: "mallory"
    for method, path in (("GET", ""), ("GET", "/events"), ("GET", "/files/report.csv"), ("POST", "/cancel")):
        assert client.request(method, f"/jobs/{job_id}{path}").status_code == 404
    module.service.dependency_overrides.clear()
    assert client.get(f"/jobs/{job_id}").status_code == 200


def test_what_no_report_can_be_made_of_is_refused_before_a_job_is_made(client: Any, module: Any) -> None:
    for wrong in ({"project": ""}, {"project": "x", "pages": 501}, {"pages": 3}):
        assert client.post("/jobs", json=wrong).status_code == 422
    assert module.jobs.store.find().jobs == ()


def test_every_page_forbids_inline_scripts(client: Any) -> None:
    page = client.get("/")
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert "<script>" not in page.text and "style=" not in page.text and "onclick" not in page.text


def test_a_service_that_stops_requeues_its_worker_s_jobs(module: Any) -> None:
    from fastapi.testclient import TestClient

    with TestClient(module.service) as client:
        job_id = make_report(client, pages=500)
        wait_for(lambda: bool(module.jobs.get(job_id).progress))
    job = module.jobs.get(job_id)  # the app opens its database again
    assert job.state is penstock.State.QUEUED
    assert "the web server stops" in str(job.events)


# ── in a browser ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def url(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service and its worker, in processes of their own, as the README starts them."""
    folder = copied("fastapi_service", tmp_path_factory.mktemp("service"))
    port = str(free_port())
    serve = ("-m", "uvicorn", "service:service", "--port", port, "--log-level", "warning")
    with (
        started(folder, "-m", "penstock", "worker", "tasks:jobs", "--quiet", PENSTOCK_DB="jobs.db"),
        started(folder, *serve, "--timeout-graceful-shutdown", "1", PENSTOCK_DB="jobs.db"),
    ):
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/"))
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that remembers what went wrong in it."""
    found = browser.new_page(viewport={"width": 900, "height": 500})
    found.set_default_timeout(1_000 * PATIENCE_SECONDS)
    found.errors = []
    found.on("pageerror", lambda error: found.errors.append(str(error)))
    found.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
    yield found
    found.close()


def shown_percent(page: Any) -> float:
    percent: float = page.eval_on_selector("#jobs progress", "bar => bar.value")
    return percent


def test_the_browser_shows_the_progress_live_and_the_file_at_the_end(page: Any, url: str, tmp_path: Path) -> None:
    page.goto(url)
    page.fill("[name=project]", "<b>bodwassho</b>")
    page.click("text=Make a report")
    page.wait_for_selector("#jobs progress")
    wait_for(lambda: shown_percent(page) > 20)
    assert shown_percent(page) < 100
    page.screenshot(path=tmp_path / "running.png")
    page.wait_for_selector("#jobs .file:visible")
    assert page.text_content("#jobs .state") == "completed"
    assert page.text_content("#jobs .percent") == "100 %"
    with page.expect_download() as download:
        page.click("#jobs .file")
    assert Path(download.value.path()).read_text().splitlines()[1] == "<b>bodwassho</b>,1"
    assert page.errors == []


def test_the_browser_s_button_cancels_a_job(page: Any, url: str) -> None:
    page.goto(url)
    page.fill("[name=pages]", "500")
    page.click("text=Make a report")
    page.wait_for_selector("#jobs progress")
    wait_for(lambda: shown_percent(page) > 0)
    page.click("#jobs .cancel")
    wait_for(lambda: page.text_content("#jobs .state") == "cancelled")
    assert page.errors == []
