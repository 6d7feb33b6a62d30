"""Pipelines: steps with declared inputs and outputs, under a job id, resumed where they stopped (docs/pipelines.md).

pipeline.py    Pipeline: its steps, and a run of it
definition.py  steps, and how they fit together
rounds.py      the job in the store: who runs it, what it has written down
execution.py   the inputs, the steps run or reused, the report
context.py     what a step is given beside its inputs
fanout.py      a step's function on many items
values.py      inputs and outputs: values, files, their hashes
lineage.py     what was made from what
"""

from __future__ import annotations

from penstock.pipelines.context import StepContext
from penstock.pipelines.definition import (
    BadPipeline,
    ItemFailure,
    ItemsFailed,
    JobIdRequired,
    PipelineHeld,
    required_job_id,
)
from penstock.pipelines.execution import PipelineReport, StepReport
from penstock.pipelines.fanout import ExecutorDied
from penstock.pipelines.lineage import Lineage, Origin, lineage, outputs
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.values import PipelineFile

__all__ = [
    "BadPipeline",
    "ExecutorDied",
    "ItemFailure",
    "ItemsFailed",
    "JobIdRequired",
    "Lineage",
    "Origin",
    "Pipeline",
    "PipelineFile",
    "PipelineHeld",
    "PipelineReport",
    "StepContext",
    "StepReport",
    "lineage",
    "outputs",
    "required_job_id",
]
