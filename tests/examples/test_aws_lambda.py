"""examples/aws_lambda on moto: a handler that stops in time, and is continued by the next invocation."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from example_programs import copied

import penstock

LIMIT_SECONDS = 4.0


class FakeContext:
    """What Lambda gives a handler: a clock that runs down."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return round(1_000 * (self._ends_at - time.monotonic()))


@pytest.fixture
def function(tmp_path: Path, empty_moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The handler's module, with DynamoDB at moto."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", empty_moto_url)
    monkeypatch.setenv("PENSTOCK_DB", "aws://eu-west-2")
    monkeypatch.setenv("PENSTOCK_FILES", str(tmp_path / "files"))
    monkeypatch.syspath_prepend(copied("aws_lambda", tmp_path))
    import handler

    yield handler
    handler.app.close()
    for name in ("handler", "tasks"):
        sys.modules.pop(name)


def test_the_handler_works_the_jobs_that_are_due(function: Any) -> None:
    from tasks import thumbnails

    jobs = [thumbnails.enqueue(album="spring", pictures=2) for _ in range(3)]
    later = thumbnails.options(delay=3_600).enqueue(album="winter", pictures=1)
    assert function.handle({}, FakeContext(60))["completed"] == 3
    assert [function.app.result(job.id) for job in jobs] == [2, 2, 2]
    assert function.app.get(later.id).state is penstock.State.QUEUED
    assert function.handle({}, FakeContext(60))["completed"] == 0


def test_what_is_not_done_in_time_is_continued_by_the_next_invocation(function: Any) -> None:
    from tasks import app, thumbnails

    job = thumbnails.enqueue(album="summer", pictures=200, seconds_a_picture=0.05)
    context = FakeContext(LIMIT_SECONDS)
    assert function.handle({}, context)["requeued"] == 1
    assert context.get_remaining_time_in_millis() > 0  # Lambda has not killed it
    stopped = app.get(job.id)
    scaled = app.store.load(stopped, app.store.checkpoint(job.id, "scaled").data)
    assert stopped.state is penstock.State.QUEUED and stopped.failures == 0 and 0 < scaled < 200
    following = FakeContext(LIMIT_SECONDS)
    function.handle({}, following)
    assert app.store.load(stopped, app.store.checkpoint(job.id, "scaled").data) > scaled
    numbers = [entry.progress for entry in app.store.entries(job.id)]
    assert numbers == sorted(set(numbers))  # no picture was done twice
