"""The policy for jobs allows what a job's life calls, on the resources that it calls, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.kit import databases
from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.errors import AccessDeniedException, PenstockError
from penstock.jobs.iam_policy import FILE_ACTIONS, TABLE_ACTIONS, policy
from penstock.jobs.layouts.tables import jobs_table
from penstock.jobs.model.job import NewJob
from penstock.jobs.worker.worker import Worker
from penstock.retry import RetryPolicy
from penstock.tables.apply.apply import make

PARTS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
S3_ACTIONS = {
    "CreateMultipartUpload": {"PutObject"},
    "UploadPart": {"PutObject"},
    "UploadPartCopy": {"GetObject", "PutObject"},
    "CompleteMultipartUpload": {"PutObject"},
    "CopyObject": {"GetObject", "PutObject"},
    "HeadObject": {"GetObject"},
}
"""What S3 asks for where the action is not called as the operation is."""


class Calls:
    """A transport that notes which IAM actions its calls need, and refuses those that are `denied`."""

    def __init__(self, url: str, noted: set[str], denied: frozenset[str] = frozenset()) -> None:
        self.denied = denied
        self.inner = connect(url).transport
        self.name = self.inner.name
        self.noted = noted

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation in self.denied:
            raise AccessDeniedException(f"not authorized to perform: dynamodb:{operation}")
        if operation == "TransactWriteItems":
            self.noted.update(PARTS[part] for action in request["TransactItems"] for part in action)
        else:
            self.noted.add(operation)
        return self.inner.execute(operation, request)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def noted() -> set[str]:
    return set()


@pytest.fixture
def app(penstock_server: str, noted: set[str], tmp_path: Path) -> Iterator[penstock.App]:
    """An app whose database is behind HTTP, as AWS is, on a table that others have made."""
    with connect(penstock_server) as db:
        make(db, jobs_table(), jobs_table().name)
    db = Database(Calls(penstock_server, noted))
    app = penstock.App(db, files=tmp_path / "files")

    @app.task(retries=RetryPolicy(1, base_seconds=0.01))
    def report(ctx: penstock.JobContext, project: str) -> int:
        ctx.step("rows", lambda: [1, 2, 3])
        ctx.progress(50, step="rendering")
        ctx.log(f"{ctx.cancelled} {ctx.results}")
        ctx.files.save("report.txt", b"rows")
        if project == "broken":
            raise OSError("no disk")
        return 3

    @app.task(cron="* * * * *")
    def tick(ctx: penstock.JobContext) -> None: ...

    yield app
    db.close()


def enqueue(app: penstock.App) -> list[str]:
    report = app.tasks["report"]
    first = report.enqueue(project="a")
    second = report.options(
        idempotency_key="k", unique_key="u", concurrency_key="l", max_concurrent=1, depends_on=[first.id]
    ).enqueue(project="b")
    again = report.options(idempotency_key="k").enqueue(project="b")
    assert again.id == second.id
    unwanted = app.store.cancel(report.options(delay=600).enqueue(project="c").id)
    report.options(depends_on=[first.id, unwanted.id], depends_on_policy="all_ended").enqueue(project="d")
    large = report.enqueue(project="x" * 20_000)
    broken = report.enqueue(project="broken")
    report.enqueue_many([{"project": "c"}, {"project": "d"}])
    report.options(tenant="acme").enqueue(project="e")
    return [first.id, second.id, large.id, broken.id]


def test_enqueueing_and_working_call_what_their_policies_allow(app: penstock.App, noted: set[str]) -> None:
    enqueue(app)
    assert noted == TABLE_ACTIONS["enqueue"]
    app.store.create_all([NewJob("another app's", {}) for _ in range(40)])
    Worker(app, burst=True).run()
    assert noted == TABLE_ACTIONS["work"]


def test_looking_and_managing_call_what_their_policies_allow(
    app: penstock.App, noted: set[str], penstock_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, _, _, broken = enqueue(app)
    Worker(app, burst=True).run()
    later = app.tasks["report"].options(delay=600).enqueue(project="e").id
    unique = app.tasks["report"].options(delay=600, unique_key="v").enqueue(project="f").id
    # Commands look for the jobs of every system; who may not list tables sees those of the table of jobs.
    denied = frozenset({"ListTables", "DescribeTable"})
    monkeypatch.setattr(databases, "connect", lambda url, **more: Database(Calls(url, noted, denied)))

    def jobs(*words: str) -> None:
        told = CliRunner().invoke(cli, ["jobs", *words, "--db", penstock_server])
        assert told.exit_code == 0, told.output

    noted.clear()
    jobs("list", "--state", "failed")
    jobs("show", first)
    jobs("why", later)
    jobs("workers")
    jobs("watch", first)
    jobs("wait", first)
    jobs("report", first, "--out", str(tmp_path / "report.html"))
    assert noted - {"ListTables", "DescribeTable"} == TABLE_ACTIONS["look"]  # without these, the app's table is listed
    noted.clear()
    jobs("cancel", later, unique)
    jobs("retry", broken)
    jobs("pause", "mail")
    jobs("resume", "mail")
    jobs("cancel", "--state", "queued", "--yes")
    assert noted == TABLE_ACTIONS["manage"]


def test_who_may_not_see_other_tables_lists_the_apps_jobs(
    app: penstock.App, penstock_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Denying(Calls):
        def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            if operation in ("ListTables", "DescribeTable"):
                raise AccessDeniedException(f"not authorized to perform: dynamodb:{operation}")
            return super().execute(operation, request)

    first, *_ = enqueue(app)
    monkeypatch.setattr(databases, "connect", lambda url, **more: Database(Denying(url, set())))
    for words in (("list",), ("show", first)):
        shown = CliRunner().invoke(cli, ["jobs", *words, "--db", penstock_server])
        assert shown.exit_code == 0 and first in shown.output, shown.output


def test_files_on_S3_call_what_their_policy_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    moto = pytest.importorskip("moto", reason="S3 is tested with moto: pip install 'moto[s3]'")
    from penstock.files import FileMissing, open_files
    from penstock.files.bucket import new_session

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    noted: set[str] = set()

    def note(model: Any, **rest: Any) -> None:
        noted.update(S3_ACTIONS.get(model.name, {model.name}))

    with moto.mock_aws():
        client = new_session(None).create_client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="acme-jobs")
        client.meta.events.register("before-call.s3", note)
        files = open_files("s3://acme-jobs/reports", client=client)
        files.save("a.txt", b"x")
        assert noted == FILE_ACTIONS["enqueue"]
        files.save("b.bin", iter([b"x" * 9_000_000, b"y"]))  # known only at its end: staged, then copied within S3
        assert files.read("a.txt") == b"x"

        def breaks_off() -> Iterator[bytes]:
            yield b"x" * 17_000_000
            raise OSError("the pipe is gone")

        with pytest.raises(OSError, match="the pipe is gone"):
            files.save("c.bin", breaks_off())
        with pytest.raises(FileMissing):
            files.info("none.txt")
    # HeadBucket tells a missing bucket from a missing file; AWS wants ListBucket for it.
    assert noted - {"HeadBucket"} == FILE_ACTIONS["work"]


def test_indexes_and_files_are_resources_of_their_own() -> None:
    document = policy(["work"], files="s3://acme-jobs/reports/", region="eu-west-2", account="123456789012")
    assert {one["Sid"]: one["Resource"] for one in document["Statement"]} == {
        "Jobs": ["arn:aws:dynamodb:eu-west-2:123456789012:table/penstock-jobs"],
        "JobIndexes": ["arn:aws:dynamodb:eu-west-2:123456789012:table/penstock-jobs/index/*"],
        "Files": ["arn:aws:s3:::acme-jobs/reports/*"],
        "Bucket": ["arn:aws:s3:::acme-jobs"],
    }
    assert [one["Sid"] for one in policy(["enqueue"])["Statement"]] == ["Jobs", "JobIndexes"]
    assert [one["Sid"] for one in policy(["manage"], files="s3://acme-jobs")["Statement"]] == ["Jobs", "JobIndexes"]


def test_the_command_writes_it_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    out = tmp_path / "policy.json"
    told = CliRunner().invoke(cli, ["jobs", "policy", "--for", "look", "--table", "my-jobs", "--out", str(out)])
    assert told.exit_code == 0
    assert json.loads(out.read_text()) == policy(["look"], table="my-jobs")
    told = CliRunner().invoke(cli, ["jobs", "policy", "--files", "reports"])
    assert (told.exit_code, told.output) == (1, "Error: reports names no bucket: write s3://bucket/prefix.\n")
    with pytest.raises(PenstockError, match="There is no role 'rule'; there are enqueue, work, look, manage"):
        policy(["rule"])
