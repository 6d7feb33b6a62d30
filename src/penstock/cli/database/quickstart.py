"""`penstock quickstart`: real calls to an embedded server, and its answers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import click

from penstock.cli.kit import groups
from penstock.engine import Engine
from penstock.server.server import running_server


@dataclass(frozen=True)
class Step:
    """What to say, and the call that shows it."""

    title: str
    operation: str
    request: dict[str, Any]


_KEY = {"job_id": {"S": "job_mbzlks74"}}
_STEPS = (
    Step(
        "A table with an index",
        "CreateTable",
        {
            "TableName": "jobs",
            "AttributeDefinitions": [
                {"AttributeName": "job_id", "AttributeType": "S"},
                {"AttributeName": "status", "AttributeType": "S"},
            ],
            "KeySchema": [{"AttributeName": "job_id", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by-status",
                    "KeySchema": [{"AttributeName": "status", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            "BillingMode": "PAY_PER_REQUEST",
        },
    ),
    Step(
        "A job, only if it is new",
        "PutItem",
        {
            "TableName": "jobs",
            "Item": {**_KEY, "status": {"S": "queued"}, "progress": {"N": "0"}},
            "ConditionExpression": "attribute_not_exists(job_id)",
        },
    ),
    Step(
        "The same again is refused, in DynamoDB's own words",
        "PutItem",
        {
            "TableName": "jobs",
            "Item": {**_KEY, "status": {"S": "queued"}},
            "ConditionExpression": "attribute_not_exists(job_id)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        },
    ),
    Step(
        "Progress, atomically",
        "UpdateItem",
        {
            "TableName": "jobs",
            "Key": _KEY,
            "UpdateExpression": "SET #s = :running ADD progress :step",
            "ExpressionAttributeNames": {"#s": "status"},
            "ExpressionAttributeValues": {":running": {"S": "processing"}, ":step": {"N": "40"}},
            "ReturnValues": "ALL_NEW",
        },
    ),
    Step(
        "Found through the index, with what it would cost",
        "Query",
        {
            "TableName": "jobs",
            "IndexName": "by-status",
            "KeyConditionExpression": "#s = :running",
            "ExpressionAttributeNames": {"#s": "status"},
            "ExpressionAttributeValues": {":running": {"S": "processing"}},
            "ReturnConsumedCapacity": "TOTAL",
        },
    ),
    Step(
        "Or in SQL's manner",
        "ExecuteStatement",
        {"Statement": "SELECT progress FROM jobs WHERE job_id = 'job_mbzlks74'"},
    ),
)

_NEXT = """\
That was a real server on {url}, now stopped. Next:
  penstock serve                                     a DynamoDB in penstock.db, on port 8000
  aws dynamodb list-tables --endpoint-url http://127.0.0.1:8000
  python -c "import penstock; print(penstock.boto3_client('app.db').list_tables()['TableNames'])"
"""


@groups.command("quickstart")
@click.option("--json", "as_json", is_flag=True, help="Print each step as one line of JSON.")
def command(as_json: bool) -> None:
    """Try the embedded DynamoDB: start a server in memory, create a table, make real calls, and stop.

    It leaves no file and no process behind.

    \b
    Examples:
      penstock quickstart
      penstock quickstart --json | jq .answer
    """
    began = time.perf_counter()
    with Engine() as engine, running_server(engine) as server:
        for step, answer in _answers(server.url):
            if as_json:
                click.echo(json.dumps({"operation": step.operation, "request": step.request, "answer": answer}))
            else:
                click.echo(f"{click.style(step.title, bold=True)}: {step.operation}")
                click.echo(f"  {_short_answer(answer)}\n")
        if not as_json:
            click.echo(f"{len(_STEPS)} calls over HTTP in {time.perf_counter() - began:.2f} s.")
            click.echo(_NEXT.format(url=server.url), nl=False)


def _answers(url: str) -> Iterator[tuple[Step, dict[str, Any]]]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        for step in _STEPS:
            connection.request("POST", "/", json.dumps(step.request), _headers(step.operation))
            yield step, json.loads(connection.getresponse().read())
    finally:
        connection.close()


def _headers(operation: str) -> dict[str, str]:
    scope = "Credential=quickstart/20250101/us-east-1/dynamodb/aws4_request"
    return {
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Date": "20250101T000000Z",
        "Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host;x-amz-date, Signature=unchecked",
    }


def _short_answer(answer: dict[str, Any]) -> str:
    """The answer, or of a long table description the part that tells something."""
    table = answer.get("TableDescription")
    if table is not None:
        answer = {"TableArn": table["TableArn"], "TableStatus": table["TableStatus"]}
    return json.dumps(answer) if answer else "{}  (done)"
