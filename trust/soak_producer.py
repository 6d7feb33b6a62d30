"""Who makes the soak's jobs and records: asks again with the same key until it is told that they are there."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from penstock import App
from penstock.client.items.expressions import F
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.jobs.model.job import BadJob, Job
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.workflow import EventRefused
from trust.ledger import Ledger

_LONGEST_BODY_SECONDS: Final = 0.15
_KEYS: Final = 3
LIMIT: Final = 2
LIMITS: Final = {**{f"limit{key}": LIMIT for key in range(_KEYS)}, "narrow": 1}
SIDE_QUEUE: Final = "side"
"""The one that is paused now and then."""
_LOW, _URGENT = 1, 9
_LOW_SECONDS: Final = 0.5
_BACKLOG: Final = 150
_TOGETHER: Final = 5
_POLICIES: Final = ("all_completed", "all_ended", "any_completed")
_MOST_EVENTS: Final = 3
_LATEST_EVENT_SECONDS: Final = 3.0
_MEANWHILE_SECONDS: Final = 0.3


class Producer:
    """A thread. What it could not have done when it is ended, it says in `undone`."""

    def __init__(
        self, app: App, ledger: Ledger, draw: random.Random, *, rate: float, seconds: float, poisons: bool
    ) -> None:
        self._app = app
        self._ledger = ledger
        self._draw = draw
        self._rate = rate
        self._number = 0
        self._to_cancel: list[tuple[float, str]] = []
        self._to_retry: list[tuple[float, str]] = []
        self._to_send: list[tuple[float, str, int]] = []
        self._size = int(min(_BACKLOG, 2 * seconds))
        self._backlog: deque[Callable[[], object]] = deque()
        for make in draw.sample([self._narrow, self._low, self._rare], 3):
            make()
        self._ending = threading.Event()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self.undone: list[str] = []
        self._shapes: tuple[tuple[float, Callable[[], object]], ...] = (
            (4, lambda: self._simple("steps")),
            (4, lambda: self._simple("counter")),
            (3, lambda: self._simple("talker")),
            (3, lambda: self._simple("shaky", fails=["ConnectionError"], failures=2)),
            (1, lambda: self._simple("hopeless", ends="failed", fails=["ValueError"], failures=1)),
            (0.5, lambda: self._simple("overrunner", ends="failed", fails=["TimeoutError"], failures=2)),
            (0.05, lambda: self._simple("requeuer", ends="failed", fails=["RequeueLimit"], failures=1)),
            (0.4 if poisons else 0, lambda: self._simple("poison", ends="failed")),
            (1, lambda: self._enqueue("plain", {"priority": _URGENT}, priority=_URGENT)),
            (3, lambda: self._enqueue("plain", {"queue": SIDE_QUEUE}, queue=SIDE_QUEUE)),
            (2, self._chances),
            (0.1, self._narrow),
            (0.1, self._low),
            (0.1, self._rare),
            (2, lambda: self._simple("pipeline")),
            (3, self._limited),
            (3, self._unique),
            (2, self._fan),
            (2, self._cancelled),
            (2, self._order),
            (2, self._night),
            (0.3, self._abandoned),
            (4, self._record),
        )

    def start(self) -> None:
        self._thread.start()

    def finish(self, timeout_seconds: float, meanwhile: Callable[[], object]) -> None:
        """Makes nothing more, ends what is begun, and cancels what is still to be cancelled.

        `meanwhile` is called again and again: what is begun may wait for jobs, which need workers.
        """
        self._ending.set()
        end = time.monotonic() + timeout_seconds
        while self._thread.is_alive() and time.monotonic() < end:
            meanwhile()
            self._thread.join(_MEANWHILE_SECONDS)
        self._give_up.set()
        self._thread.join(5)

    def _run(self) -> None:
        weights = [weight for weight, _ in self._shapes]
        while not self._ending.wait(self._draw.random() * 2 / self._rate):
            (_, make), *_ = self._draw.choices(self._shapes, weights)
            make()
            for _ in range(min(_TOGETHER, len(self._backlog))):
                self._backlog.popleft()()
            self._cancel_due(time.monotonic())
            self._retry_due(time.monotonic())
            self._send_due(time.monotonic())
        self._cancel_due(math.inf)
        self._send_due(math.inf)
        self._retry_due(math.inf)  # waits until they have failed

    # ── shapes ───────────────────────────────────────────────────────────────────────────────────────

    def _simple(self, task: str, **facts: Any) -> None:
        self._enqueue(task, {}, **facts)

    def _limited(self) -> None:
        key = f"limit{self._draw.randrange(_KEYS)}"
        options = {"concurrency_key": key, "max_concurrent": LIMIT}
        self._enqueue("plain", options, limit_key=key, limit=LIMIT)

    def _narrow(self) -> None:
        """Many that can only run one after the other."""
        options = {"concurrency_key": "narrow", "max_concurrent": LIMITS["narrow"]}
        facts = {"limit_key": "narrow", "limit": LIMITS["narrow"], "seconds": 0.01}
        self._backlog += [lambda: self._enqueue("plain", options, **facts)] * self._size

    def _low(self) -> None:
        """Many that anything else goes before."""
        low = {"priority": _LOW}
        self._backlog += [lambda: self._enqueue("plain", low, seconds=_LOW_SECONDS, **low)] * self._size

    def _rare(self) -> None:
        """Many that most workers cannot run."""
        self._backlog += [lambda: self._enqueue("rare", {})] * self._size

    def _chances(self) -> None:
        """A job that waits for some that fail, of which one is retried."""
        some = [self._enqueue("second_chance", {}, fails=["ValueError"], failures=1)]
        some += [self._enqueue("plain", {}) for _ in range(self._draw.randrange(2))]
        if self._draw.random() < 0.3:
            some.append(self._enqueue("hopeless", {}, ends="failed", fails=["ValueError"], failures=1))
        ids = [one.id for one in some if one is not None]
        if some[0] is not None:
            self._to_retry.append((time.monotonic() + self._draw.random() * 5, some[0].id))
        if ids:
            policy = self._draw.choice(_POLICIES)
            self._enqueue("after_some", {"depends_on": ids, "depends_on_policy": policy}, after=ids, policy=policy)

    def _unique(self) -> None:
        unique = {"unique_key": f"only{self._draw.randrange(_KEYS)}"}
        self._enqueue("plain", unique, same=True, unique=unique["unique_key"])

    def _fan(self) -> None:
        parts = [self._enqueue("plain", {}) for _ in range(3)]
        ids = [part.id for part in parts if part is not None]
        self._enqueue("gather", {"depends_on": ids}, after=ids)

    def _cancelled(self) -> None:
        later = self._draw.random() < 0.3
        job = self._enqueue("plain" if later else "endless", {"delay": 3600} if later else {}, ends="cancelled")
        if job is not None:
            self._to_cancel.append((time.monotonic() + self._draw.random() * 2, job.id))

    def _order(self) -> None:
        """A workflow that waits for so many events, which come before it waits, meanwhile, and while it runs."""
        number = self._draw.randrange(_MOST_EVENTS + 1)
        options: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        if self._draw.random() < 0.3:
            key = f"limit{self._draw.randrange(_KEYS)}"
            options, facts = {"concurrency_key": key, "max_concurrent": LIMIT}, {"limit_key": key, "limit": LIMIT}
        job = self._enqueue("order", options, arguments={"events": number}, **facts)
        if job is not None:
            self._send_later(job.id, number)

    def _night(self) -> None:
        """An async one, which waits for an event for some time; some come too late, or never."""
        job = self._enqueue("night", {})
        if job is not None:
            self._send_later(job.id, self._draw.randrange(2))

    def _abandoned(self) -> None:
        job = self._enqueue("abandoned", {}, ends="cancelled", seconds=0.01)
        if job is not None:
            self._to_cancel.append((time.monotonic() + self._draw.random() * 3, job.id))

    def _send_later(self, job_id: str, events: int) -> None:
        times = sorted(self._draw.random() * _LATEST_EVENT_SECONDS for _ in range(events))
        self._to_send += [(time.monotonic() + after, job_id, number) for number, after in enumerate(times, start=1)]

    def _record(self) -> None:
        from trust.soak_tasks import RECORDS

        self._number += 1
        record = f"r{self._number}"

        def put() -> None:
            with suppress(ConditionalCheckFailedException):  # ours: an earlier try has done it
                self._app.store.db.table(RECORDS).put({"id": record, "done": 0}, if_=F("id").missing())

        if self._until_told(put, f"the record {record}") is not None:
            self._ledger.note("put", record=record)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────

    def _enqueue(
        self,
        task: str,
        options: dict[str, Any],
        *,
        ends: str = "completed",
        same: bool = False,
        seconds: float | None = None,
        arguments: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Job | None:
        """`same`: arguments that any other job has too, so that a unique key may answer with another job."""
        self._number += 1
        key = f"{task}-{self._number}"
        if seconds is None:
            seconds = round(self._draw.random() * _LONGEST_BODY_SECONDS, 3)
        given = {"number": 1 if same else self._number, "seconds": seconds, **(arguments or {})}
        wanted = self._app.tasks[task].options(idempotency_key=key, **options)
        self._ledger.note("asked", key=key)
        made = self._until_told(lambda: wanted.enqueue(**given), key)
        if not isinstance(made, Job):
            return None
        self._ledger.note("enqueued", key=key, job=made.id, task=task, ends=ends, **facts)
        return made

    def _until_told(self, ask: Callable[[], Any], what: str) -> Any:
        """What it was answered, or True; None if it was refused for good, or nobody answered to the end."""
        while not self._give_up.is_set():
            try:
                answer = ask()
                return True if answer is None else answer
            except BadJob:
                return None  # what it waits for has failed meanwhile
            except PenstockError:
                self._give_up.wait(0.05)
        self.undone.append(f"{what} was never acknowledged")
        return None

    def _cancel_due(self, now: float) -> None:
        for due, job_id in list(self._to_cancel):
            if due <= now:
                self._to_cancel.remove((due, job_id))
                if self._until_told(lambda job_id=job_id: self._cancel(job_id), f"cancelling {job_id}") is not None:  # type: ignore[misc]
                    self._ledger.note("cancelled", job=job_id)

    def _send_due(self, now: float) -> None:
        for due, job_id, number in sorted(self._to_send):
            if due <= now:
                self._to_send.remove((due, job_id, number))
                self._ledger.note("sending", job=job_id, value=number)
                what = f"event {number} of {job_id}"
                if self._until_told(lambda job_id=job_id, number=number: self._send(job_id, number), what) is not None:  # type: ignore[misc]
                    self._ledger.note("sent", job=job_id, value=number)

    def _send(self, job_id: str, number: int) -> None:
        from trust.soak_tasks import EVENT

        try:
            self._app.send_event(job_id, EVENT, number, event_id=f"{EVENT} {number}")
        except EventRefused:
            state = self._app.get(job_id).state
            if state in (State.COMPLETED, State.CANCELLED):
                raise  # it waits no longer
            if state is State.FAILED:  # it has killed its workers: an operator would retry it, and send it then
                with suppress(BadTransition):
                    self._app.retry(job_id)
            raise PenstockError("not yet") from None

    def _retry_due(self, now: float) -> None:
        for due, job_id in list(self._to_retry):
            if due <= now and (now == math.inf or self._has_failed(job_id)):
                self._to_retry.remove((due, job_id))
                if self._until_told(lambda job_id=job_id: self._retry(job_id), f"retrying {job_id}") is not None:  # type: ignore[misc]
                    self._ledger.note("retried", job=job_id)

    def _has_failed(self, job_id: str) -> bool:
        try:
            return self._app.get(job_id).state is State.FAILED
        except PenstockError:
            return False

    def _retry(self, job_id: str) -> None:
        """When it has failed. It completes then: that tells that an answer was lost."""
        if self._app.get(job_id).state is not State.COMPLETED:
            try:
                self._app.retry(job_id)
            except BadTransition:
                raise PenstockError("not yet") from None

    def _cancel(self, job_id: str) -> None:
        try:
            self._app.cancel(job_id, "soaked", cancel_children=True)
        except BadTransition:
            job = self._app.get(job_id)
            if job.state is State.FAILED:  # it has killed its workers: an operator would retry it, and cancel it then
                self._app.retry(job_id)
                raise PenstockError("not yet") from None
            if job.state is not State.CANCELLED:
                raise AssertionError(f"{job_id} has {job.state}, and should never end") from None
