"""`penstock schedules` from the outside: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.jobs.app import load_app
from penstock.jobs.worker.worker import Worker

APP = """
import penstock

app = penstock.App("jobs.db")

@app.task(cron="@daily")
def nightly() -> None: ...

@app.task(queue="slow")
def report(project: str) -> None: ...
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["schedules", *words], catch_exceptions=False)


def result(*words: str) -> Any:
    found = run(*words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The app, which a worker has signed on for; in a module of its own for each test."""
    module = f"scheduled_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{module}.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PENSTOCK_DB", "jobs.db")
    app = load_app(f"{module}:app")
    worker = Worker(app)
    worker._heartbeat.sign_on()
    worker._heartbeat.scheduler.enqueue_due()
    app.close()
    return f"{module}:app"


def test_a_schedule_is_created_shown_changed_paused_resumed_run_and_deleted(place: str) -> None:
    made = result("create", "acme", "report", "--every", "15m", "--args", '{"project": "acme"}', "--app", place)
    assert (made["cron"], made["has_worker"], made["declared"]) == ("@every 900s", True, False)
    changed = result("change", "acme", "--cron", "0 7 * * *", "--timezone", "Europe/Paris", "--overlap")
    assert (changed["cron"], changed["timezone"], changed["overlap"]) == ("0 7 * * *", "Europe/Paris", True)
    assert (changed["args"], result("show", "acme")) == ({"project": "acme"}, changed)
    assert result("pause", "acme")["next_at"] is None
    assert "paused" in run("list").stdout
    assert result("resume", "acme")["next_at"] is not None
    ran = result("run", "acme")
    assert ran["is_new"]
    job = json.loads(CliRunner().invoke(cli, ["jobs", "show", ran["job"], "--json"]).stdout)
    assert (job["schedule"], job["queue"]) == ("acme", "slow")
    assert result("delete", "acme", "--yes") == {"schedule": "acme", "deleted": True}
    assert [one["name"] for one in result("list")["schedules"]] == ["nightly"]


def test_the_list_says_what_is_in_the_code_and_what_no_worker_has() -> None:
    assert "No live worker has the task nobody now." in run("create", "typo", "nobody", "--cron", "@hourly").stdout
    nightly, typo = sorted(run("list").stdout.splitlines()[:2])  # the one that is next comes first, by the time of day
    assert typo.startswith("typo") and typo.endswith("no worker has its task")
    assert nightly.startswith("nightly") and nightly.endswith("in code")
    assert "@daily (UTC)" in run("show", "nightly").stdout


def test_pages_of_the_list_are_continued_by_a_token() -> None:
    run("create", "first", "report", "--cron", "@hourly", "--args", '{"project": "a"}')
    page = result("list", "--limit", "1")
    assert [one["name"] for one in page["schedules"]] == ["first"]
    rest = result("list", "--limit", "1", "--token", page["token"])
    assert ([one["name"] for one in rest["schedules"]], rest["token"]) == (["nightly"], None)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nope"), 4, "There is no schedule 'nope'"),
        (("delete", "nightly", "--yes"), 1, "declared in the code"),
        (("change", "nightly", "--cron", "@hourly"), 1, "declared in the code"),
        (("delete", "nightly"), 2, "Give --yes"),
        (("create", "a", "report", "--cron", "61 * * * *"), 1, "'61' (minute)"),
        (("create", "a", "report"), 1, "has a cron, such as"),
        (("create", "a", "report", "--every", "often"), 2, "90s, 15m, 6h or 2d"),
        (("create", "a", "report", "--every", "1h", "--cron", "@daily"), 2, "not both"),
        (("create", "a", "report", "--cron", "@daily", "--args", "[1]"), 2, "a JSON object"),
        (("create", "a", "report", "--cron", "@daily", "--args", "{"), 2, "no JSON"),
        (("create", "a", "report", "--cron", "@daily", "--app", "APP"), 1, "missing a required argument: 'project'"),
        (("create", "a", "nobody", "--cron", "@daily", "--app", "APP"), 2, "it has nightly, report"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(place: str, words: tuple[str, ...], code: int, said: str) -> None:
    found = run(*(place if word == "APP" else word for word in words))
    assert (found.exit_code, said in found.output) == (code, True), found.output
    assert [one["name"] for one in result("list")["schedules"]] == ["nightly"]
