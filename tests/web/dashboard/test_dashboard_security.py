"""Who may look at the dashboard, and who may change something by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from dashboard_world import World
from starlette.testclient import TestClient

from penstock.jobs.model.state import State
from penstock.web.dashboard.security import POLICY


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_a_name_that_was_made_to_lead_here_is_refused(world: World) -> None:
    assert world.get("/", headers={"host": "evil.example"}).status_code == 400
    assert world.get("/", headers={"host": "127.0.0.1:8321"}).status_code == 200


def test_a_form_of_another_site_changes_nothing(world: World) -> None:
    job = world.failed()
    world.get("/jobs")
    fields = {"verb": "retry", "seen": f"failed {job.id}"}
    foreign = world.client.post("/jobs/apply", data=fields, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert world.store.get(job.id).state is State.FAILED


@pytest.mark.parametrize("token", ["", "0" * 64, "ü"])
def test_a_form_without_the_sessions_token_changes_nothing(world: World, token: str) -> None:
    job = world.failed()
    world.get("/jobs")
    response = world.post("/jobs/apply", [("verb", "retry"), ("seen", f"failed {job.id}")], csrf=token)
    assert response.status_code == 403
    assert "load the page again" in response.text
    assert world.store.get(job.id).state is State.FAILED


def test_a_token_of_another_session_is_no_token(world: World) -> None:
    job = world.failed()
    access = world.app.state.site.access
    world.get("/jobs")
    stolen = access.form_token("another session")
    response = world.post("/jobs/apply", [("verb", "retry"), ("seen", f"failed {job.id}")], csrf=stolen)
    assert response.status_code == 403


def test_read_only_refuses_every_post_and_shows_no_buttons(tmp_path: Path) -> None:
    world = World(tmp_path, read_only=True)
    job = world.failed()
    page = world.page("/jobs")
    assert "read-only" in page
    assert 'name="verb"' not in page
    assert 'name="verb"' not in world.page(f"/jobs/{job.id}")
    for path in ("/jobs/preview", "/jobs/apply", "/anything"):
        response = world.post(path, [("verb", "retry"), ("seen", f"failed {job.id}")])
        assert response.status_code == 403
        assert "read-only" in response.text
    assert world.store.get(job.id).state is State.FAILED
    world.close()


def test_a_long_body_is_refused(world: World) -> None:
    assert world.client.post("/jobs/preview", content=b"x" * 600_000).status_code == 413
    fields = "&".join(f"job={number}" for number in range(6_000))
    assert world.client.post("/jobs/preview", content=fields).status_code == 413


def test_a_page_that_fails_tells_nothing_of_its_insides(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(world.app.state.site.overview, "current", broken)
    client = TestClient(world.app, base_url="http://localhost", raise_server_exceptions=False)
    response = client.get("/")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["content-security-policy"] == POLICY


# ── a dashboard for other machines ───────────────────────────────────────────────────────────────


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, token="open sesame", hosts=["lab.example"])
    yield found
    found.close()


def test_without_the_token_nothing_is_shown(guarded: World) -> None:
    job = guarded.made()
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/workers", "/tables"):
        response = guarded.get(path, follow_redirects=False)
        assert response.headers["location"] == ("/login" if path == "/" else f"/login?next={quote(path, safe='')}")
        assert job.id not in response.text
    assert guarded.get("/live/overview").status_code == 403
    assert guarded.client.post("/jobs/apply", data={}).status_code == 403


def test_a_browser_is_refused_by_a_page_and_a_program_by_json(guarded: World, tmp_path: Path) -> None:
    browser = {"accept": "text/html,application/xhtml+xml"}
    reader = World(tmp_path / "reader", read_only=True)
    for world, told in ((guarded, "needs its token"), (reader, "is read-only")):
        shown = world.client.post("/jobs/apply", data={}, headers=browser)
        assert shown.status_code == 403 and "<h1>" in shown.text and told in shown.text
        assert "content-security-policy" in shown.headers and world.source.place not in shown.text
        told_json = world.client.post("/jobs/apply", data={})
        assert told_json.status_code == 403 and told in told_json.json()["error"]["message"]
    reader.close()


def test_the_token_lets_in_and_is_not_kept_by_the_browser(guarded: World) -> None:
    job = guarded.made()
    wrong = guarded.get("/login?token=wrong", follow_redirects=False)
    assert wrong.status_code == 403
    right = guarded.get("/login?token=open%20sesame", follow_redirects=False)
    assert right.headers["location"] == "/"
    assert "open sesame" not in str(right.headers)
    assert "HttpOnly" in right.headers["set-cookie"] and "samesite=lax" in right.headers["set-cookie"].lower()
    assert job.id in guarded.page("/jobs")


def test_the_token_can_be_typed(guarded: World) -> None:
    page = guarded.page("/login")
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    assert guarded.post("/login", [("token", "nonsense")], csrf=csrf).status_code == 403
    guarded.post("/login", [("token", " open sesame ")], csrf=csrf)
    assert guarded.get("/jobs", follow_redirects=False).status_code == 200


def test_programs_send_the_token_as_a_bearer(guarded: World) -> None:
    assert guarded.get("/jobs", headers={"authorization": "Bearer open sesame"}).status_code == 200
    assert guarded.get("/jobs", headers={"authorization": "Bearer no"}, follow_redirects=False).status_code == 303


def test_the_names_it_was_told_of_are_known(guarded: World) -> None:
    assert guarded.get("/login", headers={"host": "lab.example:8321"}).status_code == 200


def test_a_deep_link_is_kept_over_the_login_and_leads_to_no_other_site(guarded: World) -> None:
    asked = guarded.get("/jobs?q=status%3Afailed", follow_redirects=False).headers["location"]
    page = guarded.page(asked)
    assert 'name="next" value="/jobs?q=status%3Afailed"' in page
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    fields = {"csrf": csrf, "token": "open sesame", "next": "/jobs?q=status%3Afailed"}
    signed_in = guarded.client.post("/login", data=fields, follow_redirects=False)
    assert signed_in.headers["location"] == "/jobs?q=status%3Afailed"
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example", "/login?next=/", "x"):
        there = guarded.get(f"/login?token=open%20sesame&next={quote(elsewhere)}", follow_redirects=False)
        assert there.headers["location"] == "/"


def test_who_is_signed_in_stays_so_when_the_dashboard_starts_again_with_the_same_token(guarded: World) -> None:
    job = guarded.failed()
    guarded.get("/login?token=open%20sesame&name=Zo%C3%AB")
    page = guarded.page(f"/jobs/{job.id}")
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    again = World.beside(guarded, token="open sesame")
    client = TestClient(again.app, base_url="http://localhost", cookies=guarded.client.cookies)
    assert client.get("/jobs", follow_redirects=False).status_code == 200
    assert "Zoë" in client.get("/jobs").text
    fields = {"csrf": csrf, "verb": "retry", "seen": f"failed {job.id}"}
    assert client.post("/jobs/apply", data=fields).status_code == 200
    assert guarded.store.get(job.id).state is State.QUEUED
    other = TestClient(
        World.beside(guarded, token="another").app, base_url="http://localhost", cookies=guarded.client.cookies
    )
    assert other.get("/jobs", follow_redirects=False).status_code == 303


def test_who_signs_out_is_out(guarded: World) -> None:
    guarded.get("/login?token=open%20sesame")
    assert "Sign out" in guarded.page("/jobs")
    assert guarded.post("/logout", []).url.path == "/login"
    assert guarded.get("/jobs", follow_redirects=False).status_code == 303


def test_a_forged_name_is_no_pass(guarded: World) -> None:
    guarded.get("/login?token=open%20sesame&name=Ann")
    value = guarded.client.cookies["penstock_pass"]
    forged = {"penstock_pass": value.replace("Ann", "Bob", 1)}
    client = TestClient(guarded.app, base_url="http://localhost", cookies=forged)
    assert client.get("/jobs", follow_redirects=False).status_code == 303


def test_on_all_addresses_every_address_is_known_and_no_other_name(tmp_path: Path) -> None:
    world = World(tmp_path, hosts=["0.0.0.0"])
    for host in ("192.168.1.7:8321", "[fe80::1]:8321", "127.0.0.1"):
        assert world.get("/jobs", headers={"host": host}).status_code == 200
    refused = world.get("/", headers={"host": "evil.example", "accept": "text/html"})
    assert refused.status_code == 400 and "--allow-host" in refused.text and "<html" in refused.text
    assert world.get("/", headers={"host": "evil.example"}).json()["error"]["kind"] == "bad_host"
    ours = {"host": "192.168.1.7:8321", "origin": "http://192.168.1.7:8321"}
    theirs = {**ours, "origin": "http://6.6.6.6"}
    assert "may not do this" not in world.client.post("/jobs/preview", headers=ours).text
    assert "may not do this" in world.client.post("/jobs/preview", headers=theirs).text
    world.close()
