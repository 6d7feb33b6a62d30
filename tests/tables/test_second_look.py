"""After an apply: what did not take, and what an endpoint takes and never tells again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fleets import PLAIN, Place

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.client.transports.base import Capabilities
from penstock.tables.apply.apply import ApplyReport
from penstock.tables.definitions.definition import Index, Maximum, Table, Throughput
from penstock.tables.plan.survey import survey
from penstock.tables.state.locked_apply import apply_locked
from penstock.tables.state.second_look import forget_untold
from penstock.tables.state.state_table import StateTable

MODULE = """from penstock.tables.definitions.definition import Index, Maximum, Table

settings = dict(
    indexes=[Index("by-x", "x:S", on_demand_max=Maximum(5, 6))],
    on_demand_max=Maximum(7, 8),
    table_class="STANDARD_INFREQUENT_ACCESS",
    sse=True,
)
plain = Table("jobs", "id:S", indexes=[Index("by-x", "x:S")])
all = [Table("jobs", "id:S", **settings), Table("new", "id:S", **settings)]
other = Table("jobs", "id:S", **settings | {"on_demand_max": Maximum(9, 9)})
"""


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["tables", *arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def moto(empty_moto_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("PENSTOCK_ENVIRONMENT", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "forgotten", raising=False)
    (tmp_path / "forgotten.py").write_text(MODULE)
    return empty_moto_url


def test_what_moto_takes_and_never_tells_is_no_drift(moto: str) -> None:
    run("apply", "forgotten:plain", "--db", moto, "--yes")
    applied = run("apply", "forgotten:all", "--db", moto, "--yes").output
    for table in ("jobs", "new"):
        for change in ("on-demand maximum: 7", "index by-x, on-demand maximum: 5", "table class STANDARD_INFREQUENT"):
            assert f"{table}: taken, not told by this endpoint: ~ {change}" in applied
    assert "jobs: taken, not told by this endpoint: ~ encryption" in applied
    assert "new: taken, not told by this endpoint: ~ encryption" not in applied, "it tells that of a new table"
    verified = run("verify", "forgotten:all", "--db", moto).output
    assert "Not compared, because this endpoint took it and does not tell it: jobs (" in verified
    assert run("plan", "forgotten:all", "--db", moto, "--exit-code").output.startswith("Nothing to do")
    assert "new (" in json.loads(run("plan", "forgotten:all", "--db", moto, "--json").output)["untold"][1]

    other = run("plan", "forgotten:other", "--db", moto, "--exit-code", code=7).output
    assert "on-demand maximum: 9" in other and "table class" not in other.partition("Plan:")[0]
    run("apply", "forgotten:other", "--db", moto, "--yes")
    run("verify", "forgotten:other", "--db", moto)
    run("verify", "forgotten:all", "--db", moto, "--table", "jobs", code=7)


def test_without_the_state_table_nothing_is_remembered_and_that_is_told(moto: str) -> None:
    told = run("apply", "forgotten:all", "--db", moto, "--yes", "--no-lock").output
    assert "with --no-lock this is not remembered: the next plan has it again" in told
    run("verify", "forgotten:all", "--db", moto, code=7)


class Forgetful:
    """A transport that drops members of descriptions, and changes of tables."""

    def __init__(self, inner: Database, *, forgets: tuple[str, ...] = (), ignores: str = "", aws: bool = True) -> None:
        self.inner, self.name = inner.transport, inner.name
        self.forgets, self.ignores = forgets, ignores
        self.capabilities = Capabilities(tells_settings=aws)

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "UpdateTable" and self.ignores in request:
            return {}
        answer = self.inner.execute(operation, request)
        if operation == "DescribeTable" and request["TableName"] != "penstock-state":
            for name in self.forgets:
                answer["Table"].pop(name, None)
        return answer

    def close(self) -> None:
        self.inner.close()


IA = Table("jobs", "id:S", table_class="STANDARD_INFREQUENT_ACCESS")


def applied(db: Database, *tables: Table) -> ApplyReport:
    return apply_locked(db, forget_untold(db, survey(db, tables, PLAIN)), StateTable(db))


def left(db: Database, table: Table) -> int:
    return len(forget_untold(db, survey(db, [table], PLAIN)).tables[0].plan.changes)


def test_on_DynamoDB_what_is_not_shown_is_drift_for_ever() -> None:
    """Its descriptions tell everything, and every table has an id: an absent member was not taken."""
    with connect(":memory:") as inner:
        db = Database(Forgetful(inner, forgets=("TableClassSummary",)))
        applied(db, IA.replace(table_class=None))
        report = applied(db, IA)
        (failure,) = report.failures
        assert (failure.code, failure.change) == ("NotTaken", "~ table class STANDARD_INFREQUENT_ACCESS")
        assert "still not so" in str(failure) and "penstock tables verify" in str(failure)
        assert left(db, IA) == 1


def test_a_drift_of_what_is_told_is_seen_whatever_was_remembered() -> None:
    with connect(":memory:") as inner:
        forgetful = Forgetful(inner, forgets=("TableClassSummary",), aws=False)
        db = Database(forgetful)
        assert not applied(db, IA).failures
        assert left(db, IA) == 0
        forgetful.forgets = ()  # a newer version of the endpoint tells it
        inner.execute("UpdateTable", {"TableName": "jobs", "TableClass": "STANDARD"})
        assert left(db, IA) == 1


def test_an_endpoint_without_ids_is_no_DynamoDB_wherever_it_answers() -> None:
    """moto in the same process answers under AWS's own name."""
    with connect(":memory:") as inner:
        db = Database(Forgetful(inner, forgets=("TableClassSummary", "TableId")))
        (outcome,) = applied(db, IA).outcomes
        assert outcome.notes == ("taken, not told by this endpoint: ~ table class STANDARD_INFREQUENT_ACCESS",)
        assert left(db, IA) == 0


def test_a_change_that_does_not_take_is_a_failure() -> None:
    with connect(":memory:") as inner:
        db = Database(Forgetful(inner, ignores="DeletionProtectionEnabled"))
        applied(db, Table("jobs", "id:S"))
        report = applied(db, Table("jobs", "id:S", deletion_protection=True))
        assert [(one.code, one.change) for one in report.failures] == [("NotTaken", "+ deletion protection")]
        assert report.counts["failed"] == 1


def test_capacity_that_moves_again_is_a_note() -> None:
    with connect(":memory:") as inner:
        db = Database(Forgetful(inner, ignores="ProvisionedThroughput"))
        applied(db, Table("jobs", "id:S", billing=Throughput(5, 5)))
        (outcome,) = applied(db, Table("jobs", "id:S", billing=Throughput(6, 6))).outcomes
        assert outcome.failure is None
        assert outcome.notes == ("its capacity has changed again: ~ capacity: 5 read, 5 write → 6 read, 6 write",)


def test_what_takes_is_told_without_a_word() -> None:
    place = Place()
    every = Table(
        "jobs", ("id:S", "at:N"), indexes=[Index("by-x", "x:S", on_demand_max=Maximum(5, 6))], ttl="e", pitr=7,
        stream="NEW_IMAGE", tags={"a": "b"}, on_demand_max=Maximum(7, 8), warm=Throughput(13_000, 5_000),
        table_class="STANDARD_INFREQUENT_ACCESS", deletion_protection=True, sse=True,
    )  # fmt: skip
    (outcome,) = applied(place.db, every).outcomes
    assert (outcome.fate, outcome.notes) == ("created", ())
