"""A worker's part in triggers (jobs/triggers.py): it reads changes of tables, and enqueues their jobs.

Of any number of workers, one at a time leads each shard, by lease. Where the jobs of some changes are made, and the
worker dies before that is written down, the next one makes them again, and finds them.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from penstock.errors import PenstockError
from penstock.jobs.app import App
from penstock.jobs.triggers import ChangeJobs, Trigger
from penstock.leases import DEFAULT_LEASE_SECONDS
from penstock.retry import Backoff
from penstock.streams.consumer import Consumer

_LOG = logging.getLogger("penstock.jobs")

_RETRIES: Final = Backoff(1.0, 2.0, 30.0)
_END_SECONDS: Final = 5.0


class TriggerFeeds:
    """A thread for each trigger of an app."""

    def __init__(self, app: App, *, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> None:
        self._app = app
        self._lease_seconds = lease_seconds
        self._stopped = threading.Event()
        self._consumers: dict[str, Consumer] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(name, trigger), name=f"penstock-trigger-{name}", daemon=True)
            for name, trigger in app.triggers.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def run_once(self) -> None:
        """Makes the jobs of all changes that there are: for a worker that ends when nothing is due."""
        for name, trigger in self._app.triggers.items():
            self._feed(name, trigger, follow=False)

    def stop(self) -> None:
        """Stops reading; what is read has its jobs, or is read again."""
        self._stopped.set()
        for consumer in list(self._consumers.values()):
            consumer.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_END_SECONDS)

    def _run(self, name: str, trigger: Trigger) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._feed(name, trigger, follow=True)
                failures = 0
            except Exception as error:  # the worker's own loop: it is logged, and tried again
                failures += 1
                is_known = isinstance(error, PenstockError)
                _LOG.warning("The trigger %s does not read, and tries again: %s", name, error, exc_info=not is_known)
                self._stopped.wait(_RETRIES.bound(failures))

    def _feed(self, name: str, trigger: Trigger, *, follow: bool) -> None:
        store = self._app.store
        jobs = ChangeJobs(trigger, self._app.tasks[name], self._app.enqueue_all_new, store)
        with trigger.consumer(store.db, follow=follow, lease_seconds=self._lease_seconds) as consumer:
            self._consumers[name] = consumer
            if self._stopped.is_set():
                return
            for changes in consumer.batches(jobs.together):
                jobs.make(changes)
