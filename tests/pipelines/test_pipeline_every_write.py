"""A run that dies at any of its calls to the database, before or after it was answered: the next one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pipeline_samples import words_pipeline

from penstock.client.database import Database, connect
from penstock.client.transports.base import Transport
from penstock.clock import ManualClock
from penstock.files import open_files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.store.store import JobStore

JOB = "words_1"
TEXT = {"text": "so much depends upon"}


class Death(BaseException):
    """From here on the process does not exist."""


class Mortal:
    """A transport that dies at its nth call: nothing goes through it any more."""

    def __init__(self, inner: Transport, dies_at: int, *, after: bool) -> None:
        self.inner = inner
        self.name = inner.name
        self.calls = 0
        self._dies_at = dies_at
        self._after = after

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        if self.calls > self._dies_at or (self.calls == self._dies_at and not self._after):
            raise Death
        answer = self.inner.execute(operation, request)
        if self.calls == self._dies_at:
            raise Death
        return answer

    def close(self) -> None:
        self.inner.close()


def store_on(transport: Transport, clock: ManualClock, folder: Path) -> JobStore:
    return JobStore(
        Database(transport), CollectionLayout("jobs", shards=2), files=open_files(folder / "files"), clock=clock
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_run_that_dies_at_any_call_is_gone_on_with(tmp_path: Path, after: bool) -> None:
    """Each step runs once, but for the one in whose call it died; a third run has nothing to do."""
    dies_at = 0
    survived = False
    while not survived:
        dies_at += 1
        folder = tmp_path / str(dies_at)
        clock = ManualClock(1_900_000_000.0)
        with connect(":memory:") as db:
            store = store_on(db.transport, clock, folder)
            store.create_tables()
            sample = words_pipeline()
            mortal = Mortal(db.transport, dies_at, after=after)
            try:
                sample.pipeline.run(store_on(mortal, clock, folder), job_id=JOB, inputs=TEXT)
                survived = True
            except Death:
                pass
            clock.advance(33)
            report = sample.pipeline.run(store, job_id=JOB, inputs=TEXT)
            assert report["longest"] == ["depends", "much"]
            assert report["words"].read() == b"so\nmuch\ndepends\nupon"
            assert sum(sample.calls.values()) <= 4, dies_at
            assert max(sample.calls.values()) <= 2, dies_at
            assert sample.pipeline.run(store, job_id=JOB).ran == ()
    assert dies_at > 15
