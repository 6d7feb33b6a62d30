"""Pipelines that tests run, and what they count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from penstock.pipelines import Pipeline, PipelineFile, StepContext


@dataclass
class Sample:
    """A pipeline text → words (a file) → lengths → longest, and a note of every call."""

    pipeline: Pipeline
    calls: Counter[str] = field(default_factory=Counter)
    fail_in: str = ""

    def called(self, step: str) -> None:
        self.calls[step] += 1
        if self.fail_in == step:
            raise ValueError(f"{step} cannot")


def words_pipeline(*, split_version: int = 1, upper: bool = False) -> Sample:
    pipeline = Pipeline("words", inputs=("text",), parameters={"top": 2}, job_id_variable="WORDS_JOB_ID")
    sample = Sample(pipeline)

    @pipeline.step(inputs=("text",), outputs=("words",), version=split_version)
    def split(context: StepContext, text: str) -> PipelineFile:
        sample.called("split")
        words = "\n".join(text.split())
        return context.save("words.txt", (words.upper() if upper else words).encode())

    @pipeline.step(inputs=("words",), outputs=("lengths",))
    def measure(context: StepContext, words: PipelineFile) -> dict[str, int]:
        sample.called("measure")
        return {word: len(word) for word in words.read().decode().splitlines()}

    @pipeline.step(inputs=("lengths", "top"), outputs=("longest", "total"))
    def choose(context: StepContext, lengths: dict[str, int], top: int) -> dict[str, Any]:
        sample.called("choose")
        return {"longest": sorted(lengths, key=lambda word: -lengths[word])[:top], "total": sum(lengths.values())}

    return sample
