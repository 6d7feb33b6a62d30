"""S1.20: webhooks are handled once, whatever arrives how often and whoever dies; only transient errors are retried."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from construction_world import TEST, event, new_books, webhook
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.database import Database, connect
from penstock.client.tables.transactions import Action
from penstock.clock import ManualClock
from penstock.errors import (
    ConditionalCheckFailedException,
    ConnectionFailed,
    ProvisionedThroughputExceededException,
    TimedOut,
    ValidationException,
)
from penstock.systems.construction_expenses.books import DAY_SECONDS, Books
from penstock.systems.construction_expenses.webhooks import webhook_record
from penstock.systems.construction_expenses.webhooks.intake import Intake, Transient, failure_of, is_transient
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.webhook import (
    BadWebhook,
    Webhook,
    WebhookDiffers,
    read_webhooks,
    webhook_of,
)

World = tuple[Books, ManualClock]


@pytest.fixture(params=["embedded", "http"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with new_books(request.param) as made:
        yield made


class Handler:
    """Raises what it was given, one after the other; then it counts in the companies' table."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, received: Webhook, books: Books) -> Iterable[Action]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return [books.companies.table.update_action({"companyId": received.webhook_id}, add={"handled": 1})]


def effects(books: Books, webhook_id: str = "evt_001") -> int:
    return int((books.companies.get(webhook_id) or {}).get("handled", 0))


# ── once ─────────────────────────────────────────────────────────────────────────────────────────


def test_S1_20_a_webhook_is_handled_once_by_its_id(world: World) -> None:
    books, clock = world
    handler = Handler()
    intake = Intake(books, handler, wait=clock.advance)
    first, second = intake.receive(webhook()), intake.receive(webhook())
    assert (first.outcome, second.outcome) == ("handled", "duplicate")
    assert (handler.calls, effects(books)) == (1, 1)
    (found,) = books.webhooks.of_alert("subscription.created")
    assert found["ttl"] == int(clock.now()) + 90 * DAY_SECONDS
    assert [one["outcome"] for one in found["processingHistory"]] == ["completed"]


def test_S1_20_an_id_with_another_payload_is_refused(world: World) -> None:
    books, _ = world
    intake = Intake(books, Handler())
    intake.receive(webhook())
    with pytest.raises(WebhookDiffers, match="evt_001: a webhook with this id and another payload"):
        intake.receive(webhook(status="canceled"))
    assert effects(books) == 1


def test_S1_20_numbers_in_a_payload_do_not_make_it_another(world: World) -> None:
    books, _ = world
    intake = Intake(books, Handler())
    intake.receive(webhook(rate=0.1, whole=1.0, many=[1e22, -0.0]))
    assert intake.receive(webhook(rate=0.1, whole=1.0, many=[1e22, -0.0])).outcome == "duplicate"


def test_S1_20_two_at_once_handle_it_once() -> None:
    """The second arrives while the first is in its handler."""
    with new_books() as (books, clock):
        second = Intake(books, Handler(), owner="second", wait=clock.advance)
        inner = []

        def slow(received: Webhook, there: Books) -> Iterable[Action]:
            inner.append(second.receive(webhook()))
            return Handler()(received, there)

        assert Intake(books, slow, owner="first").receive(webhook()).outcome == "handled"
        assert (inner[0].outcome, inner[0].status) == ("elsewhere", "processing")
        assert effects(books) == 1


def test_S1_20_threads_that_receive_the_same_webhooks_handle_each_once(world: World) -> None:
    books, _ = world
    handlers = [Handler() for _ in range(4)]

    def receive(handler: Handler) -> None:
        intake = Intake(books, handler, wait=None)
        for number in range(10):
            intake.receive(webhook(number))

    threads = [threading.Thread(target=receive, args=(handler,)) for handler in handlers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(handler.calls for handler in handlers) == 10
    assert [effects(books, f"evt_{number:03d}") for number in range(10)] == [1] * 10


def receiver(path: Path, owner: str, number: int) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("construction_receiver.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(path), owner, str(number)], stdout=subprocess.PIPE, text=True
    )


def test_S1_20_processes_that_receive_the_same_webhooks_handle_each_once(tmp_path: Path) -> None:
    path = tmp_path / "expenses.db"
    with connect(path) as db:
        books = Books(db, TEST)
        books.make_tables()
        processes = [receiver(path, f"process {number}", 20) for number in range(3)]
        told = [process.communicate(timeout=120)[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0]
        assert Counter("".join(told).split()) == {f"evt_{number:03d}": 1 for number in range(20)}
        assert [effects(books, f"evt_{number:03d}") for number in range(20)] == [1] * 20


@pytest.mark.crash
def test_S1_20_what_a_dead_process_left_is_finished_when_its_lease_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "expenses.db"
    with connect(path) as db:
        Books(db, TEST).make_tables()
        process = receiver(path, "doomed", 1)
        process.communicate(timeout=120)
        assert process.returncode == 9
        clock = ManualClock(Books(db, TEST).clock.now())
        books = Books(db, TEST, clock=clock)
        intake = Intake(books, Handler(), wait=clock.advance)
        assert intake.receive(webhook(0)).outcome == "elsewhere", "its lease has not ended"
        assert list(intake.resume()) == []
        clock.advance(40)
        (receipt,) = intake.resume()
        assert (receipt.outcome, receipt.attempts, receipt.retries) == ("handled", 2, 1)
        history = books.webhooks.required("evt_000")["processingHistory"]
        assert [one.get("kind", "completed") for one in history] == ["Abandoned", "completed"]
        assert effects(books, "evt_000") == 1


def test_S1_20_a_holder_that_was_overtaken_writes_nothing() -> None:
    """It slept past its lease; another took the webhook and did it."""
    with new_books() as (books, clock):
        other = Handler()

        def sleepy(received: Webhook, there: Books) -> Iterable[Action]:
            clock.advance(60)
            assert Intake(books, other, owner="other").receive(webhook()).outcome == "handled"
            return Handler()(received, there)

        receipt = Intake(books, sleepy, owner="sleepy", wait=clock.advance).receive(webhook())
        assert (receipt.outcome, receipt.status) == ("elsewhere", "completed")
        assert effects(books) == 1


def test_S1_20_a_holder_that_was_overtaken_writes_nothing_while_the_other_is_at_it() -> None:
    """Both are in their handlers, and the record is processing: only the lease's token tells them apart."""
    with new_books() as (books, clock):
        overtaken = threading.Event()
        in_handler = threading.Event()
        receipts = []

        def frozen(received: Webhook, there: Books) -> Iterable[Action]:
            in_handler.set()
            assert overtaken.wait(60)
            return Handler()(received, there)

        first = threading.Thread(target=lambda: receipts.append(Intake(books, frozen).receive(webhook())))
        first.start()
        assert in_handler.wait(60)
        clock.advance(60)

        def other(received: Webhook, there: Books) -> Iterable[Action]:
            overtaken.set()
            first.join(60)
            assert effects(books) == 0
            return Handler()(received, there)

        assert Intake(books, other).receive(webhook()).outcome == "handled"
        assert receipts[0].outcome == "elsewhere"
        assert effects(books) == 1


def test_S1_20_a_webhook_that_ends_every_process_is_dead_lettered() -> None:
    with new_books() as (books, clock):
        intake = Intake(books, Handler(), wait=clock.advance)
        record = intake._record(webhook())
        for _ in range(6):
            record = intake._change(record, webhook_record.started(record, "dead", clock.now(), 30))
            clock.advance(40)
        (receipt,) = intake.resume()
        assert (receipt.outcome, receipt.retries) == ("dead-lettered", 5)
        assert receipt.reason is not None
        assert receipt.reason.startswith("Abandoned: ")
        assert effects(books) == 0


def test_S1_20_a_lease_is_renewed_while_a_handler_runs(tmp_path: Path) -> None:
    """By the machine's clock: the handler runs until its lease has moved."""
    with connect(tmp_path / "expenses.db") as db:
        books = Books(db, TEST)
        books.make_tables()

        def slow(received: Webhook, there: Books) -> Iterable[Action]:
            deadline = time.monotonic() + 60
            first = webhook_record.lease_of(books.webhooks.required(received.webhook_id))
            while (lease := webhook_record.lease_of(books.webhooks.required(received.webhook_id))) == first:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert lease.until > first.until and lease.token == first.token
            return Handler()(received, there)

        receipt = Intake(books, slow, lease_seconds=0.9).receive(webhook())
        assert (receipt.outcome, receipt.attempts) == ("handled", 1)
        assert effects(books) == 1


class LosesAnAnswer:
    """A transport that does one transaction and says that no answer came."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name, self.lost = inner, inner.name, 0

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.inner.execute(operation, request)
        if operation == "TransactWriteItems" and not self.lost:
            self.lost += 1
            raise TimedOut(self.name, "no answer in time", sent=True)
        return answer

    def close(self) -> None:
        self.inner.close()


def test_S1_20_a_lost_answer_to_the_mark_does_not_do_it_twice() -> None:
    with new_books() as (books, clock):
        transport = LosesAnAnswer(books.db.transport)
        handler = Handler()
        flaky = Books(Database(transport), TEST, clock=clock)
        assert Intake(flaky, handler, wait=clock.advance).receive(webhook()).outcome == "handled"
        assert (transport.lost, handler.calls, effects(books)) == (1, 1, 1)


def test_S1_20_ctrl_c_gives_it_back_at_once() -> None:
    with new_books() as (books, clock):
        with pytest.raises(KeyboardInterrupt):
            Intake(books, Handler(KeyboardInterrupt())).receive(webhook())
        (receipt,) = Intake(books, Handler(), wait=clock.advance).resume()
        assert (receipt.outcome, receipt.attempts, receipt.retries) == ("handled", 1, 0)


# ── retries ──────────────────────────────────────────────────────────────────────────────────────


def test_S1_20_a_transient_error_is_retried_five_times_at_1_2_4_8_16_seconds(world: World) -> None:
    books, clock = world
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    handler = Handler(*[Transient("busy")] * 5)
    receipt = Intake(books, handler, wait=wait).receive(webhook())
    assert (receipt.outcome, receipt.attempts, receipt.retries) == ("handled", 6, 5)
    assert waits == [1, 2, 4, 8, 16]
    history = books.webhooks.required("evt_001")["processingHistory"]
    assert [one["outcome"] for one in history] == ["failed"] * 5 + ["completed"]
    assert [one["attempt"] for one in history] == [1, 2, 3, 4, 5, 6]
    assert [one["at"][-7:-1] for one in history] == ["20.000", "21.000", "23.000", "27.000", "35.000", "51.000"]


def test_S1_20_any_other_error_is_not_retried(world: World) -> None:
    books, clock = world
    handler = Handler(ValueError("not again"), ValueError("unused"))
    receipt = Intake(books, handler, wait=clock.advance).receive(webhook())
    assert (receipt.outcome, receipt.attempts, receipt.retries) == ("dead-lettered", 1, 0)
    assert receipt.reason == "ValueError: not again"
    assert handler.calls == 1


def test_S1_20_without_waiting_the_next_attempt_is_left_to_resume() -> None:
    with new_books() as (books, clock):
        handler = Handler(*[Transient("busy")] * 2)
        intake = Intake(books, handler, wait=None)
        assert intake.receive(webhook()).outcome == "waiting"
        assert intake.receive(webhook()).outcome == "waiting", "a second delivery does not hurry it"
        assert list(intake.resume()) == []
        clock.advance(1)
        (receipt,) = intake.resume()
        assert (receipt.outcome, receipt.retries) == ("waiting", 2)
        clock.advance(2)
        (receipt,) = intake.resume()
        assert receipt.outcome == "handled"
        assert list(intake.resume()) == []


class AwsError(Exception):
    """As botocore's ClientError has it."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__("Rate exceeded. Please try again")
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class WebError(Exception):
    """As HTTP libraries have it."""

    def __init__(self, status: int) -> None:
        self.response = SimpleNamespace(status_code=status)


def http_error(status: int) -> HTTPError:
    return HTTPError("https://example.org", status, "busy", Message(), None)


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (Transient("x"), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ProvisionedThroughputExceededException("x"), True),
        (ConnectionFailed("http://x", "refused"), True),
        (AwsError("ThrottlingException"), True),
        (AwsError("SlowDown", 503), True),
        (AwsError("SomethingNew", 500), True),
        (WebError(503), True),
        (WebError(429), True),
        (http_error(502), True),
        (URLError(TimeoutError()), True),
        (ValidationException("Throttling, timeout, please try again"), False),
        (ConditionalCheckFailedException("x"), False),
        (AwsError("AccessDenied", 403), False),
        (WebError(404), False),
        (http_error(400), False),
        (URLError("no such host"), False),
        (FileNotFoundError(), False),
        (ValueError("timeout: connection reset, throttled, 503"), False),
        (BadWebhook("timeout"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_S1_20_an_error_is_judged_by_its_type_and_code_never_by_its_text(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient
    assert failure_of(error).retryable is transient


STEPS: dict[str, Callable[[], BaseException | None]] = {
    "ok": lambda: None,
    "transient": lambda: Transient("busy"),
    "permanent": lambda: ValueError("bad"),
}


@settings(max_examples=30)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=8))
def test_S1_20_whatever_happens_in_attempts_the_record_tells_it(steps: list[str]) -> None:
    """A model: attempts go on over transient errors, at most 6 of them, and stop at the first other step."""
    tried = 0
    while tried < min(len(steps), 6) and steps[tried] == "transient":
        tried += 1
    last = "transient" if tried == 6 else steps[tried] if tried < len(steps) else "ok"
    with new_books() as (books, clock):
        errors = [STEPS[step]() for step in steps]

        def handler(received: Webhook, there: Books) -> Iterable[Action] | None:
            error = errors.pop(0) if errors else None
            if error is not None:
                raise error
            return None

        receipt = Intake(books, handler, wait=clock.advance).receive(webhook())
        assert receipt.outcome == ("handled" if last == "ok" else "dead-lettered")
        assert receipt.attempts == (6 if tried == 6 else tried + 1)
        record = books.webhooks.required("evt_001")
        assert len(record["processingHistory"]) == receipt.attempts
        assert ("processedAt" in record) == (last == "ok")
        assert len(list(books.dead_letters.all())) == (last != "ok")


# ── what arrives ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "this is no JSON"),
        (b"{", "this is no JSON"),
        (b'{"event_id": NaN}', "this is no JSON"),
        (b'{\n"event_id": 1,\n}', "this is no JSON"),
        (b'{"event_id":"1","event_type":"x"}\nnonsense', "line 2 is no JSON"),
        (b'"evt"', "a webhook is a JSON object, not str"),
        (b"{}", "event_id or alert_id"),
        (b'{"event_id": "", "event_type": "x"}', "event_id or alert_id"),
        (b'{"event_id": true, "event_type": "x"}', "event_id or alert_id"),
        (b'{"event_id": "1"}', "event_type or alert_name"),
        (b'{"event_id": "1", "event_type": "x", "occurred_at": "soon"}', "occurred_at: 'soon' is no time"),
        (b'{"event_id": "1", "event_type": "x", "data": "' + b"y" * 310_000 + b'"}', "300,000 are taken"),
        (b'{"event_id": "1", "event_type": "x", "n": 1e400}', "no JSON"),
        (b'{"event_id": "' + b"1" * 1_001 + b'", "event_type": "x"}', "more than 1,000 bytes"),
        (b'{"event_id": "1", "event_type": "x", "d":' + b'{"d":' * 40 + b"1" + b"}" * 41, "cannot be stored: "),
    ],
)
def test_S1_20_what_is_no_webhook_is_refused_with_the_reason(text: bytes, told: str) -> None:
    with pytest.raises(BadWebhook, match=told):
        read_webhooks(text)


@pytest.mark.parametrize("depth", [29, 30, 31, 32])
def test_S1_20_a_payload_that_is_taken_can_also_be_stored_and_buried(depth: int) -> None:
    """Nested as deep as an item takes, under the longest id, and failing."""
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    form = {"event_id": "é" * 500, "event_type": "é" * 500, "d": nested}
    with new_books() as (books, clock):
        try:
            received = webhook_of(form)
        except BadWebhook:
            assert depth > 30
            return
        assert depth <= 30
        receipt = Intake(books, Handler(ValueError("no")), wait=clock.advance).receive(received)
        assert receipt.outcome == "dead-lettered"


def test_a_file_may_hold_one_webhook_an_array_or_lines() -> None:
    one = b'{"event_id":"1","event_type":"x"}'
    assert [len(read_webhooks(text)) for text in (one, b"[" + one + b"," + one + b"]", one + b"\n\n" + one)] == [
        1,
        2,
        2,
    ]
    classic = webhook_of({"alert_id": 77, "alert_name": "subscription_created", "event_time": "2025-06-16 21:19:33"})
    assert (classic.webhook_id, classic.occurred_at) == ("77", "2025-06-16T21:19:33.000Z")


# ── what Paddle's events mean ────────────────────────────────────────────────────────────────────


def paddle(books: Books, clock: ManualClock) -> Intake:
    return Intake(books, handle, wait=clock.advance)


def test_paddles_events_keep_customers_subscriptions_and_payments(world: World) -> None:
    books, clock = world
    intake = paddle(books, clock)
    own = {"companyId": "c1", "userId": "u1"}
    books.pending_payments.add({"userId": "u1"})
    intake.receive(webhook(1, "customer.created", id="ctm_1", email="ada@example.org", custom_data=own))
    intake.receive(webhook(2, "subscription.created"))
    details = {"totals": {"total": "4900"}}
    paid = webhook(3, "transaction.completed", id="txn_1", currency_code="GBP", details=details, custom_data=own)
    assert intake.receive(paid).outcome == "handled"
    assert intake.receive(webhook(4, "adjustment.created")).outcome == "handled", "of no meaning here, and recorded"
    (customer,) = books.customers.by_email("ada@example.org")
    (subscription,) = books.subscriptions.by_customer("ctm_1")
    (payment,) = books.payments.of_company("c1")
    assert (customer["companyId"], subscription["companyId"], subscription["status"]) == ("c1", "c1", "active")
    assert (payment["amount"], payment["createdAt"]) == (4900, "2025-06-16T21:19:03.000Z")
    assert books.pending_payments.get("u1") is None, "it is paid"


def test_a_classic_event_is_understood(world: World) -> None:
    books, clock = world
    form = {
        "alert_id": 5,
        "alert_name": "subscription_payment_succeeded",
        "event_time": "2025-06-16 21:19:33",
        "user_id": 9,
        "order_id": "9-1",
        "sale_gross": "19.99",
        "currency": "EUR",
        "passthrough": '{"companyId": "c1"}',
    }
    assert paddle(books, clock).receive(webhook_of(form)).outcome == "handled"
    (payment,) = books.payments.of_company("c1", newest_first=True)
    assert (payment["amount"], payment["currency"], payment["paddleCustomerId"]) == (1999, "EUR", "9")


def test_events_that_arrive_in_the_wrong_order_leave_the_newest(world: World) -> None:
    books, clock = world
    intake = paddle(books, clock)
    own = {"companyId": "c1"}
    intake.receive(webhook(9, "subscription.canceled", status="canceled", custom_data=own))
    assert intake.receive(webhook(1, "subscription.created", custom_data=own)).outcome == "handled"
    (found,) = books.subscriptions.by_subscription("sub_1")
    assert (found["status"], found["occurredAt"]) == ("canceled", "2025-06-16T21:19:09.000Z")


def test_two_events_at_once_cannot_pass_each_other() -> None:
    """The older one has read; then the newer one is written; the older one's write is refused, and reads again."""
    with new_books() as (books, clock):
        own = {"companyId": "c1"}
        inner = []

        def overtaken(received: Webhook, there: Books) -> Iterable[Action]:
            actions = handle(received, there)
            if not inner:
                newer = webhook(9, "subscription.canceled", status="canceled", custom_data=own)
                inner.append(paddle(books, clock).receive(newer))
            return actions

        receipt = Intake(books, overtaken, wait=clock.advance).receive(webhook(1, custom_data=own))
        assert (receipt.outcome, receipt.retries) == ("handled", 1)
        assert books.subscriptions.required("c1")["status"] == "canceled"


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (event(1, "subscription.created", id=None), "has no subscription_id or id"),
        (event(1, "customer.created"), "has no email"),
        (event(1, "transaction.completed", currency_code="GBP"), "None is no amount"),
        (event(1, "transaction.completed", details={"totals": {"total": "much"}}), "'much' is no amount"),
        (event(1, "transaction.completed", details={"totals": {"total": "NaN"}}), "'NaN' is no amount"),
        (event(1) | {"data": 7}, "data is no object"),
        (event(1, "transaction.completed", details={"totals": {"total": "1.5"}}), "1.5 has more decimals"),
    ],
)
def test_an_event_that_lacks_what_it_is_about_is_dead_lettered_at_once(form: dict[str, Any], told: str) -> None:
    with new_books() as (books, clock):
        receipt = paddle(books, clock).receive(webhook_of(form))
        assert (receipt.outcome, receipt.attempts) == ("dead-lettered", 1)
        assert receipt.reason is not None
        assert told in receipt.reason
