"""Rekeys one after another: a chain, after a rollback, after a kill; and what the history says of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from moving_samples import everything
from rekey_world import NEW_KEY, filled_world, rekeyed

from penstock.cli.kit import databases
from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.errors import AccessDeniedException, PenstockError
from penstock.tables.apply.apply import delete, make
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.survey import inspect
from penstock.tables.rekey.phases import Options, Rekey, plan_rekey
from penstock.tables.rekey.state import RekeyStore
from penstock.tables.state.state_table import StateTable

AUTHOR_KEY = "author:S,comment_id:N"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_ACTOR", "ada@laptop")


def penstock(*words: str, code: int = 0) -> str:
    told = CliRunner().invoke(cli, ["tables", "rekey", *words, "--db", "a.db"])
    assert told.exit_code == code, told.output
    return told.output


def run_of(db: Database) -> Rekey:
    return Rekey(db, RekeyStore(db), Options(page_items=200))


def test_a_chain_of_rekeys_keeps_every_item() -> None:
    filled_world("a.db", count=40).close()
    for source, into, key in (("old", "new", NEW_KEY), ("new", "newer", AUTHOR_KEY)):
        penstock(source, "--key", key, "--into", into)
        penstock("confirm", source)
    with connect("a.db") as db:
        assert sorted(map(str, everything(db, "newer").values())) == sorted(map(str, everything(db, "old").values()))


def test_a_table_gets_its_name_back_when_the_old_one_is_gone() -> None:
    filled_world("a.db", count=40).close()
    penstock("old", "--key", NEW_KEY, "--into", "new")
    penstock("confirm", "old")
    with connect("a.db") as db:
        delete(db, "old")
    penstock("new", "--key", NEW_KEY, "--into", "old")
    penstock("confirm", "new")
    penstock("old", "--key", AUTHOR_KEY, "--into", "third")
    with connect("a.db") as db:
        assert len(everything(db, "third")) == 40


def test_after_a_rollback_the_same_and_another_rekey_can_begin() -> None:
    filled_world("a.db", count=20).close()
    for key, into in ((NEW_KEY, "new"), (NEW_KEY, "new"), (AUTHOR_KEY, "other")):
        penstock("old", "--key", key, "--into", into)
        penstock("rollback", "old", "--yes")
    with connect("a.db") as db:
        texts = [one.text for one in StateTable(db).history(table="old")]
        assert [one.rpartition(" ")[2] for one in texts] == ["back", "begun"] * 3
        assert len({one.id for one in StateTable(db).history(table="old")}) == 6


def test_a_table_that_is_still_being_filled_cannot_be_rekeyed() -> None:
    filled_world("a.db", count=20).close()
    penstock("old", "--key", NEW_KEY, "--into", "new")
    told = penstock("new", "--key", AUTHOR_KEY, "--into", "newer", code=1)
    assert "still being filled by the rekey of old" in told
    assert "`penstock tables rekey confirm old --db a.db`" in told


def test_a_rekey_of_a_process_that_was_killed_is_taken_at_once() -> None:
    filled_world("a.db", count=20).close()
    program = (
        "import os, sys\nfrom penstock.client.database import connect\n"
        "from penstock.tables.rekey.phases import plan_rekey\nfrom penstock.tables.rekey.state import RekeyStore\n"
        "db = connect('a.db')\n"
        f"RekeyStore(db, lease_seconds=3600).begin(plan_rekey(db, 'old', 'new', {NEW_KEY!r}))\nos._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    with connect("a.db") as db:
        assert RekeyStore(db).holder("old") is None
    assert "ready" in penstock("old")


# ── tables that others make and delete ───────────────────────────────────────────────────────────


def test_rollback_deletes_no_table_that_the_rekey_did_not_make() -> None:
    with filled_world(count=5) as db:
        planned = plan_rekey(db, "old", "new", NEW_KEY)
        make(db, Table("new", "id:S"), "new")  # somebody else, just now
        with pytest.raises(PenstockError, match="Somebody has made a table new"):
            run_of(db).start(planned)
        assert not run_of(db).rollback("old").is_deleted
        assert inspect(db, "new") is not None
        assert rekeyed_into(db, "other") == "ready"


def rekeyed_into(db: Database, into: str) -> str:
    return run_of(db).start(plan_rekey(db, "old", into, NEW_KEY)).phase


def test_rollback_keeps_the_only_copy() -> None:
    filled_world("a.db", count=5).close()
    penstock("old", "--key", NEW_KEY, "--into", "new")
    with connect("a.db") as db:
        delete(db, "old")
    told = penstock("rollback", "old", "--yes", code=1)
    assert "may be the only copy of its items" in told
    assert "`penstock tables rekey rollback old --db a.db --force`" in told
    assert "new was not deleted" in penstock("rollback", "old", "--force")
    with connect("a.db") as db:
        assert len(everything(db, "new")) == 5
        assert RekeyStore(db).read("old") is None


def test_a_new_table_that_was_deleted_is_told_and_can_be_begun_again() -> None:
    filled_world("a.db", count=5).close()
    penstock("old", "--key", NEW_KEY, "--into", "new")
    with connect("a.db") as db:
        delete(db, "new")
    assert "The new table new is not there any more" in penstock("old", code=1)
    penstock("rollback", "old", "--yes")
    penstock("old", "--key", NEW_KEY, "--into", "new")


# ── the history ──────────────────────────────────────────────────────────────────────────────────


def test_begun_and_confirmed_are_in_the_history_of_both_tables_once() -> None:
    with filled_world(count=5) as db:
        rekeyed(db)
        rekeyed(db)
        run_of(db).confirm("old", quiet_seconds=0.0)
        old, new = (list(StateTable(db).history(table=name)) for name in ("old", "new"))
        assert [one.text for one in old] == ["rekey into new confirmed", "rekey into new (job_id, comment_id) begun"]
        assert [one.details["event"] for one in new] == ["confirmed", "begun"]
        assert {(one.kind, one.who) for one in (*old, *new)} == {("rekey", "ada@laptop")}
        assert json.loads(json.dumps(old[0].form))["details"]["items"] == 5


def test_a_confirm_that_is_killed_after_its_entry_adds_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with filled_world(count=5) as db:
        rekeyed(db)
        real = RekeyStore.save

        def save(self: RekeyStore, run: object) -> None:
            if run.phase == "confirmed":  # type: ignore[attr-defined]
                raise KeyboardInterrupt
            real(self, run)  # type: ignore[arg-type]

        monkeypatch.setattr(RekeyStore, "save", save)
        with pytest.raises(KeyboardInterrupt):
            run_of(db).confirm("old", quiet_seconds=0.0)
        monkeypatch.undo()
        with pytest.raises(PenstockError, match="Finish it: `penstock tables rekey confirm old`"):
            rekeyed(db)
        assert run_of(db).confirm("old", quiet_seconds=0.0).phase == "confirmed"
        assert [one.details["event"] for one in StateTable(db).history(table="old")] == ["confirmed", "begun"]


def test_a_history_that_may_not_be_written_stops_no_rekey(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def execute(self, operation: str, request: dict[str, object]) -> object:
            if request.get("TableName") == "penstock-state":
                raise AccessDeniedException("User: ada is not authorized to perform: dynamodb:PutItem")
            return self.inner.execute(operation, request)  # type: ignore[attr-defined]

    filled_world("a.db", count=5).close()
    monkeypatch.setattr(databases, "connect", lambda url, **more: Database(Refusing(connect(url, **more).transport)))  # type: ignore[arg-type]
    told = CliRunner().invoke(
        cli, ["tables", "rekey", "old", "--key", NEW_KEY, "--into", "new", "--db", "a.db", "--json"]
    )
    assert told.exit_code == 0, told.output
    (note,) = json.loads(told.stdout)["notes"]
    assert "is not in the history" in note
