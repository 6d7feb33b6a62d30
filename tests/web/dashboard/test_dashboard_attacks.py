"""Ways around the dashboard's token and form tokens, and into its streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World

from penstock import __version__
from penstock.jobs.model.state import State


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, token="open sesame", url=str(tmp_path / "secret-name.db"))
    yield found
    found.close()


@pytest.mark.parametrize(
    "path",
    [
        "/login/../jobs",
        "/login/%2e%2e/jobs",
        "/login;/jobs",
        "/loginjobs",
        "/static/../jobs",
        "/static/%2e%2e/jobs",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/guard.py",
        "//jobs",
        "/JOBS",
        "/jobs?token=open%20sesame",
        "/live/job?key=x",
        "/login",
        "/login?token=",
        "/login?token=open%20sesam",
    ],
)
def test_no_address_leads_past_the_token(guarded: World, path: str) -> None:
    job = guarded.made()
    response = guarded.client.get(path, follow_redirects=False)
    assert response.status_code in (200, 303, 403, 404)
    assert response.headers.get("location", "/login").partition("?")[0] == "/login"
    for untold in (job.id, "secret-name", __version__, "class Guard"):
        assert untold not in response.text


@pytest.mark.parametrize(
    "bearer", ["", "Bearer ", "Bearer", "Bearer open sesam", "open sesame x", "Basic b3BlbiBzZXNhbWU=", "é"]
)
def test_nothing_but_the_token_is_the_token(guarded: World, bearer: str) -> None:
    headers = {"authorization": bearer.encode("latin-1")}
    assert guarded.client.get("/live/overview", headers=headers).status_code == 403
    for name in ("penstock_pass", "penstock_session"):
        guarded.client.cookies.set(name, "0" * 64)
    assert guarded.client.get("/live/overview").status_code == 403


def test_a_stream_is_not_for_a_name_that_leads_here(world: World) -> None:
    assert world.get("/live/overview", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("origin", ["null", "https://evil.example", "http://localhost.evil.example", "file://", ""])
def test_not_even_a_right_form_is_taken_from_another_origin(world: World, origin: str) -> None:
    job = world.failed()
    csrf = world.page("/jobs").split('name="csrf" value="')[1].split('"')[0]
    fields = {"verb": "retry", "seen": f"failed {job.id}", "csrf": csrf}
    assert world.client.post("/jobs/apply", data=fields, headers={"origin": origin}).status_code == 403
    assert world.store.get(job.id).state is State.FAILED


def test_a_session_that_somebody_else_chose_gives_no_form_away(world: World) -> None:
    """A cookie set by another program of this machine: its form token is not to be had without reading a page."""
    world.client.cookies.set("penstock_session", "chosen")
    job = world.failed()
    fields = {"verb": "retry", "seen": f"failed {job.id}", "csrf": "chosen"}
    assert world.client.post("/jobs/apply", data=fields).status_code == 403


@pytest.mark.parametrize("query", ["upto=" + "9" * 5000, "upto=-1", "upto=%C2%B2", "before=%00&after=%00"])
def test_odd_numbers_in_an_address_are_no_failure_of_ours(world: World, query: str) -> None:
    job = world.running()
    assert world.client.get(f"/jobs/{job.id}?{query}").status_code == 200


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "%00", "..%5c..%5cboot.ini", "C:%5cboot.ini"]
)
def test_only_files_of_the_job_are_downloaded(world: World, name: str) -> None:
    job = world.running()
    assert world.client.get(f"/jobs/{job.id}/files/{name}").status_code == 404


def test_pages_are_kept_nowhere(world: World) -> None:
    job = world.running()
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/nothing"):
        assert world.client.get(path).headers["cache-control"] == "no-store"
