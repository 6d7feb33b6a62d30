"""Two people apply at once: the same change is made once, an opposite one is refused, and the history says who."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fleets import Watched

from penstock.cli.kit import databases
from penstock.cli.main import cli
from penstock.cli.tables import schema
from penstock.client.database import Database, connect
from penstock.errors import AccessDeniedException, UnknownOperationException
from penstock.leases import LeaseLost
from penstock.tables.apply.apply import apply, make
from penstock.tables.apply.conversations import Pace
from penstock.tables.apply.table_changer import AlreadyMade, Finished
from penstock.tables.definitions.definition import Index, Naming, Table, Throughput
from penstock.tables.plan.survey import inspect, keep_added_indexes, survey, survey_to_delete
from penstock.tables.state.locked_apply import TablesMoved, apply_locked
from penstock.tables.state.state_table import LeaseHeld, StateTable

PLAIN = Table("orders", "id:S")
BY_EMAIL = PLAIN.replace(indexes=[Index("by-email", "email:S")])
NAMING = Naming(prefix="")

MODULE = """
from penstock.tables.definitions.definition import Index, Table, Throughput

plain = [Table("orders", "id:S")]
by_email = [Table("orders", "id:S", indexes=[Index("by-email", "email:S")])]
few = [Table("orders", "id:S", billing=Throughput(5, 5))]
many = [Table("orders", "id:S", billing=Throughput(50, 50))]
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_ACTOR", "ada@laptop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("shop_tables.py").write_text(MODULE)


def world(*tables: Table) -> Database:
    db = connect(":memory:")
    for table in tables:
        make(db, table, table.name)
    return db


def applied(db: Database, *tables: Table) -> None:
    apply_locked(db, survey(db, tables, NAMING), StateTable(db))


def without_settings(db: Database) -> Database:
    """The same, as DynamoDB Local answers: it has no backups and no tags."""
    watched = Watched(db)
    for operation in ("DescribeContinuousBackups", "ListTagsOfResource"):
        watched.fail(operation, *[UnknownOperationException("what?")] * 99)
    return Database(watched)


# ── the rule ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wanted",
    [
        BY_EMAIL,
        PLAIN.replace(billing=Throughput(5, 5)),
        PLAIN.replace(billing=Throughput(5, 5), indexes=[Index("by-email", "email:S", throughput=Throughput(3, 3))]),
        PLAIN.replace(ttl="ends", stream="KEYS_ONLY", pitr=35, deletion_protection=True),
        PLAIN.replace(tags={"team": "shop"}),
    ],
)
@pytest.mark.parametrize("before", [(), (PLAIN,)])
def test_the_same_change_planned_twice_is_made_once(before: tuple[Table, ...], wanted: Table) -> None:
    with world(*before) as db:
        first, second = survey(db, [wanted], NAMING), survey(db, [wanted], NAMING)
        assert apply_locked(db, first, StateTable(db)).counts["skipped"] == 0
        events: list[object] = []
        report = apply_locked(db, second, StateTable(db), report=events.append)
        assert (report.failures, report.counts["skipped"]) == ((), 1)
        assert any(isinstance(one, AlreadyMade) for one in events)
        assert len(list(StateTable(db).history(table="orders"))) == 1


def test_a_ttl_that_somebody_else_set_is_skipped_where_there_are_no_backups_and_no_tags() -> None:
    with world(PLAIN) as inner:
        db = without_settings(inner)
        wanted = PLAIN.replace(ttl="ends")
        first, second = survey(db, [wanted], NAMING), survey(db, [wanted], NAMING)
        assert apply_locked(db, first, StateTable(db)).counts["changed"] == 1
        assert apply_locked(db, second, StateTable(db)).counts["skipped"] == 1
        third = survey(db, [PLAIN], NAMING)
        applied(db, PLAIN.replace(ttl="other"))
        with pytest.raises(TablesMoved, match="ttl other"):
            apply_locked(db, third, StateTable(db))


def test_what_the_other_did_not_do_is_still_done() -> None:
    with world(PLAIN) as db:
        whole = survey(db, [BY_EMAIL.replace(ttl="ends")], NAMING)
        applied(db, BY_EMAIL)
        assert apply_locked(db, whole, StateTable(db)).counts["changed"] == 1
        live = inspect(db, "orders")
        assert live is not None
        assert (live.table.ttl, [one.name for one in live.table.indexes]) == ("ends", ["by-email"])
        texts = [one.text for one in StateTable(db).history(table="orders")]
        assert len(texts) == 2
        assert "by-email" in texts[1]
        assert "by-email" not in texts[0]


@pytest.mark.parametrize(
    ("before", "theirs", "ours"),
    [
        (PLAIN, PLAIN.replace(billing=Throughput(50, 50)), PLAIN.replace(billing=Throughput(5, 5))),
        (PLAIN, PLAIN.replace(ttl="a"), PLAIN.replace(ttl="b")),
        (PLAIN, BY_EMAIL, PLAIN.replace(indexes=[Index("by-email", "email:S", projection="KEYS_ONLY")])),
        (BY_EMAIL, BY_EMAIL.replace(stream="KEYS_ONLY"), PLAIN),
        (PLAIN, PLAIN.replace(tags={"team": "a"}), PLAIN.replace(tags={"team": "b"})),
        (None, PLAIN, BY_EMAIL),
    ],
)
def test_an_opposite_change_is_refused_and_nothing_is_touched(before: Table | None, theirs: Table, ours: Table) -> None:
    with world(*([] if before is None else [before])) as db:
        planned = survey(db, [ours], NAMING)
        applied(db, theirs)
        after = inspect(db, "orders")
        with pytest.raises(TablesMoved, match=r"ada@laptop +apply: ") as refused:
            apply_locked(db, planned, StateTable(db))
        assert refused.value.moved[0].table == "orders"
        assert after is not None
        now = inspect(db, "orders")
        assert now is not None
        assert now.table == after.table


def test_one_table_that_moved_keeps_all_of_them_from_changing() -> None:
    other = Table("users", "id:S")
    with world(PLAIN) as db:
        planned = survey(db, [BY_EMAIL, other], NAMING)
        applied(db, PLAIN.replace(ttl="ends"))
        with pytest.raises(TablesMoved):
            apply_locked(db, planned, StateTable(db))
        assert inspect(db, "users") is None
        assert StateTable(db).holder(("table", "users")) is None


def test_a_table_that_is_gone_is_refused_for_a_change_and_fine_for_a_destroy() -> None:
    with world(PLAIN) as db:
        change, doom = survey(db, [BY_EMAIL], NAMING), survey_to_delete(db, ["orders"], NAMING)
        apply_locked(db, survey_to_delete(db, ["orders"], NAMING), StateTable(db), kind="destroy")
        assert apply_locked(db, doom, StateTable(db)).counts["skipped"] == 1
        with pytest.raises(TablesMoved, match=r"destroy: - table \(id\)"):
            apply_locked(db, change, StateTable(db))


def test_an_index_that_was_kept_is_no_move() -> None:
    with world(BY_EMAIL) as db:
        planned = keep_added_indexes(survey(db, [PLAIN.replace(ttl="ends")], NAMING))
        assert apply_locked(db, planned, StateTable(db)).counts["changed"] == 1


def test_a_move_without_a_history_is_told_as_such() -> None:
    with world(PLAIN) as db:
        planned = survey(db, [BY_EMAIL], NAMING)
        apply(db, survey(db, [PLAIN.replace(ttl="ends")], NAMING))
        with pytest.raises(TablesMoved, match="without a lease"):
            apply_locked(db, planned, StateTable(db))


def test_a_lease_is_waited_for_and_one_that_stays_is_told() -> None:
    with world(PLAIN) as db:
        planned = survey(db, [BY_EMAIL], NAMING)
        theirs = StateTable(db)
        with (
            theirs.lease(("table", "orders"), purpose="penstock tables apply theirs"),
            pytest.raises(LeaseHeld, match=r"ada@laptop.*penstock tables apply theirs"),
        ):
            apply_locked(db, planned, StateTable(db), pace=Pace(max_wait_seconds=0))
        lease = theirs.acquire(("table", "orders"))
        waited = threading.Event()

        def release(_: LeaseHeld) -> None:
            if not waited.is_set():
                waited.set()
                theirs.release(lease)

        assert apply_locked(db, planned, StateTable(db), on_wait=release).counts["changed"] == 1
        assert waited.is_set()


def test_nothing_to_do_does_not_make_the_table() -> None:
    with world(PLAIN) as db:
        applied(db, PLAIN)
        assert db.tables() == ["orders"]


# ── the command ──────────────────────────────────────────────────────────────────────────────────


def penstock(*words: str) -> Result:
    return CliRunner().invoke(cli, ["tables", *words, "--db", "shop.db", "--prefix", ""])


def while_asked(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Somebody else acts between the plan and the answer to its question."""
    calls = iter([other])
    monkeypatch.setattr(schema, "confirm_changes", lambda *_, **__: next(calls, lambda: None)())


def test_two_people_who_apply_the_same_both_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert penstock("apply", "shop_tables:plain", "--yes").exit_code == 0
    while_asked(monkeypatch, lambda: penstock("apply", "shop_tables:by_email"))
    told = penstock("apply", "shop_tables:by_email")
    assert told.exit_code == 0, told.output
    assert "somebody else has made this change" in told.output
    assert "0 changed, 1 skipped, 0 failed" in told.output


def test_the_second_of_two_opposite_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert penstock("apply", "shop_tables:plain", "--yes").exit_code == 0
    while_asked(monkeypatch, lambda: penstock("apply", "shop_tables:few"))
    told = penstock("apply", "shop_tables:many")
    assert told.exit_code == 1
    assert "ada@laptop  apply: ~ capacity: on demand → 5 read" in told.output
    assert "Run it again" in told.output
    with connect("shop.db") as db:
        live = inspect(db, "orders")
        assert live is not None
        assert live.table.billing == Throughput(5, 5)


def test_no_lock_goes_without_the_state_table() -> None:
    assert penstock("apply", "shop_tables:plain", "--yes", "--no-lock").exit_code == 0
    assert penstock("destroy", "shop_tables:plain", "--yes", "--allow-destroy", "--no-lock").exit_code == 0
    with connect("shop.db") as db:
        assert db.tables() == []


def test_a_refused_state_table_tells_of_no_lock_and_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def execute(self, operation: str, request: Any, *rest: Any, **more: Any) -> Any:
            if request.get("TableName") == "penstock-state":
                raise AccessDeniedException("User: ada is not authorized to perform: dynamodb:GetItem")
            return self._inner.execute(operation, request, *rest, **more)

    monkeypatch.setattr(databases, "connect", lambda url, **more: Database(Refusing(connect(url, **more).transport)))
    told = penstock("apply", "shop_tables:plain", "--yes")
    assert told.exit_code == 1
    assert "--no-lock" in told.output
    assert "`penstock tables policy shop_tables:plain --for apply" in told.output
    assert penstock("apply", "shop_tables:plain", "--yes", "--no-lock").exit_code == 0


def test_the_history_names_the_command() -> None:
    assert penstock("apply", "shop_tables:plain", "--yes", "--json").exit_code == 0
    with connect("shop.db") as db:
        (entry,) = StateTable(db).history(table="orders")
    assert (entry.kind, entry.who) == ("apply", "ada@laptop")
    assert json.loads(json.dumps(entry.form))["details"]["changes"] == ["+ table (id), indexes: 0"]


def test_a_refusal_of_tables_that_moved_has_its_facts_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    assert penstock("apply", "shop_tables:plain", "--yes").exit_code == 0
    while_asked(monkeypatch, lambda: penstock("apply", "shop_tables:few"))
    told = penstock("apply", "shop_tables:many", "--json")
    assert told.exit_code == 1
    (line,) = [one for one in told.stderr.splitlines() if one.startswith('{"error"')]
    error = json.loads(line)["error"]
    assert (error["kind"], error["next"]) == ("TablesMoved", "Run it again for a new plan.")
    (moved,) = error["details"]["moved"]
    assert moved["table"] == "orders"
    assert moved["newest_in_history"]["who"] == "ada@laptop"


# ── a lease that is lost ─────────────────────────────────────────────────────────────────────────


def test_a_table_whose_lease_is_lost_is_not_changed_any_more_and_what_was_done_is_told() -> None:
    wanted = PLAIN.replace(ttl="ends", indexes=[Index("by-email", "email:S")])
    with world(PLAIN) as db:
        state = StateTable(db)

        def lose(event: object) -> None:
            if isinstance(event, Finished):
                for lease in state._leases_now():
                    lease.give_up(LeaseLost(lease.id, "grace@desk"))

        report = apply_locked(db, survey(db, [wanted], NAMING), state, report=lose)
        (outcome,) = report.outcomes
        assert outcome.failure is not None
        assert outcome.failure.code == "TableTaken"
        assert "grace@desk has it now. Run it again" in str(outcome.failure)
        assert len(outcome.done) == 1
        live = inspect(db, "orders")
        assert live is not None
        assert (live.table.ttl is None) != (live.table.indexes == ())
        (entry,) = state.history(table="orders")
        assert len(entry.details["changes"]) == 1
