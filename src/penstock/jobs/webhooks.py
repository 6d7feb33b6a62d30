"""Webhooks of jobs: a delivery is a job of a task of Penstock's own.

1. The transaction that ends a job with a webhook also makes its delivery (store.py): one for each end, none is lost.
2. A delivery is tried again after network errors, 408, 425, 429 and 5xx, with backoff, and after what `Retry-After`
   asks for, within a bound. Any other answer but 2xx has failed at once, a redirect too: it would lead where nobody has
   checked. A delivery that has failed is a failed job: the dead letter, which `penstock jobs retry` sends again.
3. Its id is the same in every attempt: the receiver knows a repeat by it.
4. An attempt has one deadline for connecting, sending and reading, besides the limit of each wait: a receiver that
   sends a byte now and then, or `100 Continue` for ever, holds no thread.
5. The URL is in the job that has ended, the secret in the app: neither is in the delivery's arguments, errors or logs.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import Job, JobNotFound
from penstock.jobs.model.json_text import to_json
from penstock.jobs.model.secret_fields import mask_result
from penstock.jobs.model.webhook import WEBHOOK_RETRIES, WEBHOOK_TASK
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import TaskSettings
from penstock.retry import RetryPolicy
from penstock.webhooks import AddressRefused, BadWebhook, Target, check_addresses, parse_target, secret_key, sign

__all__ = ["DELIVERY_SETTINGS", "WEBHOOK_TASK", "DeliveryFailed", "DeliveryRefused", "Webhooks"]

SECRET_VARIABLE: Final = "PENSTOCK_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_CONNECT_SECONDS: Final = 5.0
_READ_SECONDS: Final = 15.0
_TOTAL_SECONDS: Final = 45.0
"""Of one request (4)."""
_DELIVERY_SECONDS: Final = 60.0
"""Of one attempt, with the reads of the database before it: its time limit."""
_MOST_ADDRESSES: Final = 4
"""Of one name are tried."""
_RESULT_BYTES: Final = 64 * 1024
LONGEST_RETRY_AFTER_SECONDS: Final = 3600.0
_AGAIN: Final = frozenset({408, 425, 429})

Resolve = Callable[[str, int], Sequence[str]]


class DeliveryFailed(PenstockError):
    """The receiver could not be reached, or answered that it cannot take the webhook now."""

    def __init__(self, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DeliveryRefused(PenstockError):
    """The receiver does not want the webhook, or it may not be sent. Trying again does not help."""


DELIVERY_SETTINGS: Final = TaskSettings(
    retries=RetryPolicy(
        WEBHOOK_RETRIES, never_on=(DeliveryRefused, AddressRefused), base_seconds=10, multiplier=3, cap_seconds=21_600
    ),
    time_limit_seconds=_DELIVERY_SECONDS,
    is_internal=True,
)
"""Ten more attempts within a day at most."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


@dataclass(frozen=True)
class Webhooks:
    """What an app's deliveries need."""

    secrets: tuple[str, ...] = field(repr=False)
    allow_private: bool = False
    resolve: Resolve = resolve
    total_seconds: float = _TOTAL_SECONDS

    def __post_init__(self) -> None:
        for secret in self.secrets:
            secret_key(secret)

    def deliver(self, ctx: JobContext, store: JobStore, event: dict[str, Any]) -> int:
        """Sends the webhook of a job's end; the status that it was answered with."""
        job_id = str(event["job_id"])
        try:
            job = ctx._attempt.call(lambda: store.get(job_id))
        except JobNotFound:
            raise DeliveryRefused(f"{job_id} has expired, and with it the URL of its webhook.") from None
        if job.webhook is None:
            raise DeliveryRefused(f"{job_id} has no webhook any more.")
        is_same_end = (job.state.value, utc_text(job.ended_at or 0)) == (event["state"], event["ended_at"])
        body = _body(event, _result(ctx, job) if is_same_end else {})
        headers = sign(body, ctx.id, int(store.clock.now()), self.secrets)
        try:
            target = parse_target(job.webhook)
        except BadWebhook as error:
            raise DeliveryRefused(str(error)) from None
        return self.send(target, body, headers)

    def send(self, target: Target, body: bytes, headers: dict[str, str]) -> int:
        """Posts the body. Raises DeliveryFailed, DeliveryRefused, AddressRefused (2)."""
        import http.client  # only deliveries need it

        end = time.monotonic() + self.total_seconds
        try:
            sock = self._connect(target, end)
            with closing(http.client.HTTPConnection(target.host, target.port)) as connection:
                connection.auto_open = 0
                connection.sock = _TimedSocket(sock, end)
                content = {"Content-Type": "application/json", "User-Agent": "penstock-webhooks"}
                connection.request("POST", target.path, body, content | headers)
                answer = connection.getresponse()  # its body is not read: nobody needs it
                status, retry_after = answer.status, answer.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException) as error:
            # By its type: the text of some has what the receiver has sent.
            raise DeliveryFailed(f"{target.host} could not be reached: {type(error).__name__}.") from None
        if 200 <= status < 300:
            return status
        if status in _AGAIN or status >= 500:
            raise DeliveryFailed(f"{target.host} answered {status}.", _seconds(retry_after))
        hint = " Redirects are not followed: use the URL that it leads to." if 300 <= status < 400 else ""
        raise DeliveryRefused(f"{target.host} answered {status}.{hint}")

    def _connect(self, target: Target, end: float) -> socket.socket:
        """A connection to an address that was checked, and to no other. Raises OSError, AddressRefused."""
        addresses = self.resolve(target.host, target.port)
        check_addresses(target.host, addresses, allow_private=self.allow_private)
        sock = _first_connection(addresses[:_MOST_ADDRESSES], target.port, end)
        try:
            sock.settimeout(_left(end, _READ_SECONDS))
            if target.scheme == "https":
                import ssl  # only deliveries need it

                return ssl.create_default_context().wrap_socket(sock, server_hostname=target.host)
        except BaseException:
            sock.close()
            raise
        return sock


def _first_connection(addresses: Sequence[str], port: int, end: float) -> socket.socket:
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), _left(end, _CONNECT_SECONDS))
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), _left(end, _CONNECT_SECONDS))


def _left(end: float, most_seconds: float) -> float:
    """How long the next wait may be. Raises TimeoutError after the end."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline of the request has passed")
    return min(left, most_seconds)


class _TimedSocket:
    """What http.client needs of a socket; no wait of it, or of its file, ends after the deadline (4)."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock = sock
        self._end = end

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._sock.settimeout(_left(self._end, _READ_SECONDS))
            rest = rest[self._sock.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._sock, self._end))

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    """Not the socket itself: http.client closes that one first, and flushes this one then."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._sock = sock
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._end, _READ_SECONDS))
        return self._sock.recv_into(buffer)


def _seconds(retry_after: str) -> float:
    """What a Retry-After asks for, in seconds (dates are not read), within the bound."""
    text = retry_after.strip()
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return min(float(text), LONGEST_RETRY_AFTER_SECONDS) if is_number else 0.0


def _result(ctx: JobContext, job: Job) -> dict[str, Any]:
    """The job's result, if it is short, without what its task declares secret: others keep what they receive."""
    if job.result is None:
        return {}
    value = mask_result(ctx._attempt.load(job, job.result), job.secret)
    return {"result": value} if len(to_json(value, "result").encode()) <= _RESULT_BYTES else {"result_omitted": True}


def _body(event: dict[str, Any], result: dict[str, Any]) -> bytes:
    """By Standard Webhooks: what happened, when, and its data."""
    said = {"type": f"job.{event['state']}", "timestamp": event["ended_at"], "data": {**event, **result}}
    return to_json(said, "webhook").encode()
