"""Fields that a task declares secret are on no screen (secret_fields.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.main import cli
from penstock.jobs.model.job import NewJob
from penstock.jobs.model.secret_fields import mask_arguments, mask_result

SECRET = "hunter2"


@dataclass
class Card:
    number: str
    owner: str


@dataclass
class Order:
    cards: list[Card]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[penstock.App]:
    app = penstock.App(tmp_path / "x.db")

    @app.task(secret=("token", "order.cards.number", "return.key"))
    def pay(order: Order, token: str = "", note: str = "") -> dict[str, str]:
        return {"key": token, "note": note}

    yield app
    app.close()


@pytest.fixture
def job(app: penstock.App) -> penstock.Job:
    order = Order([Card(SECRET, "ada"), Card(SECRET, "bob")])
    job = app.tasks["pay"].enqueue(order=order, token=SECRET, note="open")
    penstock.Worker(app, burst=True, concurrency=1).run()
    assert app.result(job.id) == {"key": SECRET, "note": "open"}
    return app.get(job.id)


@pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["list", "--json"]])
def test_commands_mask_them(command: list[str], job: penstock.Job, tmp_path: Path) -> None:
    arguments = [*command, job.id] if command[0] == "show" else command
    shown = CliRunner().invoke(cli, ["jobs", *arguments, "--db", str(tmp_path / "x.db")])
    assert shown.exit_code == 0
    assert SECRET not in shown.output
    if command[0] == "show":
        assert "***" in shown.output and "ada" in shown.output and "open" in shown.output


def test_the_report_masks_them(job: penstock.Job, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    CliRunner().invoke(cli, ["jobs", "report", job.id, "--db", str(tmp_path / "x.db"), "--out", str(page)])
    assert SECRET not in page.read_text()
    assert "ada" in page.read_text()


def test_the_dashboard_masks_them_and_a_search_does_not_find_them(app: penstock.App, job: penstock.Job) -> None:
    pytest.importorskip("starlette")
    from penstock.web.dashboard.job_list import Filter
    from penstock.web.dashboard.pages.job import _value

    assert job.result is not None
    assert SECRET not in _value(app.store, job, job.args) + _value(app.store, job, job.result)
    assert not Filter(words=(SECRET,)).has_words(job)


def test_what_python_shows_of_a_job_does_not_hold_its_arguments(job: penstock.Job) -> None:
    assert SECRET not in repr(job)


def test_a_job_that_cannot_be_called_does_not_tell_them(app: penstock.App) -> None:
    job = app.enqueue_new(NewJob("pay", {"token": SECRET, "order": {"cards": []}, "other": 1}, secret=("token",)))
    penstock.Worker(app, burst=True, concurrency=1).run()
    error = app.get(job.id).error
    assert error is not None and error.kind == "BadArguments"
    assert SECRET not in error.message + error.trace


def test_the_paths_are_stored_with_the_job(app: penstock.App, job: penstock.Job) -> None:
    assert job.secret == ("token", "order.cards.number", "return.key")
    assert app.store.load(job, job.args)["token"] == SECRET


@pytest.mark.parametrize(
    ("value", "paths", "masked"),
    [
        ({"a": 1, "b": 2}, ["a"], {"a": "***", "b": 2}),
        ({"a": None}, ["a"], {"a": None}),
        ({"a": [{"x": 1}, {"y": 1}]}, ["a.x"], {"a": [{"x": "***"}, {"y": 1}]}),
        ({"a": 7}, ["a.x"], {"a": 7}),
        ({"return": 1}, ["return"], {"return": 1}),
    ],
)
def test_arguments_are_masked_by_path(value: Any, paths: list[str], masked: Any) -> None:
    assert mask_arguments(value, paths) == masked


def test_a_result_is_masked_whole_or_in_part() -> None:
    assert mask_result("x", ["return"]) == "***"
    assert mask_result({"a": {"b": 1}, "c": 2}, ["return.a.b", "c"]) == {"a": {"b": "***"}, "c": 2}


@pytest.mark.parametrize(
    ("secret", "reason"),
    [(("tokn",), "has no parameter 'tokn'"), ("token", "is a list of names"), (("a..b",), "such as order.card")],
)
def test_a_path_to_nothing_is_refused_early(secret: Any, reason: str) -> None:
    app = penstock.App(":memory:")
    with pytest.raises(penstock.BadJob, match=reason):

        @app.task(secret=secret)
        def pay(token: str, a: Any = None) -> None: ...
