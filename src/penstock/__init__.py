"""Penstock: durable jobs on DynamoDB, and an embedded DynamoDB to run them on.

The names below are the whole front door: ten to begin with; then what is used less often; then the errors that you
catch and the options that you pass. They are loaded when first used, so that `import penstock` costs next to nothing:
boto3 alone takes a quarter of a second.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # a type checker takes it for typing's, whose import would be most of the cost of ours
if TYPE_CHECKING:
    from penstock.client.async_database import AsyncDatabase, connect_async
    from penstock.client.boto3.clients import boto3_client, boto3_resource
    from penstock.client.database import Database, connect
    from penstock.client.items.expressions import F
    from penstock.client.items.failures import (
        BatchIncomplete,
        ConditionFailed,
        TransactionConflict,
        TransactionFailed,
        VersionConflict,
    )
    from penstock.client.models.attributes import Attr, attr
    from penstock.client.models.model import item
    from penstock.errors import DatabaseLocked, DatabaseLost, DynamoDBError, PenstockError, TransportError
    from penstock.jobs.app import App
    from penstock.jobs.context import AsyncJobContext, JobContext
    from penstock.jobs.model.job import BadJob, Job, JobCancelled, JobFailed, JobNotFound, JobRequeued, RetryIn
    from penstock.jobs.model.json_text import NotJson
    from penstock.jobs.model.state import BadTransition, State
    from penstock.jobs.model.workflow import JobSuspended, WorkflowChanged
    from penstock.jobs.scheduler.cron import BadCron
    from penstock.jobs.scheduler.schedules import BadSchedule, ScheduleNotFound
    from penstock.jobs.tasks import Task
    from penstock.jobs.worker.log_context import JobLogFilter
    from penstock.jobs.worker.worker import Worker
    from penstock.leases import BadLease, LeaseLost
    from penstock.records.processor import RecordProcessor
    from penstock.retry import BadRetryPolicy, RetryPolicy
    from penstock.streams.change import Change
    from penstock.streams.errors import StreamError, StreamGap
    from penstock.tables.definitions.definition import Index, Maximum, Table, Throughput, VectorIndex
    from penstock.tables.definitions.problems import DefinitionError

__version__ = "0.2.0"

_HOMES = {
    # to begin with
    "App": "penstock.jobs.app",
    "JobContext": "penstock.jobs.context",
    "AsyncJobContext": "penstock.jobs.context",
    "Job": "penstock.jobs.model.job",
    "Worker": "penstock.jobs.worker.worker",
    "connect": "penstock.client.database",
    "F": "penstock.client.items.expressions",
    "Table": "penstock.tables.definitions.definition",
    "Index": "penstock.tables.definitions.definition",
    "RecordProcessor": "penstock.records.processor",
    # less often
    "Database": "penstock.client.database",
    "AsyncDatabase": "penstock.client.async_database",
    "connect_async": "penstock.client.async_database",
    "boto3_client": "penstock.client.boto3.clients",
    "boto3_resource": "penstock.client.boto3.clients",
    "Task": "penstock.jobs.tasks",
    "JobSuspended": "penstock.jobs.model.workflow",
    "item": "penstock.client.models.model",
    "Attr": "penstock.client.models.attributes",
    "attr": "penstock.client.models.attributes",
    "Change": "penstock.streams.change",
    "VectorIndex": "penstock.tables.definitions.definition",
    # options
    "Throughput": "penstock.tables.definitions.definition",
    "Maximum": "penstock.tables.definitions.definition",
    "RetryPolicy": "penstock.retry",
    "State": "penstock.jobs.model.state",
    "JobLogFilter": "penstock.jobs.worker.log_context",
    # errors
    "PenstockError": "penstock.errors",
    "DynamoDBError": "penstock.errors",
    "TransportError": "penstock.errors",
    "DatabaseLocked": "penstock.errors",
    "DatabaseLost": "penstock.errors",
    "ConditionFailed": "penstock.client.items.failures",
    "VersionConflict": "penstock.client.items.failures",
    "TransactionFailed": "penstock.client.items.failures",
    "TransactionConflict": "penstock.client.items.failures",
    "BatchIncomplete": "penstock.client.items.failures",
    "DefinitionError": "penstock.tables.definitions.problems",
    "JobFailed": "penstock.jobs.model.job",
    "JobNotFound": "penstock.jobs.model.job",
    "JobCancelled": "penstock.jobs.model.job",
    "JobRequeued": "penstock.jobs.model.job",
    "RetryIn": "penstock.jobs.model.job",
    "WorkflowChanged": "penstock.jobs.model.workflow",
    "LeaseLost": "penstock.leases",
    "StreamError": "penstock.streams.errors",
    "StreamGap": "penstock.streams.errors",
    "BadTransition": "penstock.jobs.model.state",
    "BadJob": "penstock.jobs.model.job",
    "NotJson": "penstock.jobs.model.json_text",
    "BadCron": "penstock.jobs.scheduler.cron",
    "BadSchedule": "penstock.jobs.scheduler.schedules",
    "ScheduleNotFound": "penstock.jobs.scheduler.schedules",
    "BadLease": "penstock.leases",
    "BadRetryPolicy": "penstock.retry",
}

__all__ = [  # noqa: RUF022 - in the order of _HOMES
    "App",
    "JobContext",
    "AsyncJobContext",
    "Job",
    "Worker",
    "connect",
    "F",
    "Table",
    "Index",
    "RecordProcessor",
    "Database",
    "AsyncDatabase",
    "connect_async",
    "boto3_client",
    "boto3_resource",
    "Task",
    "JobSuspended",
    "item",
    "Attr",
    "attr",
    "Change",
    "VectorIndex",
    "Throughput",
    "Maximum",
    "RetryPolicy",
    "State",
    "JobLogFilter",
    "PenstockError",
    "DynamoDBError",
    "TransportError",
    "DatabaseLocked",
    "DatabaseLost",
    "ConditionFailed",
    "VersionConflict",
    "TransactionFailed",
    "TransactionConflict",
    "BatchIncomplete",
    "DefinitionError",
    "JobFailed",
    "JobNotFound",
    "JobCancelled",
    "JobRequeued",
    "RetryIn",
    "WorkflowChanged",
    "LeaseLost",
    "StreamError",
    "StreamGap",
    "BadTransition",
    "BadJob",
    "NotJson",
    "BadCron",
    "BadSchedule",
    "ScheduleNotFound",
    "BadLease",
    "BadRetryPolicy",
    "__version__",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
