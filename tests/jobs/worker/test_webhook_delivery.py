"""Webhooks of jobs (jobs/webhooks.py): one delivery for each end, signed, retried, and only where it may go."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from job_worlds import Counting
from worker_worlds import ended, work

import penstock
from penstock.client.database import Database
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import ManualClock
from penstock.jobs.model.job import NewJob
from penstock.jobs.model.webhook import MOST_TO_ONE_HOST
from penstock.jobs.webhooks import WEBHOOK_TASK, DeliveryFailed, Webhooks
from penstock.webhooks import BadWebhook, Target, parse_target, verify

PATIENCE_SECONDS = 60.0
SECRET = "a secret of more than 16 bytes"


class Receiver:
    """A server that keeps what it is sent, and answers with the statuses it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                status, headers = receiver.answers.pop(0) if receiver.answers else (204, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hooks?token=hidden"

    def events(self) -> list[dict[str, Any]]:
        """What it was sent, if all of it is genuine."""
        return [verify(body, headers, SECRET) for _, headers, body in self.requests]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def app() -> Iterator[penstock.App]:
    with penstock.App(":memory:", webhook_secret=SECRET, allow_private_webhooks=True) as app:
        yield app


def work_once(app: penstock.App) -> None:
    """Runs what is due now."""
    penstock.Worker(app, burst=True, concurrency=2, idle_seconds=0.05).run()


def deliveries(app: penstock.App) -> list[penstock.Job]:
    return list(app.store.find(task=WEBHOOK_TASK, limit=100).jobs)


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_end_of_a_job_is_told_and_signed(app: penstock.App, receiver: Receiver) -> None:
    @app.task(webhook=receiver.url)
    def add(a: int, b: int) -> int:
        return a + b

    job = add.options(tenant="acme").enqueue(a=1, b=2)
    assert work(app).completed == 2
    ((path, headers, _),) = receiver.requests
    (event,) = receiver.events()
    assert path == "/hooks?token=hidden" and headers["Content-Type"] == "application/json"
    assert headers["webhook-id"] == deliveries(app)[0].id
    assert event["type"] == "job.completed"
    told = {name: event["data"][name] for name in ("job_id", "task", "state", "tenant", "attempts", "result")}
    assert told == {"job_id": job.id, "task": "add", "state": "completed", "tenant": "acme", "attempts": 1, "result": 3}


def test_what_a_task_declares_secret_is_not_told(app: penstock.App, receiver: Receiver) -> None:
    @app.task(webhook=receiver.url, secret=("return.key",))
    def make() -> dict[str, str]:
        return {"key": "hunter2", "id": "k1"}

    make.enqueue()
    assert work(app).completed == 2
    (event,) = receiver.events()
    assert event["data"]["result"] == {"key": "***", "id": "k1"}


def test_failures_and_cancellations_are_told(app: penstock.App, receiver: Receiver) -> None:
    @app.task()
    def bad() -> None:
        raise ValueError("no such project")

    hooked = bad.options(webhook=receiver.url)
    failed, cancelled = hooked.enqueue(), hooked.options(webhook=receiver.url, queue="other").enqueue()
    app.cancel(cancelled.id, "not needed")
    work(app, queues=("default", "other"))
    told = {event["data"]["job_id"]: event for event in receiver.events()}
    assert told[failed.id]["type"] == "job.failed"
    assert told[failed.id]["data"]["error"] == {"kind": "ValueError", "message": "no such project"}
    assert told[cancelled.id]["type"] == "job.cancelled"
    assert told[cancelled.id]["data"]["reason"] == "not needed"


def test_a_job_that_is_cancelled_with_its_parent_is_told(app: penstock.App, receiver: Receiver) -> None:
    @app.task()
    def bad() -> None:
        raise ValueError

    parent = bad.enqueue()
    child = bad.options(depends_on=[parent.id], webhook=receiver.url).enqueue()
    work(app)
    assert [event["data"]["job_id"] for event in receiver.events()] == [child.id]
    assert receiver.events()[0]["data"]["state"] == "cancelled"


def test_every_end_has_one_delivery_and_a_retry_is_no_end(app: penstock.App, receiver: Receiver) -> None:
    tries: list[int] = []

    @app.task(retries=penstock.RetryPolicy(1, base_seconds=0), webhook=receiver.url)
    def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError
        return len(tries)

    job = flaky.enqueue()
    work(app)
    app.retry(job.id)
    work(app)
    assert [event["type"] for event in receiver.events()] == ["job.failed", "job.completed"]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 2


def test_lost_answers_lose_and_double_no_delivery(app: penstock.App, receiver: Receiver) -> None:
    """(1) Every third call of the worker's is lost, before or after its effect."""
    inner = app.store.db.transport
    faults = Faults(inner, Rates(timeout_before=0.15, timeout_after=0.15), seed=7)
    app.use(Database(Retrying(faults, RequestRetries(attempts=50), unlimited=True, sleep=bool)))

    @app.task(webhook=receiver.url)
    def double(number: int) -> int:
        return 2 * number

    jobs = [double.enqueue(number=number) for number in range(20)]
    work(app, concurrency=4)
    app.use(Database(inner))
    assert len(deliveries(app)) == 20
    assert sorted(event["data"]["job_id"] for event in receiver.events()) == sorted(job.id for job in jobs)


def test_the_delivery_is_made_by_the_transaction_that_ends_the_job(app: penstock.App, receiver: Receiver) -> None:
    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    job = quick.enqueue()
    counting = Counting(app.store.db.transport)
    app.use(Database(counting))
    claimed = app.store.claim(app.get(job.id), "w1", 30)
    assert claimed is not None
    counting.calls.clear()
    app.store.complete(claimed)
    assert counting.operations == ["TransactWriteItems"]
    assert [one.id for one in deliveries(app)] == [f"{job.id}.webhook.3"]


def test_a_task_without_a_webhook_is_ended_by_one_put(app: penstock.App) -> None:
    @app.task()
    def quick() -> None: ...

    job = app.store.claim(quick.enqueue(), "w1", 30)
    assert job is not None
    counting = Counting(app.store.db.transport)
    app.use(Database(counting))
    app.store.complete(job)
    assert counting.operations == ["PutItem"]


def test_a_long_result_is_left_out(app: penstock.App, receiver: Receiver) -> None:
    @app.task(webhook=receiver.url)
    def long() -> str:
        return "x" * 70_000

    long.enqueue()
    work(app)
    assert receiver.events()[0]["data"]["result_omitted"] is True


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_passing_refusal_is_tried_again_with_the_same_id(app: penstock.App, receiver: Receiver, status: int) -> None:
    """(2, 3)"""
    clock = ManualClock(1_900_000_000.0)
    app.use(app.store.db, clock=clock)
    receiver.answers = [(status, {"Retry-After": "1800"})]

    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    quick.enqueue()
    work_once(app)
    (delivery,) = deliveries(app)
    assert delivery.state == "queued" and delivery.run_at >= clock.now() + 1799
    assert delivery.error is not None and delivery.error.message == f"127.0.0.1 answered {status}."
    clock.advance(1801)
    work_once(app)
    assert ended(app, delivery).state == "completed"
    ids = [(headers["webhook-id"], headers["webhook-timestamp"]) for _, headers, _ in receiver.requests]
    assert ids == [(delivery.id, "1900000000"), (delivery.id, "1900001801")]


def test_retry_after_has_a_bound(app: penstock.App, receiver: Receiver) -> None:
    clock = ManualClock(1_900_000_000.0)
    app.use(app.store.db, clock=clock)
    receiver.answers = [(503, {"Retry-After": "99999999"}), (503, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"})]

    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    quick.enqueue()
    work_once(app)
    assert deliveries(app)[0].run_at <= clock.now() + 3600
    clock.advance(3601)
    work_once(app)
    assert deliveries(app)[0].run_at <= clock.now() + 30


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 410])
def test_a_refusal_for_good_is_a_dead_letter_that_can_be_sent_again(
    app: penstock.App, receiver: Receiver, status: int
) -> None:
    """(2) No redirect is followed."""
    receiver.answers = [(status, {"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"})]

    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    quick.enqueue()
    counts = work(app)
    (delivery,) = deliveries(app)
    assert (counts.completed, counts.failed) == (1, 1) and delivery.state == "failed"
    assert delivery.error is not None and delivery.error.kind == "DeliveryRefused"
    assert [path for path, _, _ in receiver.requests] == ["/hooks?token=hidden"]
    app.retry(delivery.id)
    work(app)
    assert ended(app, delivery).state == "completed" and len(receiver.requests) == 2


def test_a_server_that_is_down_is_tried_again(app: penstock.App, receiver: Receiver) -> None:
    receiver.server.shutdown()  # a loop that still accepts would take the connection that is to be refused
    receiver.server.server_close()

    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    quick.enqueue()
    work_once(app)
    (delivery,) = deliveries(app)
    assert delivery.state == "queued" and delivery.error is not None
    assert delivery.error.message == "127.0.0.1 could not be reached: ConnectionRefusedError."


# ── where to ─────────────────────────────────────────────────────────────────────────────────────


def attacked(app: penstock.App, url: str, addresses: Sequence[str]) -> penstock.Job:
    """The delivery of a job whose URL's name resolves to these addresses, in an app that allows no private ones."""
    app._webhooks = Webhooks((SECRET,), resolve=lambda host, port: addresses)

    @app.task()
    def quick() -> None: ...

    quick.options(webhook=url).enqueue()
    work(app)
    return deliveries(app)[0]


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("2130706433", ["127.0.0.1"]),
        ("hooks.example.com", ["127.0.0.1"]),
        ("hooks.example.com", ["93.184.215.14", "10.0.0.1"]),
        ("hooks.example.com", ["::ffff:127.0.0.1"]),
        ("hooks.example.com", ["0.0.0.0"]),
        ("hooks.example.com", ["169.254.169.254"]),
        ("hooks.example.com", ["fd00:ec2::254"]),
    ],
)
def test_no_request_goes_to_a_private_address(
    app: penstock.App, receiver: Receiver, host: str, addresses: Sequence[str]
) -> None:
    delivery = attacked(app, f"http://{host}:{receiver.port}/", addresses)
    assert delivery.state == "failed" and delivery.failures == 1
    assert delivery.error is not None and delivery.error.kind == "AddressRefused"
    assert receiver.requests == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0", "[::1]", "[::ffff:7f00:1]"]
)
def test_forms_of_loopback_are_refused_as_this_machine_resolves_them(
    app: penstock.App, receiver: Receiver, host: str
) -> None:
    app._webhooks = Webhooks((SECRET,))

    @app.task(webhook=f"http://{host}:{receiver.port}/")
    def quick() -> None: ...

    quick.enqueue()
    work_once(app)
    assert deliveries(app)[0].error is not None and receiver.requests == []


def test_the_connection_goes_to_the_address_that_was_checked(app: penstock.App, receiver: Receiver) -> None:
    """(webhooks.py, 3) The name is resolved once: what it resolves to a moment later does not matter."""
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    app._webhooks = Webhooks((SECRET,), allow_private=True, resolve=resolve)

    @app.task(webhook=f"http://hooks.invalid:{receiver.port}/")
    def quick() -> None: ...

    quick.enqueue()
    work(app)
    assert asked == ["hooks.invalid"] and receiver.requests[0][1]["Host"] == f"hooks.invalid:{receiver.port}"


# ── secrets, and what is refused before anything is written ──────────────────────────────────────


def test_nothing_secret_is_in_arguments_errors_or_logs(
    app: penstock.App, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """(4)"""
    receiver.answers = [(404, {})]

    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    with caplog.at_level(logging.DEBUG):
        job = quick.enqueue()
        work(app)
    (delivery,) = deliveries(app)
    shown = repr(app.store.history(delivery.id)) + repr(app.get(job.id)) + repr(app._webhooks) + caplog.text
    assert "hidden" not in shown and SECRET not in shown


def test_a_webhook_without_a_secret_or_with_a_bad_url_is_refused(receiver: Receiver) -> None:
    with penstock.App(":memory:") as app:

        @app.task()
        def quick() -> None: ...

        hooked = quick.options(webhook=receiver.url)
        for enqueue in (hooked.enqueue, lambda: hooked.enqueue_many([{}])):
            with pytest.raises(penstock.PenstockError, match="nothing to sign webhooks with"):
                enqueue()
        with pytest.raises(penstock.PenstockError, match="nothing to sign webhooks with"):
            app.task(webhook=receiver.url)
        with pytest.raises(BadWebhook, match="begins with https"):
            app.task(webhook="ftp://example.com/")
        with pytest.raises(BadWebhook):
            app.store.create(NewJob("quick", {}, webhook="file:///etc/passwd"))
        assert app.store.find().jobs == ()
    with pytest.raises(BadWebhook, match="16 bytes at least"):
        penstock.App(":memory:", webhook_secret="short")


def test_hooks_of_the_app_are_not_for_deliveries(app: penstock.App, receiver: Receiver) -> None:
    seen: list[str] = []
    app.before(lambda ctx: seen.append(ctx.job.task))

    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    quick.enqueue()
    work(app)
    assert seen == ["quick"] and len(receiver.requests) == 1


def test_a_transaction_makes_a_job_with_a_webhook(app: penstock.App, receiver: Receiver) -> None:
    @app.task(webhook=receiver.url)
    def quick() -> None: ...

    with app.store.db.transaction() as t:
        t.enqueue(quick)
    work(app)
    assert len(receiver.events()) == 1


def test_the_end_of_a_job_whose_id_is_not_ascii_is_told(app: penstock.App, receiver: Receiver) -> None:
    @app.task()
    def add() -> None: ...

    app.store.create(NewJob("add", {}, id="cron_報告_1", webhook=receiver.url))
    assert work(app).completed == 2
    assert receiver.events()[0]["data"]["job_id"] == "cron_報告_1"


def test_a_receiver_that_does_not_answer_leaves_threads_for_jobs(
    app: penstock.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, answered = threading.Semaphore(0), threading.Event()

    def hang(self: Webhooks, target: Target, body: bytes, headers: dict[str, str]) -> int:
        waiting.release()
        answered.wait(PATIENCE_SECONDS)
        return 204

    monkeypatch.setattr(Webhooks, "send", hang)

    @app.task()
    def add(a: int, b: int) -> int:
        return a + b

    hooked = add.options(webhook="https://slow.example/hook")
    hooked.enqueue_many([{"a": 1, "b": number} for number in range(3 * MOST_TO_ONE_HOST)])
    worker = penstock.Worker(app, until_empty=True, concurrency=2 * MOST_TO_ONE_HOST, idle_seconds=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert all(waiting.acquire(timeout=PATIENCE_SECONDS) for _ in range(MOST_TO_ONE_HOST))
        assert app.result(add.enqueue(a=1, b=2).id, timeout_seconds=PATIENCE_SECONDS / 2) == 3
        assert not waiting.acquire(blocking=False)
    finally:
        answered.set()
        thread.join(PATIENCE_SECONDS)
    assert {job.state for job in deliveries(app)} == {penstock.State.COMPLETED}


@pytest.mark.parametrize("length", ["0", "2", "100"])
def test_a_receiver_that_keeps_its_connection_open_is_answered_by_closing_it(length: str) -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{{}}".encode())
            while connection.recv(1_000):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,), daemon=True)
        thread.start()
        target = parse_target(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        assert Webhooks((SECRET,), allow_private=True).send(target, b"{}", {}) == 200
        thread.join(10)
        assert not thread.is_alive(), "the connection is still open"


@pytest.mark.parametrize("said", [b"HTTP/1.1 100 Continue\r\n\r\n", b"H"])
def test_a_receiver_that_answers_for_ever_is_left_at_the_deadline(said: bytes) -> None:
    closed = threading.Event()

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                for _ in range(500):  # for ever, as far as the deadline goes
                    connection.sendall(said)
                    time.sleep(0.01)
                connection.sendall(b"\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
            except OSError:
                closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        target = parse_target(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        with pytest.raises(DeliveryFailed, match="TimeoutError"):
            Webhooks((SECRET,), allow_private=True, total_seconds=0.2).send(target, b"{}", {})
        assert closed.wait(10)
