"""What goes on beside a worker's tasks: leases renewed, time limits kept, schedules looked at, a sign of life given."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from penstock.client.transports.base import Capabilities
from penstock.errors import PenstockError
from penstock.jobs.context import Attempt
from penstock.jobs.store.patience import is_outage
from penstock.jobs.worker.registry import BEAT_SECONDS, PEERS_SECONDS, Peers, WorkerInfo, WorkerRegistry
from penstock.jobs.worker.scheduler import Scheduler
from penstock.leases import LeaseRenewer
from penstock.retry import Outage

_LOG = logging.getLogger("penstock.jobs")
_LONGEST_PAUSE_SECONDS: Final = 1.0
_RENEWED_SIDE_BY_SIDE: Final = 16
"""A thousand renewals of 10 ms each take less than a second then."""


class Heartbeat:
    """One thread for all of a worker's attempts. `fail_at_limit` is called for one whose time limit is over."""

    def __init__(
        self,
        registry: WorkerRegistry,
        scheduler: Scheduler,
        peers: Peers,
        *,
        wake: Callable[[], None],
        info: Callable[[], WorkerInfo],
        attempts: Callable[[], Iterable[Attempt]],
        fail_at_limit: Callable[[Attempt], None],
        cancel_coroutines: Callable[[], None],
        requeue_abandoned: Callable[[], None],
        outage: Outage,
        capabilities: Capabilities,
    ) -> None:
        self._registry = registry
        self.scheduler = scheduler
        self._peers = peers
        self._wake = wake
        self._info = info
        self._attempts = attempts
        self._fail_at_limit = fail_at_limit
        self._cancel_coroutines = cancel_coroutines
        self._requeue_abandoned = requeue_abandoned
        self._outage = outage
        self._renewer = LeaseRenewer(
            attempts,
            beside=self._beat,
            name="penstock-heartbeat",
            outage=outage,
            together=Attempt.renew_together if capabilities.shares_commits else None,
            side_by_side=1 if capabilities.parallel_calls == 1 else _RENEWED_SIDE_BY_SIDE,
        )
        self._beat_at = 0.0
        self.has_signed_off = False

    def sign_on(self) -> None:
        """Writes the worker's line; before that, it may claim nothing (registry.py, 1). Raises NameTaken."""
        info = self._info()
        self._peers.update(self._registry.beat(info, replaces=self._peers.inherit(info.name)))
        self._beat_at = time.monotonic() + BEAT_SECONDS

    def start(self) -> None:
        self._renewer.start()

    def write_line_now(self) -> None:
        """Something that the others should know has changed."""
        self._beat_at = 0.0
        self._renewer.wake()

    def _write_line(self) -> None:
        self._peers.update(self._registry.beat(self._info()))
        self._beat_at = time.monotonic() + BEAT_SECONDS

    def stop(self) -> None:
        """Gives back what is left, and tells the others; `has_signed_off` says whether that was possible."""
        self._renewer.stop(timeout=BEAT_SECONDS)
        try:
            self._requeue_abandoned()
            self._registry.leave(self._info().name)
            self.has_signed_off = True
        except PenstockError as error:
            _LOG.warning("The worker could not sign off: %s", error)

    def watch(self, attempt: Attempt) -> None:
        """From now on; short jobs are over before their first renewal, and cost nothing here."""
        pause, deadline = attempt.renewal_due_in(), attempt.deadline
        if deadline is not None:
            pause = min(pause, deadline - time.monotonic())
        if pause < _LONGEST_PAUSE_SECONDS:
            self._renewer.wake()

    def _beat(self) -> float:
        """Does what is due beside the renewals; how long until something is due again."""
        pause = PEERS_SECONDS
        for attempt in self._attempts():
            left = attempt.seconds_left
            if left is not None and left <= 0:
                self._fail_at_limit(attempt)
            elif left is not None:
                pause = min(pause, left)
            interrupted_in = attempt.interrupted_in
            if interrupted_in is not None and interrupted_in > 0:
                pause = min(pause, interrupted_in)
        try:
            self._cancel_coroutines()
            if time.monotonic() >= self._beat_at or self._outage.began_at is not None:  # which this may end
                self._write_line()
                self._outage.end()
            if self._outage.began_at is None:
                self._requeue_abandoned()
                if self._peers.look():
                    self._wake()
                self.scheduler.enqueue_due()
        except Exception as error:  # the leases are renewed all the same, if that succeeds
            if is_outage(error):
                self._outage.note(error)
            else:
                _LOG.warning("A worker's heartbeat failed, and is tried again: %s", error)
        return pause
