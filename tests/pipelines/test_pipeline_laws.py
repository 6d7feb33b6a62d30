"""Whatever happened to a job before, a run that finishes gives what a fresh one would, and the next does nothing."""

from __future__ import annotations

import secrets
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_samples import words_pipeline

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.files import open_files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.store.store import JobStore

JOB = "words_1"

HAPPENINGS = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(["so much", "so much depends", "", "upon a red upon"])),
    st.tuples(st.just("top"), st.integers(0, 3)),
    st.tuples(st.just("version"), st.integers(1, 3)),
    st.tuples(st.just("fail"), st.sampled_from(["split", "measure", "choose"])),
    st.tuples(st.just("damage"), st.sampled_from(["delete", "change"])),
    st.tuples(st.just("dead"), st.just(None)),
)


class World:
    """One job, what it is given, and which version of the first step there is: 2 makes capitals."""

    def __init__(self, store: JobStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.inputs: dict[str, Any] = {"text": "so much", "top": 2}
        self.version = 1

    def happens(self, what: str, value: Any) -> None:
        if what in self.inputs:
            self.inputs[what] = value
        elif what == "version":
            self.version = value
        elif what == "fail":
            with suppress(ValueError):
                self.run(fail_in=value)
        elif what == "damage":
            self.damage(value)
        else:
            self.die()

    def run(self, fail_in: str = "") -> Any:
        sample = words_pipeline(split_version=self.version, upper=self.version == 2)
        sample.fail_in = fail_in
        return sample.pipeline.run(self.store, job_id=JOB, inputs=self.inputs)

    def damage(self, how: str) -> None:
        assert self.store.files is not None
        for file in list(self.store.files.list()):
            if how == "delete":
                self.store.files.delete(file.key)
            else:
                self.store.files.save(file.key, b"other words")

    def die(self) -> None:
        """A run that was killed right after it had claimed the job, if it could have it."""
        for job in self.store.find(limit=100).jobs:
            self.store.claim(self.store.get(job.id), "dead:1:abc", 30)
        self.clock.advance(33)

    def expected(self) -> dict[str, Any]:
        words = self.inputs["text"].upper().split() if self.version == 2 else self.inputs["text"].split()
        lengths = {word: len(word) for word in words}
        longest = sorted(lengths, key=lambda word: -lengths[word])[: self.inputs["top"]]
        return {"lengths": lengths, "longest": longest, "total": sum(lengths.values()), "words": "\n".join(words)}


@settings(max_examples=40)
@given(st.lists(st.lists(HAPPENINGS, max_size=3), min_size=1, max_size=4))
def test_a_run_gives_what_a_fresh_one_would(chapters: list[list[tuple[str, Any]]]) -> None:
    clock = ManualClock(1_900_000_000.0)
    with connect(":memory:") as db, TemporaryDirectory() as folder:
        store = JobStore(
            db, CollectionLayout(f"jobs-{secrets.token_hex(4)}", shards=2), files=open_files(folder), clock=clock
        )
        store.create_tables()
        world = World(store, clock)
        for happenings in chapters:
            for what, value in happenings:
                world.happens(what, value)
            report = world.run()
            outputs = {**report.outputs, "words": report["words"].read().decode()}
            assert outputs == world.expected()
            assert world.run().ran == ()
