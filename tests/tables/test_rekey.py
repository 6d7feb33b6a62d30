"""A key changed with its data: nothing lost, nothing resurrected, nothing old over something new."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from moving_samples import everything
from rekey_world import (
    LEASE_SECONDS,
    NEW_KEY,
    OLD,
    Writer,
    check_new_table,
    comment,
    filled_world,
    rekeyed,
)

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import inspect, require_table
from penstock.tables.rekey.catch_up import TooManyProblems
from penstock.tables.rekey.item_mapping import Problem, parse_mapping
from penstock.tables.rekey.new_table import TableOptions, new_definition
from penstock.tables.rekey.phases import Options, Rekey, Unmapped, plan_rekey
from penstock.tables.rekey.state import RekeyHeld, RekeyLost, RekeyRun, RekeyStore

COUNT = 2_000


def run_of(db: object) -> Rekey:
    return Rekey(db, RekeyStore(db, lease_seconds=LEASE_SECONDS), Options(page_items=200))  # type: ignore[arg-type]


# ── the whole way ────────────────────────────────────────────────────────────────────────────────


def test_a_quiet_table_is_moved_whole_and_its_old_self_is_not_touched() -> None:
    with filled_world() as db:
        before = everything(db, "old")
        job = rekeyed(db)
        assert (job.phase, job.source_items, job.into_items, job.repaired) == ("ready", COUNT, COUNT, 0)
        check_new_table(db, {number: comment(number) for number in range(COUNT)})
        assert everything(db, "old") == before


def test_nothing_is_lost_or_resurrected_beside_a_writer_that_never_rests() -> None:
    with filled_world() as db:
        writer = Writer(db, COUNT)
        writer.start()
        job = rekeyed(db, Options(page_items=200, save_seconds=0.0, tell=writer.goes_on))
        writer.finish()
        assert job.followed > 20
        done = run_of(db).confirm("old", quiet_seconds=0.0)
        check_new_table(db, writer.known)
        assert done.phase == "confirmed"
        assert done.source_items == done.into_items == len(writer.known)


def test_the_order_of_reading_and_writing_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing repaired afterwards: where pages are read ahead of the stream, this fails."""
    monkeypatch.setattr(Rekey, "_repair", lambda self, keys: None)
    monkeypatch.setattr(Rekey, "_remove", lambda self, strangers: None)
    with filled_world(count=3_000) as db:
        writer = Writer(db, 3_000, seed=5)
        writer.start()
        run = Rekey(db, RekeyStore(db), Options(page_items=500, segments=1))
        run.start(plan_rekey(db, "old", "new", NEW_KEY))
        writer.finish()
        run.confirm("old", quiet_seconds=0.0)
        check_new_table(db, writer.known)


def test_what_changes_after_ready_is_caught_up_by_another_run_and_by_confirm() -> None:
    with filled_world(count=100) as db:
        rekeyed(db)
        db.execute("PutItem", {"TableName": "old", "Item": comment(500)})
        assert rekeyed(db).into_items == 101
        db.execute("PutItem", {"TableName": "old", "Item": comment(501)})
        assert run_of(db).confirm("old", quiet_seconds=0.0).into_items == 102


def test_confirm_puts_on_what_acts_by_itself_and_switches_the_stream_off_again() -> None:
    with filled_world(count=10) as db:
        rekeyed(db)
        working = require_table(db, "new").table
        assert (working.ttl, working.stream, require_table(db, "old").table.stream) == (
            None,
            None,
            "NEW_AND_OLD_IMAGES",
        )
        run_of(db).confirm("old", quiet_seconds=0.0)
        found = require_table(db, "new").table
        assert diff(found, new_definition(OLD, "new", TableOptions(NEW_KEY))) == ()
        assert (found.ttl, require_table(db, "old").table.stream) == ("expires", None)


def test_confirm_is_refused_while_the_old_table_is_written_to() -> None:
    with filled_world(count=300) as db:
        rekeyed(db)
        writer = Writer(db, 300)
        writer.start()
        with pytest.raises(PenstockError, match="still written to"):
            run_of(db).confirm("old", quiet_seconds=0.3)
        writer.finish()
        run_of(db).confirm("old", quiet_seconds=0.0)
        check_new_table(db, writer.known)


def test_rollback_leaves_all_as_it_was_and_a_new_start_is_possible() -> None:
    with filled_world(count=50) as db:
        before = require_table(db, "old").table
        rekeyed(db)
        run_of(db).rollback("old")
        assert inspect(db, "new") is None
        assert require_table(db, "old").table == before
        assert rekeyed(db).phase == "ready"
        run_of(db).confirm("old", quiet_seconds=0.0)
        with pytest.raises(PenstockError, match="confirmed: it is over"):
            run_of(db).rollback("old")


def test_a_stream_that_was_there_before_stays() -> None:
    with filled_world(count=50, table=OLD.replace(stream="NEW_AND_OLD_IMAGES")) as db:
        rekeyed(db)
        run_of(db).confirm("old", quiet_seconds=0.0)
        assert require_table(db, "old").table.stream == "NEW_AND_OLD_IMAGES"
        assert require_table(db, "new").table.stream == "NEW_AND_OLD_IMAGES"


# ── stopped and continued ────────────────────────────────────────────────────────────────────────


class Stopped(BaseException):
    """The run ends here, whatever it was doing."""


@pytest.mark.parametrize("at", range(1, 15))
def test_stopped_after_any_of_its_steps_it_continues(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A step ends with a save of the state; with 600 items in 2 segments of pages of 100 there are about 15."""
    with filled_world(count=600) as db:
        writer = Writer(db, 600, seed=at)
        writer.start()
        real, saved = RekeyStore.save, []

        def save(self: RekeyStore, job: RekeyRun) -> None:
            saved.append(job.phase)
            if len(saved) == at:
                raise Stopped  # what was written is written, what was to be remembered is not
            real(self, job)

        monkeypatch.setattr(RekeyStore, "save", save)
        options = Options(page_items=100, segments=2, save_seconds=0.0)
        try:
            rekeyed(db, options)
        except Stopped:
            monkeypatch.undo()
            rekeyed(db, options)
        monkeypatch.undo()
        writer.finish()
        run_of(db).confirm("old", quiet_seconds=0.0)
        check_new_table(db, writer.known)


def test_a_confirm_that_was_stopped_is_simply_confirmed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with filled_world(count=60) as db:
        rekeyed(db)
        for at in range(1, 5):
            real, saved = RekeyStore.save, []

            def save(self: RekeyStore, job: RekeyRun, at: int = at, saved: list[str] = saved, real: Any = real) -> None:
                saved.append(job.phase)
                if len(saved) == at:
                    raise Stopped
                real(self, job)

            monkeypatch.setattr(RekeyStore, "save", save)
            with pytest.raises(Stopped):
                run_of(db).confirm("old", quiet_seconds=0.0)
            monkeypatch.undo()
        assert run_of(db).confirm("old", quiet_seconds=0.0).phase == "confirmed"


def test_what_was_never_ready_cannot_be_confirmed() -> None:
    with filled_world(count=60) as db:
        db.execute("PutItem", {"TableName": "old", "Item": comment(7) | {"job_id": {"N": "1"}}})
        with pytest.raises(Unmapped):
            rekeyed(db)
        with pytest.raises(PenstockError, match="is following, not ready"):
            run_of(db).confirm("old", quiet_seconds=0.0)


def test_stopped_in_the_middle_of_a_write_it_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    with filled_world(count=600) as db:
        real, calls = db.transport.execute, []

        def execute(operation: str, request: dict[str, object]) -> dict[str, object]:
            if operation == "BatchWriteItem" and "new" in request["RequestItems"]:  # type: ignore[operator]
                calls.append(1)
                if len(calls) % 9 == 0:
                    raise Stopped
            return real(operation, request)

        monkeypatch.setattr(db.transport, "execute", execute)
        for _ in range(20):
            try:
                job = rekeyed(db, Options(page_items=100))
                break
            except Stopped:
                continue
        assert job.phase == "ready"
        monkeypatch.undo()
        check_new_table(db, {number: comment(number) for number in range(600)})


def test_changes_that_the_stream_no_longer_has_are_found_by_copying_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.errors import TrimmedDataAccessException
    from penstock.tables.rekey.stream import StreamReader

    with filled_world(count=300) as db:
        rekeyed(db)
        db.execute("PutItem", {"TableName": "old", "Item": comment(1, 77)})
        real, refused = StreamReader.sweep, []

        def sweep(self: StreamReader) -> object:
            if not refused:
                refused.append(1)
                raise TrimmedDataAccessException("gone")
            return real(self)

        monkeypatch.setattr(StreamReader, "sweep", sweep)
        assert rekeyed(db).copied == 600
        check_new_table(db, {number: comment(number) for number in range(300)} | {1: comment(1, 77)})


def test_a_stream_that_was_switched_off_and_on_again_is_noticed() -> None:
    with filled_world(count=300) as db:
        rekeyed(db)
        for enabled in ({"StreamEnabled": False}, {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}):
            db.execute("PutItem", {"TableName": "old", "Item": comment(1, 5 + len(enabled))})
            db.execute("UpdateTable", {"TableName": "old", "StreamSpecification": enabled})
        assert rekeyed(db).copied == 600
        check_new_table(db, {number: comment(number) for number in range(300)} | {1: comment(1, 7)})


# ── one run at a time ────────────────────────────────────────────────────────────────────────────


def test_two_runs_cannot_both_work() -> None:
    with filled_world(count=50) as db:
        rekeyed(db)
        holder = RekeyStore(db, lease_seconds=5.0)
        holder.take("old")
        with pytest.raises(RekeyHeld, match="being worked on by"):
            RekeyStore(db, lease_seconds=0.2).take("old")
        holder.release("old")
        RekeyStore(db, lease_seconds=0.2).take("old")


def test_a_run_whose_lease_was_taken_writes_nothing_more() -> None:
    with filled_world(count=50) as db:
        rekeyed(db)
        sleeper = RekeyStore(db, lease_seconds=0.3)
        job = sleeper.take("old")
        assert sleeper._renewer is not None
        sleeper._renewer.stop()  # it is suspended: nothing renews its lease
        other = RekeyStore(db, lease_seconds=5.0)
        other.take("old")
        with pytest.raises(RekeyLost):
            sleeper.save(job)
        other.release("old")


# ── mappings ─────────────────────────────────────────────────────────────────────────────────────


def test_items_without_the_new_key_are_shown_and_the_job_is_not_ready_until_they_are_mended() -> None:
    with filled_world(count=100) as db:
        broken = {name: value for name, value in comment(7).items() if name != "job_id"}
        db.execute("PutItem", {"TableName": "old", "Item": broken})
        with pytest.raises(Unmapped, match=r"comment_id=7: .*job_id") as caught:
            rekeyed(db)
        assert len(caught.value.problems) == 1
        db.execute("PutItem", {"TableName": "old", "Item": comment(7)})
        assert rekeyed(db).into_items == 100


@pytest.mark.parametrize("phase", ["comparing", "clearing", "following"])
def test_a_problem_is_not_forgotten_by_a_run_that_continues(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled_world(count=100) as db:
        broken = {name: value for name, value in comment(7).items() if name != "job_id"}
        db.execute("PutItem", {"TableName": "old", "Item": broken})
        real = RekeyStore.save

        def save(self: RekeyStore, job: RekeyRun) -> None:
            real(self, job)
            if job.phase == phase:
                raise Stopped

        monkeypatch.setattr(RekeyStore, "save", save)
        with pytest.raises(Stopped):
            rekeyed(db)
        monkeypatch.undo()
        with pytest.raises(Unmapped, match=r"comment_id=7: .*job_id"):
            rekeyed(db)


def test_two_old_items_with_one_new_key_are_both_named() -> None:
    with filled_world(count=100) as db:
        other = comment(7) | {"conversation_id": {"S": "elsewhere"}}
        db.execute("PutItem", {"TableName": "old", "Item": other})
        with pytest.raises(Unmapped, match="its new key j7, 7 is also that of"):
            rekeyed(db)
        key = {name: other[name] for name in ("conversation_id", "comment_id")}
        db.execute("DeleteItem", {"TableName": "old", "Key": key})
        rekeyed(db)
        check_new_table(db, {number: comment(number) for number in range(100)})


def test_an_item_that_an_index_of_the_new_table_cannot_hold_is_shown_and_keeps_no_other_out() -> None:
    with filled_world(count=60) as db:
        wrong = comment(7) | {"topic": {"N": "1"}}
        db.execute("PutItem", {"TableName": "old", "Item": wrong})
        with pytest.raises(Unmapped, match=r"comment_id=7: the new table refuses it: .*topic") as caught:
            rekeyed(db, indexes=["by-topic=topic:S"])
        assert len(caught.value.problems) == 1
        assert len(everything(db, "new")) == 59
        db.execute("PutItem", {"TableName": "old", "Item": comment(7) | {"topic": {"S": "1"}}})
        assert rekeyed(db).into_items == 60


def test_a_mapping_that_fits_nothing_stops_early() -> None:
    with filled_world(count=1_500) as db:
        with pytest.raises(TooManyProblems, match="another --map"):
            rekeyed(db, map="job_id=nowhere")
        kept = RekeyStore(db).read("old")
        assert kept is not None
        assert (kept.problem_count, len(kept.problems)) == (1_001, 20)
        assert run_of(db).resume("old", map="").phase == "ready"


def test_a_key_swapped_between_two_items_ends_right() -> None:
    """A leaves a new key and B takes it, before either change was followed."""
    with filled_world(count=10) as db:
        rekeyed(db)
        one, two = comment(1) | {"comment_id": {"N": "1"}}, comment(1) | {"conversation_id": {"S": "other"}}
        db.execute("PutItem", {"TableName": "old", "Item": one | {"job_id": {"S": "moved"}}})
        db.execute("PutItem", {"TableName": "old", "Item": two})
        assert rekeyed(db).problem_count == 0
        found = everything(db, "new")
        assert found["moved", "1"]["conversation_id"] == {"S": "c1"}
        assert found["j1", "1"]["conversation_id"] == {"S": "other"}


def test_a_function_maps_items_in_python_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rekey_map_sample.py").write_text(
        "def by_month(item):\n    return {**item, 'month': f\"2026-{item['comment_id'] % 12 + 1:02d}\", 'rank': 7.50}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with filled_world(count=50) as db:
        job = plan_rekey(db, "old", "new", "month:S,comment_id:N", map="rekey_map_sample:by_month")
        assert run_of(db).start(job).into_items == 50
        assert everything(db, "new")["2026-04", "3"]["rank"] == {"N": "7.5"}
    sys.modules.pop("rekey_map_sample", None)


def test_a_mapping_that_loses_the_old_key_is_told_so() -> None:
    with filled_world(count=1) as db:
        old, new = db.key_of("old"), db.key_of("old")
        mapped = parse_mapping("conversation_id=author", old, new)(comment(3))
        assert isinstance(mapped, Problem)
        assert "must keep conversation_id" in mapped.text


# ── what is refused ──────────────────────────────────────────────────────────────────────────────


def test_what_cannot_be_done_is_refused_before_anything_is_made() -> None:
    with filled_world(count=1, table=OLD.replace(stream="KEYS_ONLY")) as db:
        with pytest.raises(PenstockError, match="shows KEYS_ONLY"):
            plan_rekey(db, "old", "new", NEW_KEY)
        with pytest.raises(PenstockError, match="cannot alter a key or a local index in place"):
            plan_rekey(db, "old", "old", NEW_KEY)
        with pytest.raises(PenstockError, match="no table nothing"):
            plan_rekey(db, "nothing", "new", NEW_KEY)
        assert db.tables() == ["old"]


def test_a_local_index_becomes_a_global_one_where_the_partition_key_changes() -> None:
    made = new_definition(OLD, "new", TableOptions(NEW_KEY, ("by-conversation=conversation_id:S,comment_id:N",)))
    assert made.local_indexes == ()
    assert [one.name for one in made.indexes] == ["by-author", "by-conversation", "by-time"]
    table = Table("old", key=("a:S", "b:S"), indexes=[Index("local", "a:S", "c:S", local=True)])
    assert new_definition(table, "new", TableOptions("a:S,d:S")).local_indexes == table.indexes


# ── the command ──────────────────────────────────────────────────────────────────────────────────


def test_the_command_walks_the_whole_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "a.db")
    filled_world(url, count=40).close()

    def penstock(*words: str) -> tuple[int, str]:
        told = CliRunner().invoke(cli, ["tables", "rekey", *words, "--db", url])
        return told.exit_code, told.output

    assert penstock("old")[0] == 2
    code, text = penstock("old", "--key", NEW_KEY, "--into", "new", "--dry-run")
    assert code == 0
    assert "old (conversation_id, comment_id) → new (job_id, comment_id)" in text
    code, text = penstock("old", "--key", NEW_KEY, "--into", "new")
    assert code == 0, text
    assert "stop what writes to old" in text
    assert "DynamoDB cannot swap or rename tables" in text
    code, text = penstock("old", "--into", "other")
    assert code == 1
    assert "is ready, and was begun with other options for --into: --into new --key job_id:S,comment_id:N" in text
    assert f"end it (`penstock tables rekey rollback old --db {url}`)" in text
    assert json.loads(penstock("status", "old", "--json")[1])["phase"] == "ready"
    assert penstock("rollback", "old")[0] == 2
    assert penstock("rollback", "old", "--yes") == (0, "Rolled back: new is deleted, old is as it was.\n")
    assert penstock("old", "--key", NEW_KEY, "--into", "new")[0] == 0
    code, text = penstock("confirm", "old")
    assert code == 0, text
    read, destroy = (line.strip() for line in text.splitlines()[-2:])
    monkeypatch.chdir(tmp_path)
    for line in (read, f"{destroy} --yes --allow-destroy"):
        told = CliRunner().invoke(cli, line.split()[1:])
        assert told.exit_code == 0, told.output
    with connect(url) as db:
        assert "old" not in db.execute("ListTables")["TableNames"]


def test_a_table_is_rekeyed_again_when_its_rekey_is_confirmed(tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    filled_world(url, count=40).close()

    def penstock(*words: str) -> None:
        told = CliRunner().invoke(cli, ["tables", "rekey", *words, "--db", url])
        assert told.exit_code == 0, told.output

    penstock("old", "--key", NEW_KEY, "--into", "first")
    penstock("confirm", "old")
    penstock("old", "--key", "author:S,comment_id:N", "--into", "second")
    penstock("confirm", "old")
    with connect(url) as db:
        assert len(everything(db, "first")) == len(everything(db, "second")) == 40


def test_of_two_runs_that_begin_the_next_rekey_one_is_refused() -> None:
    with filled_world(count=10) as db:
        rekeyed(db)
        run_of(db).confirm("old", quiet_seconds=0.0)
        planned = plan_rekey(db, "old", "second", NEW_KEY)
        first, second = RekeyStore(db), RekeyStore(db)
        first.begin(planned)
        with pytest.raises(RekeyHeld):
            second.begin(planned)
        first.release("old")


def test_apply_keeps_the_stream_that_an_unfinished_rekey_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "a.db")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "streamless.py").write_text(
        "from rekey_world import OLD\ntables = [OLD]\nother_view = [OLD.replace(stream='KEYS_ONLY')]\n"
    )
    with filled_world(url, count=10) as db:
        rekeyed(db)

    def penstock(*words: str) -> str:
        told = CliRunner().invoke(cli, ["tables", *words, "--db", url])
        assert told.exit_code == 0, told.output
        return told.output

    for tables in ("streamless:tables", "streamless:other_view"):
        text = penstock("apply", tables, "--yes")
        assert "old   note: its stream stays as it is until the rekey that reads it" in text
        assert "Nothing to do" in text
        assert "note: its stream stays" in penstock("verify", tables)
        assert "stays as it is" in json.loads(penstock("plan", tables, "--json"))["notes"]["old"]
        assert "stays as it is" in json.loads(penstock("apply", tables, "--yes", "--json"))["notes"]["old"]
    penstock("rekey", "confirm", "old")
    with connect(url) as db:
        db.execute(
            "UpdateTable",
            {"TableName": "old", "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}},
        )
    assert "- stream" in penstock("apply", "streamless:tables", "--yes", "--allow-destroy")
