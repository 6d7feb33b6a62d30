"""Penstock: durable jobs on DynamoDB, and an embedded DynamoDB to run them on.

The names below are the whole front door. They are loaded when first used, so that `import penstock` costs
next to nothing: boto3 alone takes a quarter of a second.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # a type checker takes it for typing's, whose import would be most of the cost of ours
if TYPE_CHECKING:
    from penstock.client.async_database import AsyncDatabase, connect_async
    from penstock.client.boto3.clients import boto3_client, boto3_resource
    from penstock.client.database import Database, connect
    from penstock.client.tables.conditions import F
    from penstock.client.tables.failures import BatchIncomplete, ConditionFailed
    from penstock.errors import PenstockError
    from penstock.jobs.app import App
    from penstock.jobs.context import AsyncJobContext, JobContext
    from penstock.jobs.model.job import Job
    from penstock.records.processor import RecordProcessor
    from penstock.tables.definitions.definition import Index, Table

__version__ = "0.1.0"

__all__ = [
    "App",
    "AsyncDatabase",
    "AsyncJobContext",
    "BatchIncomplete",
    "ConditionFailed",
    "Database",
    "F",
    "Index",
    "Job",
    "JobContext",
    "PenstockError",
    "RecordProcessor",
    "Table",
    "__version__",
    "boto3_client",
    "boto3_resource",
    "connect",
    "connect_async",
]

_HOMES = {
    "App": "penstock.jobs.app",
    "AsyncDatabase": "penstock.client.async_database",
    "AsyncJobContext": "penstock.jobs.context",
    "BatchIncomplete": "penstock.client.tables.failures",
    "ConditionFailed": "penstock.client.tables.failures",
    "Database": "penstock.client.database",
    "F": "penstock.client.tables.conditions",
    "Index": "penstock.tables.definitions.definition",
    "Job": "penstock.jobs.model.job",
    "PenstockError": "penstock.errors",
    "RecordProcessor": "penstock.records.processor",
    "JobContext": "penstock.jobs.context",
    "Table": "penstock.tables.definitions.definition",
    "boto3_client": "penstock.client.boto3.clients",
    "boto3_resource": "penstock.client.boto3.clients",
    "connect": "penstock.client.database",
    "connect_async": "penstock.client.async_database",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
