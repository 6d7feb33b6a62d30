"""The receiver: who may send, what is kept, and that each webhook is handled once, whatever dies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from click.testing import CliRunner
from construction_world import TEST, event, new_books
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.testclient import TestClient

from penstock import App, Worker
from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.client.tables.transactions import Action
from penstock.clock import ManualClock
from penstock.jobs.sources import AllJobs, JobQuery
from penstock.registry import job_source_types
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.http import PATH, receiver_api
from penstock.systems.construction_expenses.webhooks.intake import Intake, Transient
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.receiver import BODY_BYTES, TASK, Receiver
from penstock.systems.construction_expenses.webhooks.signatures import (
    BadPaddleKey,
    PaddleKeys,
    keys_of,
    php_serialized,
    verify_billing,
)
from penstock.systems.construction_expenses.webhooks.webhook import Webhook
from penstock.webhooks import BadSignature

SECRET, OLD_SECRET = "pdl_ntfset_01_new_0123456789", "pdl_ntfset_01_old_0123456789"
FORM = {"content-type": "application/x-www-form-urlencoded"}
_numbers = itertools.count(1)


@cache
def private_key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@cache
def public_key() -> str:
    return private_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def billing(body: bytes, at: float, secret: str = SECRET) -> dict[str, str]:
    hashed = hmac.new(secret.encode(), f"{int(at)}:".encode() + body, hashlib.sha256).hexdigest()
    return {"Paddle-Signature": f"ts={int(at)};h1={hashed}", "content-type": "application/json"}


def classic(clock: ManualClock, **fields: str) -> dict[str, str]:
    form = {
        "alert_id": str(next(_numbers)),
        "alert_name": "payment_succeeded",
        "event_time": "2023-11-14 22:10:00",  # the clock's time is 22:13:20
        "order_id": "9-1",
        "user_id": "9",
        "sale_gross": "19.99",
        "currency": "EUR",
        "customer_name": "Zoë & Søn",
        "coupon": "",
        "passthrough": '{"companyId": "c1"}',
        **fields,
    }
    signed = php_serialized({name.encode(): value.encode() for name, value in form.items()})
    return form | {"p_signature": base64.b64encode(private_key().sign(signed, PKCS1v15(), SHA1())).decode()}


def an_event(event_type: str = "customer.created", **data: Any) -> bytes:
    form = event(1, event_type, email="a@example.org", custom_data={"companyId": "c1"}, **data)
    return orjson.dumps(form | {"event_id": f"evt_r{next(_numbers)}", "notification_id": "ntf_1"})


class World:
    """A receiver on a clock, and its HTTP."""

    def __init__(self, books: Books, clock: ManualClock) -> None:
        self.books, self.clock = books, clock
        self.receiver = Receiver(books, PaddleKeys((SECRET, OLD_SECRET), (public_key(),)))
        self.http = TestClient(receiver_api(self.receiver, concurrency=0), base_url="http://127.0.0.1")

    def send(self, body: bytes, **headers: str) -> Any:
        return self.http.post(PATH, content=body, headers=headers or billing(body, self.clock.now()))

    def work(self) -> None:
        self.receiver.worker(burst=True, concurrency=1).run()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with new_books() as (books, clock):
        yield World(books, clock)


# ── signatures ───────────────────────────────────────────────────────────────────────────────────


def test_the_php_form_of_fields_is_sorted_with_lengths_in_bytes() -> None:
    fields = {b"b": "ü".encode(), b"a": b""}
    assert php_serialized(fields) == b'a:2:{s:1:"a";s:0:"";s:1:"b";s:2:"\xc3\xbc";}'


def test_a_signature_of_billing_is_the_hash_of_time_colon_body() -> None:
    """Computed apart: printf '1671552777:{}' | openssl dgst -sha256 -hmac 'pdl_ntfset_0123456789'."""
    hashed = "e12ddd2da2a10c21f18c427fa6aacc0773bbbbebbd31391667bf565edf45dcac"
    verify_billing(b"{}", f"ts=1671552777;h1={hashed}", ("pdl_ntfset_0123456789",), 1671552777.0)
    with pytest.raises(BadSignature, match="changed on its way"):
        verify_billing(b"{ }", f"ts=1671552777;h1={hashed}", ("pdl_ntfset_0123456789",), 1671552777.0)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {"Paddle-Signature": "", "content-type": "application/json"},
        {"Paddle-Signature": "ts=1700000000"},
        {"Paddle-Signature": "ts=1700000000;h1="},
        {"Paddle-Signature": "h1=00"},
        {"Paddle-Signature": "ts=1;ts=1700000000;h1=00"},
        {"Paddle-Signature": f"ts={'9' * 5_000};h1=00"},
    ],
)
def test_what_is_not_signed_is_refused(world: World, headers: dict[str, str]) -> None:
    body = an_event()
    answer = world.send(body, **headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "unauthorized")
    assert world.books.webhooks.get(orjson.loads(body)["event_id"]) is None


def test_what_was_altered_late_or_signed_with_another_secret_is_refused(world: World) -> None:
    body, now = an_event(), world.clock.now()
    assert world.send(body.replace(b"c1", b"c2"), **billing(body, now)).status_code == 401
    assert world.send(body, **billing(body, now, "pdl_ntfset_of_somebody_else")).status_code == 401
    for late, told in ((now - 61, "signed 61 s ago"), (now + 61, "signed 61 s in the future")):
        answer = world.send(body, **billing(body, late))
        assert (answer.status_code, told in answer.json()["error"]["message"]) == (401, True)
    assert world.send(body, **billing(body, now - 59, OLD_SECRET)).status_code == 200, "while secrets change"


def test_several_hashes_in_one_header_are_all_compared(world: World) -> None:
    body = an_event()
    header = billing(body, world.clock.now())["Paddle-Signature"]
    assert world.send(body, **{"Paddle-Signature": header.replace(";h1=", f";h1={'0' * 64};h1=")}).status_code == 200


def test_an_alert_of_classic_is_verified_and_understood(world: World) -> None:
    fields = classic(world.clock)
    assert world.send(urlencode(fields).encode(), **FORM).json() == {
        "webhook_id": fields["alert_id"],
        "duplicate": False,
    }
    world.work()
    (payment,) = (one for one in world.books.payments.of_company("c1") if one["paymentId"] == "9-1")
    assert (payment["amount"], payment["currency"]) == (1999, "EUR")
    record = world.books.webhooks.required(fields["alert_id"])
    assert record["rawBody"] == urlencode(fields)
    assert record["payload"]["customer_name"] == "Zoë & Søn"


@pytest.mark.parametrize(
    "changed",
    [
        {"sale_gross": "0.01"},
        {"p_signature": ""},
        {"p_signature": "bm8="},
        {"p_signature": "no base64!"},
        {"extra": "field"},
    ],
)
def test_an_alert_of_classic_that_was_altered_is_refused(world: World, changed: dict[str, str]) -> None:
    assert world.send(urlencode(classic(world.clock) | changed).encode(), **FORM).status_code == 401


def test_an_alert_of_classic_is_late_when_paddle_has_stopped_trying(world: World) -> None:
    for time, status in (("2023-11-12 22:13:20", 200), ("2023-11-10 22:13:19", 401), ("", 400)):
        body = urlencode(classic(world.clock, event_time=time)).encode()
        assert world.send(body, **FORM).status_code == status, time


def test_keys_come_from_variables_and_files_and_are_in_no_text() -> None:
    keys = keys_of(
        {"PADDLE_WEBHOOK_SECRET": f"{SECRET}, {OLD_SECRET}", "PADDLE_PUBLIC_KEY": public_key().replace("\n", "\\n")},
        "pdl_ntfset_in_a_file_01\n",
        public_key(),
    )
    assert (len(keys.secrets), len(keys.rsa_keys)) == (3, 2)
    assert "pdl" not in repr(keys)
    for variables in ({"PADDLE_WEBHOOK_SECRET": "hush"}, {"PADDLE_PUBLIC_KEY": "no key of anybody"}):
        with pytest.raises(BadPaddleKey) as raised:
            keys_of(variables)
        assert not any(value in str(raised.value) for value in variables.values())


# ── what is recorded ─────────────────────────────────────────────────────────────────────────────


def test_a_webhook_is_acknowledged_before_it_is_handled_and_handled_once(world: World) -> None:
    body = an_event(id="ctm_77")
    name = orjson.loads(body)["event_id"]
    assert world.send(body).json() == {"webhook_id": name, "duplicate": False}
    assert world.books.webhooks.required(name)["status"] == "queued"
    assert world.send(body).json()["duplicate"]
    again = body.replace(b"ntf_1", b"ntf_2")
    assert world.send(again).json()["duplicate"], "Paddle's replay is another notification of the same event"
    world.work()
    assert world.send(body).json()["duplicate"]
    world.work()
    record = world.books.webhooks.required(name)
    assert (record["status"], record["attempts"], record["rawBody"].encode()) == ("completed", 1, body)
    assert world.books.customers.required("ctm_77")["email"] == "a@example.org"


def test_an_id_that_comes_with_another_event_is_refused(world: World) -> None:
    body = an_event()
    world.send(body)
    assert world.send(body.replace(b"a@example.org", b"b@example.org")).status_code == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 400),
        (b"[]", 400),
        (b"no JSON", 400),
        (b'{"event_id": "\xff"}', 400),
        (b" " * (BODY_BYTES + 1), 413),
    ],
)
def test_what_is_signed_and_no_webhook_is_refused(world: World, body: bytes, status: int) -> None:
    assert world.send(body).status_code == status


def test_no_secret_and_no_body_is_in_a_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        body = an_event(note="confidential")
        world.send(body)
        world.send(body, **billing(body, 0))
        world.work()
    assert SECRET not in caplog.text
    assert "confidential" not in caplog.text


def test_a_webhook_that_a_command_recorded_gets_a_job_when_it_is_delivered(world: World) -> None:
    def not_now(webhook: Webhook, books: Books) -> Iterable[Action]:
        raise Transient("not now")

    body = an_event(id="ctm_cli")
    form = orjson.loads(body)
    from penstock.systems.construction_expenses.webhooks.webhook import webhook_of

    Intake(world.books, not_now, wait=None).receive(webhook_of(form))
    world.clock.advance(1)
    assert world.send(body).json()["duplicate"]
    world.work()
    assert world.books.webhooks.required(form["event_id"])["status"] == "completed"


def test_an_event_that_comes_too_early_is_retried_dead_lettered_and_replayed(world: World) -> None:
    data = {"id": "sub_early", "customer_id": "ctm_early", "custom_data": None}
    form = event(1, **data) | {"event_id": "evt_early"}
    world.send(orjson.dumps(form))
    for seconds in (0, 1, 2, 4, 8):
        world.clock.advance(seconds)
        world.work()
    assert world.books.webhooks.required("evt_early")["attempts"] == 5
    world.clock.advance(16)
    world.work()
    assert world.books.dead_letters.required("dlq_evt_early")["status"] == "pending"
    (job,) = (one for one in world.receiver.app.store.find(task=TASK).jobs if one.failures == 5)
    assert world.receiver.app.result(job.id)["outcome"] == "dead-lettered"
    world.books.customers.put({"paddleCustomerId": "ctm_early", "email": "e@example.org", "companyId": "early"})
    assert Intake(world.books, handle).replay("dlq_evt_early").outcome == "handled"
    assert world.books.subscriptions.required("early")["subscriptionId"] == "sub_early"


def test_health_tells_what_it_can_verify(world: World) -> None:
    assert world.http.get("/health").json()["classic"] is True
    assert world.http.get(PATH).status_code == 405
    stranger = world.http.post(PATH, content=b"{}", headers={"host": "evil.example"})
    assert stranger.status_code == 400


_DOOMED = """
import os, sys
from construction_world import TEST
from penstock.client.database import connect
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.receiver import Receiver
from penstock.systems.construction_expenses.webhooks.signatures import PaddleKeys
with connect(sys.argv[1]) as db:
    def killed(webhook, books):
        os.kill(os.getpid(), 9)
    Receiver(Books(db, TEST), PaddleKeys(), handler=killed, lease_seconds=1).worker(concurrency=1).run()
"""


@pytest.mark.crash
def test_what_a_killed_worker_held_is_handled_once_by_the_next(tmp_path: Path) -> None:
    path, handled = str(tmp_path / "books.db"), []
    with connect(path) as db:
        books = Books(db, TEST)
        books.make_tables()
        receiver = Receiver(books, PaddleKeys((SECRET,)), lease_seconds=1)
        body = an_event()
        receiver.accept(body, "application/json", billing(body, books.clock.now())["Paddle-Signature"])
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    ended = subprocess.run([sys.executable, "-c", _DOOMED, path], env=environment, timeout=60, check=False)
    assert ended.returncode == -9

    def counted(webhook: Webhook, books: Books) -> Iterable[Action]:
        handled.append(webhook.webhook_id)
        return handle(webhook, books)

    with connect(path) as db:
        receiver = Receiver(Books(db, TEST), PaddleKeys(), handler=counted, lease_seconds=1)
        receiver.worker(until_empty=True, concurrency=1).run()
        record = receiver.books.webhooks.required(handled[0])
    assert handled == [orjson.loads(body)["event_id"]]
    assert (record["status"], record["attempts"], record["retryCount"]) == ("completed", 2, 1)


def test_a_received_webhook_is_listed_once_and_its_job_only_when_that_has_failed() -> None:
    with connect(":memory:") as db:
        books = Books(db, TEST)
        books.make_tables()
        receiver = Receiver(books, PaddleKeys((SECRET,)))
        body = an_event()
        taken = receiver.accept(body, "application/json", billing(body, books.clock.now())["Paddle-Signature"])
        jobs = AllJobs.in_database(db, job_source_types())
        assert [job.id for job in jobs.find(JobQuery()).jobs] == [taken.webhook_id]
        (work,) = receiver.app.store.find().jobs
        receiver.app.cancel(work.id)
        assert [job.id for job in jobs.find(JobQuery()).jobs] == [taken.webhook_id]
        assert jobs.history(work.id)[1].job.id == work.id


def test_a_webhook_whose_job_failed_is_in_the_list_of_jobs_with_that_job(tmp_path: Path) -> None:
    path = str(tmp_path / "books.db")
    with connect(path) as db:
        books = Books(db, TEST)
        books.make_tables()
        receiver = Receiver(books, PaddleKeys((SECRET,)))
        body = an_event()
        taken = receiver.accept(body, "application/json", billing(body, books.clock.now())["Paddle-Signature"])
        other = App(db, table=f"{books.webhooks.name}-work")  # a program that takes the jobs, and whose task is broken

        @other.task(TASK, retries=0)
        def broken(webhook_id: str) -> None:
            raise RuntimeError("no such handler")

        Worker(other, burst=True, concurrency=1).run()

    def listed(*words: str) -> list[dict[str, Any]]:
        result = CliRunner().invoke(cli, ["jobs", "list", "--db", path, "--json", *words])
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = orjson.loads(result.stdout)["jobs"]
        return found

    webhook, job = sorted(listed(), key=lambda one: str(one["state"]), reverse=True)
    assert (webhook["id"], webhook["state"]) == (taken.webhook_id, "queued")
    assert (job["state"], job["task"], job["error"]["message"]) == ("failed", TASK, "no such handler")
    assert {one["system"] for one in (webhook, job)} == {"construction-expenses"}
    assert [one["id"] for one in listed("--state", "failed")] == [job["id"]]
