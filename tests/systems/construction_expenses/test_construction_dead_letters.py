"""S1.21: what fails for good is in the dead-letter table, with all of its history, and is replayed from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from construction_world import new_books, webhook

from penstock.client.database import connect
from penstock.client.tables.transactions import Action
from penstock.clock import ManualClock
from penstock.systems.construction_expenses.books import DAY_SECONDS, Books, NotThere
from penstock.systems.construction_expenses.demo import demo
from penstock.systems.construction_expenses.webhooks.intake import Intake, Receipt, Transient
from penstock.systems.construction_expenses.webhooks.webhook import Webhook

World = tuple[Books, ManualClock]
ENTRY = "dlq_evt_001"

ATTRIBUTES = (
    "dlqEntryId",
    "webhookId",
    "eventType",
    "payload",
    "failureReason",
    "retryCount",
    "maxRetries",
    "firstFailedAt",
    "lastFailedAt",
    "status",
    "processingHistory",
    "ttl",
)
"""What an entry has: these, and nothing else."""


@pytest.fixture(params=["embedded", "http"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with new_books(request.param) as made:
        yield made


def counted(received: Webhook, books: Books) -> Iterable[Action]:
    return [books.companies.table.update_action({"companyId": received.webhook_id}, add={"handled": 1})]


def busy(received: Webhook, books: Books) -> Iterable[Action]:
    raise Transient("busy")


def broken(received: Webhook, books: Books) -> Iterable[Action]:
    raise ValueError("broken")


def good(books: Books, clock: ManualClock) -> Intake:
    return Intake(books, counted, wait=clock.advance)


def bury(books: Books, clock: ManualClock, *numbers: int) -> list[Receipt]:
    intake = Intake(books, broken, wait=clock.advance)
    return [intake.receive(webhook(number)) for number in numbers or (1,)]


def handled(books: Books, number: int = 1) -> int:
    return int((books.companies.get(f"evt_{number:03d}") or {}).get("handled", 0))


def test_S1_21_an_entry_has_exactly_the_attributes_that_were_listed(world: World) -> None:
    books, clock = world
    began = clock.now()
    receipt = Intake(books, busy, wait=clock.advance).receive(webhook())
    assert (receipt.outcome, receipt.dlq_entry_id, receipt.attempts, receipt.retries) == ("dead-lettered", ENTRY, 6, 5)
    entry = books.dead_letters.table.get({"dlqEntryId": ENTRY})
    assert entry is not None
    assert sorted(entry) == sorted(ATTRIBUTES)
    assert {name: entry[name] for name in ("webhookId", "eventType", "status", "retryCount", "maxRetries")} == {
        "webhookId": "evt_001",
        "eventType": "subscription.created",
        "status": "pending",
        "retryCount": 5,
        "maxRetries": 5,
    }
    assert entry["payload"] == webhook().payload
    assert entry["failureReason"] == "Transient: busy"
    assert (entry["firstFailedAt"][-7:], entry["lastFailedAt"][-7:]) == ("20.000Z", "51.000Z")
    assert len(entry["processingHistory"]) == 6
    assert clock.now() - began == 31
    assert entry["ttl"] == int(clock.now()) + 180 * DAY_SECONDS


def test_S1_21_a_dead_webhook_that_is_delivered_again_is_not_tried_again(world: World) -> None:
    books, clock = world
    bury(books, clock)
    receipt = good(books, clock).receive(webhook())
    assert (receipt.outcome, receipt.attempts) == ("dead-lettered", 1)
    assert handled(books) == 0


def test_S1_21_a_replay_does_it_once_however_often(world: World) -> None:
    books, clock = world
    bury(books, clock)
    intake = good(books, clock)
    first, second = intake.replay(ENTRY), intake.replay(ENTRY)
    assert (first.outcome, second.outcome) == ("handled", "duplicate")
    assert handled(books) == 1
    entry = books.dead_letters.required(ENTRY)
    assert sorted(entry) == sorted(ATTRIBUTES)
    assert entry["status"] == "replayed"
    assert [one["outcome"] for one in entry["processingHistory"]] == ["failed", "completed"]
    assert intake.receive(webhook()).outcome == "duplicate"


def test_S1_21_a_replay_that_fails_again_has_all_its_retries_and_can_be_replayed(world: World) -> None:
    books, clock = world
    bury(books, clock)
    receipt = Intake(books, busy, wait=clock.advance).replay(ENTRY)
    assert (receipt.outcome, receipt.attempts, receipt.retries) == ("dead-lettered", 7, 5)
    entry = books.dead_letters.required(ENTRY)
    assert (entry["status"], entry["failureReason"]) == ("failed", "Transient: busy")
    assert entry["firstFailedAt"] < entry["lastFailedAt"]
    assert good(books, clock).replay(ENTRY).outcome == "handled"
    assert len(books.dead_letters.required(ENTRY)["processingHistory"]) == 8


def test_S1_21_all_of_a_status_are_replayed_each_once(world: World) -> None:
    books, clock = world
    bury(books, clock, *range(12))
    assert [one.outcome for one in good(books, clock).replay_all(limit=5)] == ["handled"] * 5
    assert len(list(books.dead_letters.by_status("pending"))) == 7
    again = list(Intake(books, broken, wait=clock.advance).replay_all())
    assert [one.outcome for one in again] == ["dead-lettered"] * 7
    assert [len(list(books.dead_letters.by_status(status))) for status in ("pending", "failed", "replayed")] == [
        0,
        7,
        5,
    ]
    # Those that fail again stand in the same index again, and are not tried for ever.
    assert len(list(Intake(books, broken, wait=clock.advance).replay_all("failed"))) == 7
    assert [one.outcome for one in good(books, clock).replay_all("failed")] == ["handled"] * 7
    assert [handled(books, number) for number in range(12)] == [1] * 12


def test_S1_21_two_that_replay_at_once_do_it_once() -> None:
    with new_books() as (books, clock):
        bury(books, clock)
        inner: list[Receipt] = []

        def slow(received: Webhook, there: Books) -> Iterable[Action]:
            inner.append(good(books, clock).replay(ENTRY))
            return counted(received, there)

        assert Intake(books, slow, wait=clock.advance).replay(ENTRY).outcome == "handled"
        assert inner[0].outcome == "elsewhere"
        assert handled(books) == 1


def test_S1_21_an_entry_outlives_its_webhooks_record_and_can_still_be_replayed() -> None:
    with new_books() as (books, clock):
        bury(books, clock)
        clock.advance(100 * DAY_SECONDS)
        assert books.webhooks.get("evt_001") is None, "records live for 90 days"
        receipt = good(books, clock).replay(ENTRY)
        assert (receipt.outcome, receipt.attempts) == ("handled", 2)
        assert handled(books) == 1
        clock.advance(81 * DAY_SECONDS)
        with pytest.raises(NotThere, match="has no dlqEntryId 'dlq_evt_001'"):
            good(books, clock).replay(ENTRY)


def test_S1_21_the_newest_hundred_of_its_history_fit_beside_a_large_payload() -> None:
    def talkative(received: Webhook, there: Books) -> Iterable[Action]:
        raise ValueError("€" * 100_000)

    with new_books() as (books, clock):
        intake = Intake(books, talkative, wait=clock.advance)
        intake.receive(webhook(1, note="y" * 299_000))
        for _ in range(104):
            intake.replay(ENTRY)
        history = books.dead_letters.required(ENTRY)["processingHistory"]
        assert (len(history), history[-1]["attempt"]) == (100, 105)
        assert history[-1]["message"] == "€" * 166


def test_the_demo_shows_all_of_it(tmp_path: Path) -> None:
    told: list[float] = []
    with connect(":memory:") as db:
        facts = demo(db, tmp_path, lambda part, text: told.append(part))
    assert facts["tables"] == 13
    assert facts["retries of one that came too early"] == 5
    assert facts["then"] == "dead-lettered, replayed: handled, delivered again: duplicate"
    assert (facts["signed webhook"], facts["forged webhook"]) == ("completed", "refused")
    assert facts["subscription, an old one being cancelled"] == "demo-sub active"
    assert facts["expenses of a CSV file"] == "2 added, again: 0"
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(list((tmp_path / "infrastructure" / "schemas").glob("*.json"))) == 13
