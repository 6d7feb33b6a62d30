"""What a task logs is in its job's log, if it asks for that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock.jobs import log_capture
from penstock.jobs.context import Attempt
from penstock.jobs.log_capture import CAPTURE, CaptureHandler, LogCapture
from penstock.jobs.model.job import BadJob
from penstock.jobs.model.json_text import from_json

LOG = logging.getLogger("shop.tests")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, level, handlers = logging.root, logging.root.level, list(logging.root.handlers)
    levels = [handler.level for handler in handlers]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    for handler, one in zip(handlers, levels, strict=True):
        handler.setLevel(one)


@pytest.fixture
def app() -> Iterator[penstock.App]:
    with penstock.App(":memory:") as app:
        yield app


def lines(app: penstock.App, job: penstock.Job) -> list[str]:
    found: list[Any] = [from_json(entry.data) for entry in app.jobs.log(job.id) if entry.data]
    return [f"{line['level']} {line['message']}" for data in found for line in data.get("log", ())]


def test_lines_from_the_level_on_are_in_the_log_in_order_with_the_reports(app: penstock.App):
    @app.task(capture_logs="INFO")
    def load(ctx: penstock.JobContext) -> None:
        LOG.info("one")
        LOG.debug("not this")
        ctx.progress(50)
        LOG.info("two")
        LOG.warning("three")

    job = load.enqueue()
    assert penstock.Worker(app, burst=True).run().completed == 1
    assert lines(app, job) == ["INFO one", "INFO two", "WARNING three"]
    entries = app.jobs.log(job.id)
    assert [(one.progress, one.message) for one in entries] == [
        (None, "INFO one"),
        (50.0, ""),
        (None, "INFO two (and 1 more)"),
    ]


def test_an_async_task_and_one_that_fails_lose_no_line(app: penstock.App):
    @app.task(capture_logs="INFO")
    async def load(ctx: penstock.AsyncJobContext) -> None:
        LOG.info("one")
        await ctx.progress(50)
        LOG.info("two")

    @app.task(capture_logs=logging.WARNING)
    def fail() -> None:
        LOG.info("not this")
        try:
            raise KeyError("x")
        except KeyError:
            LOG.exception("the last words")
        raise ValueError("no")

    one, two = load.enqueue(), fail.enqueue()
    counts = penstock.Worker(app, burst=True).run()
    assert (counts.completed, counts.failed) == (1, 1)
    assert lines(app, one) == ["INFO one", "INFO two"]
    (line,) = lines(app, two)
    assert line.startswith("ERROR the last words\nTraceback") and line.endswith("KeyError: 'x'")


def test_two_tasks_at_once_do_not_get_each_others_lines(app: penstock.App):
    @app.task(capture_logs="INFO")
    def load(name: str) -> None:
        for number in range(20):
            LOG.info("%s %s", name, number)

    @app.task()
    def silent() -> None:
        LOG.warning("nobody asked")

    jobs = {name: load.enqueue(name=name) for name in "abcd"}
    other = silent.enqueue()
    penstock.Worker(app, burst=True, concurrency=4).run()
    for name, job in jobs.items():
        assert lines(app, job) == [f"INFO {name} {number}" for number in range(20)]
    assert app.jobs.log(other.id) == []


def test_the_lines_of_an_attempt_have_a_limit(app: penstock.App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_capture, "MOST_LINES", 5)
    monkeypatch.setattr(log_capture, "LINE_CHARACTERS", 50)

    @app.task(capture_logs="INFO")
    def load() -> None:
        for _ in range(10):
            LOG.info("x" * 1000)

    job = load.enqueue()
    penstock.Worker(app, burst=True).run()
    found = lines(app, job)
    assert len(found) == 6 and "not kept" in found[-1]
    assert all(len(line) < 120 for line in found)


def test_a_job_with_very_many_entries_keeps_no_more():
    capture = LogCapture(logging.INFO, log_capture.MOST_ENTRIES)
    for _ in range(3):
        capture.add(logging.LogRecord("shop", logging.INFO, "", 0, "x", None, None))
    assert [line["logger"] for line in capture.next_entry()["data"]["log"]] == ["penstock"]


def test_lines_are_written_together_and_those_of_a_long_task_with_the_renewal_of_its_lease(app: penstock.App):
    app.task_named("load").enqueue()
    (queued,) = app.jobs.find()
    job = app.store.claim(queued, "w1", 30)
    assert job is not None
    attempt = Attempt(app.store, job)
    attempt.captured = LogCapture(logging.INFO)
    for number in range(250):
        attempt.captured.add(logging.LogRecord("shop", logging.INFO, "", 0, f"line {number}", None, None))
    version = attempt.job.version
    Attempt.renew_together([attempt])
    assert attempt.job.version == version  # left to `renew`, which writes the lines
    assert attempt.renew()
    assert attempt.job.version == version + 1 and app.get(job.id).lease is not None
    attempt.finish(lambda held: app.store.complete(held, None))
    assert lines(app, job) == [f"INFO line {number}" for number in range(250)]
    assert len(app.jobs.log(job.id)) == 3
    assert not attempt.captured


def test_the_lease_of_a_job_that_is_to_be_cancelled_is_renewed_without_the_lines(app: penstock.App):
    app.task_named("load").enqueue()
    (queued,) = app.jobs.find()
    job = app.store.claim(queued, "w1", 30)
    assert job is not None
    attempt = Attempt(app.store, job)
    attempt.captured = LogCapture(logging.INFO)
    attempt.captured.add(logging.LogRecord("shop", logging.INFO, "", 0, "line", None, None))
    app.cancel(job.id, "twice")
    for _ in range(2):
        version = attempt.job.version
        assert attempt.renew()
        assert attempt.job.version > version and attempt.job.cancel_reason == "twice"
    Attempt.renew_together([attempt])
    assert attempt.job.version == version + 2
    assert attempt.captured


def test_lines_of_wide_characters_are_split_among_entries_and_none_is_shortened(app: penstock.App):
    @app.task(capture_logs="INFO")
    def load() -> None:
        for number in range(90):
            LOG.info("%02d" + "\N{CRAB}" * 1_900, number)

    job = load.enqueue()
    penstock.Worker(app, burst=True).run()
    assert [line[5:7] for line in lines(app, job)] == [f"{number:02d}" for number in range(90)]
    assert len(app.jobs.log(job.id)) > 1


def test_a_message_that_does_not_fit_its_arguments_ends_no_task():
    capture = LogCapture(logging.INFO)
    capture.add(logging.LogRecord("shop", logging.INFO, "", 0, "%d rows", ("many",), None))
    assert capture.next_entry()["message"] == "INFO %d rows"


def test_our_own_records_are_not_captured():
    token = CAPTURE.set(LogCapture(logging.DEBUG))
    try:
        for name in ("penstock", "penstock.jobs", "penstocks"):
            CaptureHandler().emit(logging.LogRecord(name, logging.ERROR, "", 0, name, None, None))
        capture = CAPTURE.get()
        assert capture is not None
        assert [line["message"] for line in capture.next_entry()["data"]["log"]] == ["penstocks"]
    finally:
        CAPTURE.reset(token)


def test_capturing_prints_no_more_than_before(capsys: pytest.CaptureFixture[str]):
    root = logging.root
    printed: list[str] = []

    class Printing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            printed.append(record.getMessage())

    root.handlers[:] = [Printing()]
    root.setLevel(logging.WARNING)
    log_capture.install(logging.INFO)
    log_capture.install(logging.INFO)
    LOG.info("quiet")
    LOG.warning("loud")
    assert printed == ["loud"]
    assert sum(isinstance(one, CaptureHandler) for one in root.handlers) == 1


@pytest.mark.parametrize("level", ["LOUD", True, -1, 1.5])
def test_a_level_that_is_none_is_refused(app: penstock.App, level: Any):
    with pytest.raises(BadJob, match="capture_logs"):
        app.task(capture_logs=level)(lambda: None)


class _Logs:
    def __str__(self) -> str:
        LOG.warning("inner %s", "line")
        return "outer"


class _LogsItself:
    def __str__(self) -> str:
        LOG.info("again %s", self)
        return "once"


class _Raises:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_what_logs_raises_or_recurses_while_its_text_is_made_hangs_and_ends_nothing(app: penstock.App):
    @app.task(capture_logs="INFO")
    def load() -> None:
        LOG.info("%s", _Logs())
        LOG.info("%s", _LogsItself())
        LOG.info(_Raises())
        logging.addLevelName(37, "L" * 100_000)
        LOG.log(37, "odd level")
        LOG.info("the end")

    def run() -> None:
        assert penstock.Worker(app, burst=True).run().completed == 1

    job = load.enqueue()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "the worker hangs"
    *found, odd, end = lines(app, job)
    note = "WARNING A line of shop.tests cannot be kept: RuntimeError while its text was made."
    assert found == ["INFO outer", "INFO once", note]
    assert odd.endswith("odd level") and len(odd) < 100
    assert end == "INFO the end"
