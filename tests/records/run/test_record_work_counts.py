"""How much work a record is, in requests and SQL statements; and how processors that meet share the records."""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from record_worlds import filled, key, processed, processor

from penstock.client.database import Database
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.clock import ManualClock
from penstock.records.processor import RecordProcessor
from penstock.records.record_state import NONE, Claim, RecordState
from penstock.records.run.schedule import OtherProcessors
from penstock.records.source import Candidate
from penstock.records.store import drive_together


@contextmanager
def statements(db: Database) -> Iterator[list[str]]:
    """The SQL statements of this thread."""
    assert isinstance(db.transport, EmbeddedTransport)
    found: list[str] = []
    connection = db.transport.engine.store.connection()
    connection.set_trace_callback(found.append)
    yield found
    connection.set_trace_callback(None)


@pytest.mark.parametrize(("group", "most"), [(8, 9), (25, 12), (31, 20)])
@pytest.mark.parametrize("by", ["index", "table"])
def test_what_a_group_writer_claims_and_marks_together_is_few_statements(
    db: Database, by: str, group: int, most: int
) -> None:
    table = filled(db, 2 * group)
    records = processor(table) if by == "index" else RecordProcessor(table)
    found = [one for page in records._source.pages(random.Random(1)) for one in page]
    first = drive_together([records._store.claim_steps(one) for one in found[:group]], db)
    mark_steps = [records._store.mark_steps(one, None) for one in first if isinstance(one, Claim)]
    claim_steps = [records._store.claim_steps(one) for one in found[group:]]
    with statements(db) as told:
        drive_together([*mark_steps, *claim_steps], db)
    words = Counter(one.split()[0] for one in told)
    assert words["BEGIN"] == words["COMMIT"] == 1
    assert sum(words.values()) <= most, f"{words} for {2 * group} records"


def test_a_record_is_two_writes_and_no_read_of_its_own(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, writes, commits = Counter[str](), defaultdict[str, list[Any]](list), 0
    together, alone = EmbeddedTransport.execute_together, EmbeddedTransport.execute

    def counted_together(self: EmbeddedTransport, calls: Sequence[tuple[str, Any]]) -> Any:
        nonlocal commits
        commits += bool(calls)
        for operation, request in calls:
            note(operation, request)
        return together(self, calls)

    def counted(self: EmbeddedTransport, operation: str, request: Any) -> Any:
        note(operation, request)
        return alone(self, operation, request)

    def note(operation: str, request: Any) -> None:
        asked[operation] += 1
        if operation == "UpdateItem":
            writes[str(request["Key"])].append((threading.current_thread().name, request))

    records = processor(filled(db, 300))
    monkeypatch.setattr(EmbeddedTransport, "execute_together", counted_together)
    monkeypatch.setattr(EmbeddedTransport, "execute", counted)
    assert records.process_all(lambda record: None).processed == 300
    pages = asked.pop("Query")
    assert [made for made in writes.values() if len(made) != 2] == []
    assert asked == {"UpdateItem": 600}
    assert pages <= 10
    assert commits <= 300


def test_what_a_function_adds_is_processed_in_the_same_run(db: Database) -> None:
    table = filled(db, 3)

    def handle(record: dict[str, Any]) -> None:
        if record["Number"] < 20:
            added = record["Number"] + 10
            table.put({**key(added), "Processed": 0, "Number": added})

    assert processor(table).process_all(handle).processed == 9
    assert processed(table) == {first + added for first in range(3) for added in (0, 10, 20)}


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000.0)


PAGE = [Candidate({"pk": {"S": str(number)}}) for number in range(40)]


def leased(clock: ManualClock, owner: str) -> RecordState:
    return NONE.claim(owner, clock.now(), 10.0)


def test_processors_that_see_each_other_share_a_page_between_them(clock: ManualClock) -> None:
    owners = ["a", "b", "c"]
    shares = []
    for owner in owners:
        other_processors = OtherProcessors(owner, clock)
        for other in owners:
            other_processors.note_seen(leased(clock, other))
        shares.append([found.key["pk"]["S"] for found in other_processors.select_ours(PAGE, 0)])
    assert sorted(name for share in shares for name in share) == sorted(found.key["pk"]["S"] for found in PAGE)
    assert all(shares)


def test_what_was_left_is_shared_otherwise_in_the_next_pass(clock: ManualClock) -> None:
    other_processors = OtherProcessors("a", clock)
    other_processors.note_seen(leased(clock, "b"))
    assert other_processors.select_ours(PAGE, 0) != other_processors.select_ours(PAGE, 1)


def test_a_neighbour_that_was_not_met_for_some_pages_is_in_nobodys_way(clock: ManualClock) -> None:
    other_processors = OtherProcessors("a", clock)
    other_processors.note_seen(leased(clock, "b"))
    assert [len(other_processors.select_ours(PAGE, 0)) == len(PAGE) for _ in range(4)] == [False, False, True, True]


def test_one_that_claims_and_renews_nothing_is_no_neighbour_but_keeps_its_records(clock: ManualClock) -> None:
    held = Candidate({"pk": {"S": "held"}}, leased(clock, "dead").wire())
    clock.advance(6.0)
    assert OtherProcessors("a", clock).select_ours([held, *PAGE], 0) == PAGE
    clock.advance(10.0)
    assert OtherProcessors("a", clock).select_ours([held, *PAGE], 0) == [held, *PAGE]


def test_what_failed_is_left_to_a_pass_that_waits(clock: ManualClock) -> None:
    failed = leased(clock, "a").after_failure("ValueError", "no price", clock.now(), clock.now() + 5)
    found = Candidate({"pk": {"S": "failed"}}, failed.wire())
    other_processors = OtherProcessors("a", clock)
    assert other_processors.select_ours([found], 0) == [found]
    assert other_processors.select_ours([found], 1) == []
    clock.advance(5.0)
    assert other_processors.select_ours([found], 1) == [found]


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


def test_what_lies_together_in_a_file_comes_together_from_an_index(db: Database) -> None:
    records = processor(filled(db, 600))
    first, second, *_ = records._source.pages(random.Random(1))
    assert (len(first), len(second)) == (64, 256)
    names = [tuple(found.key[name]["S"] for name in ("AccountId", "RunTime")) for found in second]
    parts = [names[start : start + 16] for start in range(0, len(names), 16)]
    assert names != sorted(names)
    assert sorted(parts) == [sorted(names)[start : start + 16] for start in range(0, len(names), 16)]
