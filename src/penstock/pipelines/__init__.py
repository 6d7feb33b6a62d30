"""Pipelines: steps with declared inputs and outputs, under a job id, resumed where they stopped (docs/pipelines.md)."""

from __future__ import annotations

from penstock.pipelines.context import StepContext
from penstock.pipelines.errors import (
    BadPipeline,
    ItemFailure,
    ItemsFailed,
    JobIdRequired,
    PipelineHeld,
    required_job_id,
)
from penstock.pipelines.fanout import ExecutorDied
from penstock.pipelines.lineage import Lineage, Origin, lineage, outputs
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.report import PipelineReport, StepReport
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
