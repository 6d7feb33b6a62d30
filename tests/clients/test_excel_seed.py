"""The commands and reads that the table of Excel report jobs was first described with, against the server (S0.7, S0.9).

The AWS CLI deletes, makes and configures it; boto3 scans it as the description does; and both see what `penstock
excel` and the store have written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cli import Aws

from penstock.client.database import Database, connect
from penstock.systems.excel_reports.store import ReportJobs

pytestmark = pytest.mark.clients

TABLE = "excel-report-jobs"
REGION = ("--region", "us-west-2")


@pytest.fixture
def aws(server: str, client_environment: dict[str, str]) -> Aws:
    return Aws(server, client_environment)


@pytest.fixture
def table(aws: Aws) -> Iterator[str]:
    """Made as the description makes it."""
    aws(
        *("create-table", "--table-name", TABLE, "--attribute-definitions", "AttributeName=recordId,AttributeType=S"),
        *("--key-schema", "AttributeName=recordId,KeyType=HASH", "--billing-mode", "PAY_PER_REQUEST", *REGION),
    )
    aws("wait", "table-exists", "--table-name", TABLE, *REGION)
    yield TABLE
    aws("delete-table", "--table-name", TABLE, *REGION)
    aws("wait", "table-not-exists", "--table-name", TABLE, *REGION)


@pytest.fixture
def db(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with connect(server) as found:
        yield found


def test_S0_7_delete_create_and_enable_ttl_as_the_description_types_them(aws: Aws, table: str, db: Database) -> None:
    aws(
        *("update-time-to-live", "--table-name", table),
        *("--time-to-live-specification", "Enabled=true,AttributeName=ttl", *REGION),
    )
    told = aws("describe-time-to-live", "--table-name", table, *REGION)["TimeToLiveDescription"]
    assert told == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    ReportJobs(db, layout="compat").create_table()  # it is as it should be: nothing is to do
    assert "ResourceNotFoundException" in aws.refusal("delete-table", "--table-name", f"{table}-gone", *REGION)


def test_S0_9_the_scans_of_the_description_find_what_the_store_wrote(table: str, db: Database, dynamodb: Any) -> None:
    jobs = ReportJobs(db, layout="compat")
    other = jobs.create_job("another").job_id
    jobs.update_job_progress(other, 10, "starting")
    job_id = jobs.create_job("mlab_bodwassho_usa_3").job_id
    for number in range(12):
        jobs.update_job_progress(job_id, number, f"step {number}")

    def scan(condition: str, **values: str) -> list[dict[str, Any]]:
        answer = dynamodb.scan(
            TableName=table,
            FilterExpression=condition,
            ExpressionAttributeValues={f":{name}": {"S": value} for name, value in values.items()},
        )
        found: list[dict[str, Any]] = answer["Items"]
        return sorted(found, key=lambda item: int(item["sequenceNumber"]["N"]))

    of_type = "jobId = :jobId AND recordType = :recordType"
    (main,) = scan(of_type, jobId=job_id, recordType="main_job")
    assert (main["status"]["S"], main["idProject"]["S"]) == ("processing", "mlab_bodwassho_usa_3")
    logs = scan(of_type, jobId=job_id, recordType="progress_log")
    assert [item["stepName"]["S"] for item in logs] == [f"step {number}" for number in range(12)]
    every = scan("jobId = :jobId", jobId=job_id)
    assert [int(item["sequenceNumber"]["N"]) for item in every] == list(range(13))


def test_S0_3_what_the_aws_cli_puts_by_the_description_is_a_job(aws: Aws, table: str, db: Database) -> None:
    item = {
        "recordId": {"S": "job_job_mbzlks74_rfi5i0_1734383256789_abc123"},
        "jobId": {"S": "job_mbzlks74_rfi5i0"},
        "recordType": {"S": "main_job"},
        "sequenceNumber": {"N": "0"},
        "idProject": {"S": "mlab_bodwassho_usa_3"},
        "status": {"S": "pending"},
        "progress": {"N": "0"},
        "createdAt": {"S": "2025-06-16T21:19:33.789Z"},
        "updatedAt": {"S": "2025-06-16T21:19:33.789Z"},
        "ttl": {"N": "32503680000"},
        "options": {"M": {}},
        "metadata": {"M": {"totalSteps": {"N": "5"}, "currentStep": {"N": "0"}, "stepName": {"S": "initializing"}}},
    }
    aws("put-item", "--table-name", table, "--item", json.dumps(item), *REGION)
    jobs = ReportJobs(db, layout="compat")
    jobs.update_job_progress("job_mbzlks74_rfi5i0", 15, "starting")
    key = json.dumps({"recordId": item["recordId"]})
    seen = aws("get-item", "--table-name", table, "--key", key, *REGION)["Item"]
    assert (seen["status"], seen["progress"], seen["metadata"]["M"]["stepName"]) == (
        {"S": "processing"},
        {"N": "15"},
        {"S": "starting"},
    )
