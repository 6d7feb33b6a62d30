"""pytest fixtures, found without configuration once Penstock is installed.

    def test_a_job_is_kept(dynamodb):
        dynamodb.put_item(TableName="jobs", Item={"id": {"S": "1"}})

The fixtures of one test look at one and the same fresh, in-memory database; the next test has its own. This
module imports neither the engine nor boto3: a test run that uses no fixture of ours pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient, DynamoDBServiceResource
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

    from penstock.client.database import Database
    from penstock.jobs.app import App
    from penstock.testing.clock import MovableClock
    from penstock.testing.fault_lab import FaultLab
    from penstock.testing.job_app import JobApp


@pytest.fixture
def penstock_clock() -> MovableClock:
    """The time that the test's database lives by: `penstock_clock.advance(seconds)` moves it forward.

    Items that have expired by then are deleted, and indexes and tables that are ready by then are ACTIVE.
    """
    from penstock.testing.clock import MovableClock

    return MovableClock()


@pytest.fixture
def penstock_db(penstock_clock: MovableClock) -> Iterator[Database]:
    """A fresh in-memory database: `penstock_db.execute("PutItem", {…})`."""
    from penstock.client.database import connect

    with connect(clock=penstock_clock) as database:
        penstock_clock.call_when_moved(database.engine.maintenance.run_due)
        yield database


@pytest.fixture
def dynamodb(penstock_db: Database) -> DynamoDBClient:
    """A boto3 DynamoDB client of `penstock_db`."""
    from penstock.client.boto3.clients import boto3_client

    return boto3_client(penstock_db)


@pytest.fixture
def dynamodb_resource(penstock_db: Database) -> DynamoDBServiceResource:
    """A boto3 DynamoDB resource of `penstock_db`."""
    from penstock.client.boto3.clients import boto3_resource

    return boto3_resource(penstock_db)


@pytest.fixture
def dynamodb_streams(penstock_db: Database) -> DynamoDBStreamsClient:
    """A boto3 client of `penstock_db`'s streams."""
    from penstock.client.boto3.clients import boto3_client

    return boto3_client(penstock_db, service="dynamodbstreams")


@pytest.fixture
def penstock_server(penstock_db: Database) -> Iterator[str]:
    """The URL of an HTTP server of `penstock_db` on a free port of this machine: for any SDK."""
    from penstock.server import running_server

    with running_server(penstock_db.engine) as server:
        yield server.url


@pytest.fixture
def job_app() -> Iterator[Callable[..., JobApp]]:
    """`jobs = job_app(app)`: the app in memory until the test ends, a clock to move, and `jobs.run_until_idle()`.

    Without an app, a new one: `jobs.app`. `now`, an aware datetime, is the time at which it begins.
    """
    from penstock.jobs.app import App as NewApp
    from penstock.testing.job_app import JobApp

    with ExitStack() as stack:

        def make(app: App | None = None, *, now: datetime | None = None) -> JobApp:
            return stack.enter_context(JobApp(NewApp(":memory:") if app is None else app, now=now))

        yield make


@pytest.fixture
def fault_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FaultLab]]:
    """`lab = fault_lab("reports:app")`: workers as processes to kill, freeze, overlap, skew and throttle, and outages.

    The app's database is PENSTOCK_DB, which is a fresh file unless `url` names another: write `App()` in the module
    under test. When the test has passed, the rules that every job must keep are checked.
    """
    from penstock.testing.fault_lab import FaultLab

    with ExitStack() as stack:

        def make(place: str, *, url: str | None = None, folder: Path | None = None) -> FaultLab:
            environment = {"PENSTOCK_DB": url or str(tmp_path / "lab.db")}
            monkeypatch.setenv("PENSTOCK_DB", environment["PENSTOCK_DB"])
            return stack.enter_context(FaultLab(place, folder=folder or Path.cwd(), environment=environment))

        yield make
