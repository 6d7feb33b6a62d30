"""The page about runs over records: what they did, what failed, and trying that again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from dashboard_tables_world import EVIL, TableWorld, csrf_of

from penstock.records.processor import RecordProcessor
from penstock.records.run.report import Progress, Report
from penstock.records.run_records import RunLog
from penstock.web.dashboard.pages import records
from penstock.web.dashboard.pages.records import run_line

FEW_RECORDS = 5


@pytest.fixture
def world() -> Iterator[TableWorld]:
    found = TableWorld()
    yield found
    found.close()


def fail_records(world: TableWorld, count: int = FEW_RECORDS, message: str = "no such project") -> None:
    """Records whose only attempt has failed."""

    def fail(record: dict[str, Any]) -> None:
        raise ValueError(f"{message} {record['id']}")

    for number in range(count):
        world.put("things", id=f"{number:03d}")
    RecordProcessor(world.db.table("things"), max_retries=0, max_workers=1).process_all(fail)


def log(world: TableWorld, run_id: str = "run_1", table: str = "things", **about: Any) -> RunLog:
    found = RunLog(world.db, run_id, table)
    found.begin(**about)
    return found


def test_without_runs_it_says_how_to_make_one(world: TableWorld) -> None:
    assert "penstock records process" in world.page("/records")


def test_a_run_shows_how_far_it_is_and_what_failed(world: TableWorld) -> None:
    report = Report(processed=40, failed=10)
    report.failures_by_kind.update({"ValueError": 7, "Timeout": 3})
    log(world, function="work:handle", total=200).tell(Progress(40, 10, 4, 0, 10.0, 5.0, 200), report)
    page = world.page("/records")
    for told in (
        "run_1",
        "work:handle",
        "25 %",
        "of 200",
        "30.0 s left",
        "4 at it",
        "7 ValueError, 3 Timeout",
        "running",
    ):
        assert told in page
    assert 'data-live="/live/records"' in page
    assert 'href="/records/failures?table=things"' in page


def test_a_run_that_has_ended_and_one_that_fell_silent_are_told_apart() -> None:
    item = {"run_id": "r", "state": "running", "started_at": Decimal("100.5"), "updated_at": Decimal("110")}
    assert run_line(item, 120.0).state == "running"
    assert run_line(item, 200.0).state == "silent"
    ended = run_line({**item, "state": "completed", "ended_at": 130, "processed": 3}, 1_000.0)
    assert (ended.state, ended.seconds, ended.percent, ended.done) == ("completed", 29.5, 100.0, 3)


def test_an_item_that_no_run_has_written_breaks_nothing(world: TableWorld) -> None:
    log(world)
    strange = {"run_id": "odd", "state": 7, "started_at": "soon", "failures_by_kind": ["x"], "total": {"a": 1}}
    world.put("penstock-record-runs", **strange)
    assert "odd" in world.page("/records")


def test_open_pages_are_told_of_runs_with_one_read_for_all(world: TableWorld) -> None:
    log(world)
    feed = world.client.app.state.poller.feeds["records"]  # type: ignore[attr-defined]
    world.switch.calls.clear()
    told = feed.poll(["", "a", "b"])
    assert all("run_1" in messages[0].data for messages in told.values()) and len(told) == 3
    assert world.switch.calls == ["Scan"]


def test_failures_are_grouped_by_kind_and_message(world: TableWorld) -> None:
    fail_records(world)
    page = world.page("/records/failures", table="things")
    assert "5 failed records" in page
    assert len(re.findall("<b>ValueError</b>", page)) == 1
    assert "no such project" in page and "id=000" in page


def test_a_redrive_is_previewed_then_done(world: TableWorld) -> None:
    fail_records(world)
    page = world.page("/records/failures", table="things")
    form = {"csrf": csrf_of(page), "table": "things", "kind": "ValueError"}
    preview = world.post("/records/preview", form)
    assert "Make 5 records of things pending again?" in preview.text
    assert "Nothing has been done yet" in preview.text
    processor = RecordProcessor(world.db.table("things"))
    assert processor.count_failures() == FEW_RECORDS
    done = world.post("/records/redrive", form)
    assert "5 records of things are pending again" in done.text
    assert processor.count_failures() == 0
    assert "No record of things has failed" in world.page("/records/failures", table="things")


def test_only_the_group_that_was_chosen_is_redriven(world: TableWorld) -> None:
    fail_records(world)
    form = {"csrf": csrf_of(world.page("/records/failures", table="things")), "table": "things"}
    assert "0 records" in world.post("/records/redrive", {**form, "kind": "KeyError"}).text
    assert "0 records" in world.post("/records/redrive", {**form, "message": "another"}).text
    assert RecordProcessor(world.db.table("things")).count_failures() == FEW_RECORDS


def test_nothing_is_redriven_without_the_token_or_in_read_only_mode(world: TableWorld) -> None:
    fail_records(world, 1)
    for path in ("/records/preview", "/records/redrive"):
        assert world.post(path, {"csrf": "0" * 64, "table": "things"}).status_code == 403
    assert RecordProcessor(world.db.table("things")).count_failures() == 1
    closed = TableWorld(read_only=True)
    fail_records(closed, 1)
    assert "Try again" not in closed.page("/records/failures", table="things")
    assert closed.post("/records/redrive", {"table": "things"}).status_code == 403
    closed.close()


@pytest.mark.parametrize("fields", [{}, {"table": ""}, {"table": "no-such-table"}, {"table": EVIL}])
def test_failures_of_no_table_are_not_found(world: TableWorld, fields: dict[str, str]) -> None:
    response = world.get("/records/failures", **fields)
    assert response.status_code in (400, 404)
    assert "<script>alert" not in response.text


def test_what_only_looks_like_a_failed_record_breaks_nothing(world: TableWorld) -> None:
    fail_records(world, 1)
    world.put("things", id="odd", _penstock="parked, said somebody")
    response = world.get("/records/failures", table="things")
    assert response.status_code == 400
    assert "was written by something else" in response.text


def test_a_table_too_large_for_a_page_is_left_to_the_command_line(
    world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_records(world, 3)
    monkeypatch.setattr(records, "_MOST_RECORDS", 2)
    response = world.get("/records/failures", table="things")
    assert response.status_code == 400
    assert "penstock records failures things" in response.text


def test_html_in_every_field_stays_text(world: TableWorld) -> None:
    report = Report(processed=1, failed=1)
    report.failures_by_kind[EVIL] = 1
    log(world, EVIL, "things", function=EVIL).tell(Progress(1, 1, 0, 0, 1.0, 1.0), report)
    world.put("things", id=EVIL)
    fail_records(world, 1, EVIL)
    page = world.page("/records/failures", table="things")
    form = {"csrf": csrf_of(page), "table": "things", "kind": EVIL, "message": EVIL, "bookkeeping": EVIL}
    for text in (world.page("/records"), page, world.post("/records/preview", form).text):
        assert "<script>alert" not in text
        assert "<img src=x" not in text


def test_a_database_that_goes_away_is_told_of(world: TableWorld) -> None:
    world.switch.away = True
    for path in ("/records", "/records/failures?table=things"):
        assert world.get(path).status_code == 503
    world.switch.away = False
    assert world.get("/records").status_code == 200
