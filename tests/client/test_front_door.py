"""The names that `import penstock` gives, and what the import costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock

TO_BEGIN_WITH = [
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
]
LESS_OFTEN = [
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
]
OPTIONS = ["Throughput", "Maximum", "RetryPolicy", "State", "JobLogFilter"]
ERRORS = [
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
]


def test_the_root_names_are_these_ten_first_then_options_and_errors():
    assert len(TO_BEGIN_WITH) == 10
    assert penstock.__all__ == [*TO_BEGIN_WITH, *LESS_OFTEN, *OPTIONS, *ERRORS, "__version__"]
    assert [*penstock._HOMES, "__version__"] == penstock.__all__
    assert dir(penstock) == sorted(penstock.__all__)


def test_every_error_of_the_front_door_is_an_error_of_penstocks():
    assert all(issubclass(getattr(penstock, name), penstock.PenstockError) for name in ERRORS)


def test_every_root_name_is_there():
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = penstock.nothing


def imported_by(script: str, names: set[str]) -> list[str]:
    script = f"import sys; {script}; print(*sorted({names!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return found.stdout.split()


@pytest.mark.parametrize("module", ["penstock", "penstock.testing.plugin"])
def test_the_import_brings_in_neither_boto3_nor_the_engine(module):
    heavy = {"boto3", "botocore", "click", "orjson", "sqlite3", "penstock.engine", "penstock.client"}
    assert imported_by(f"import {module}", heavy) == []


def test_a_remote_database_needs_neither_the_engine_nor_boto3():
    script = "import penstock; penstock.connect('http://localhost:8000').table('jobs').put_action({'id': '1'})"
    assert imported_by(script, {"boto3", "botocore", "sqlite3", "penstock.engine"}) == []


def test_a_file_needs_no_http():
    script = "import penstock; penstock.connect().table('jobs').put_action({'id': '1'})"
    assert imported_by(script, {"boto3", "botocore", "ssl", "http.client"}) == []
