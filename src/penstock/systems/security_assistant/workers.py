"""Workers in threads of this process, beside something that takes drawings in."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.leases import LeaseLost
from penstock.systems.security_assistant.agents import Agents
from penstock.systems.security_assistant.processor import Processor
from penstock.systems.security_assistant.storage import Storage

_LOG = logging.getLogger("penstock.security")
_IDLE_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0


class Workers:
    """`wake` tells them that there may be something to do."""

    def __init__(self, storage: Storage, agents: Agents, count: int = 1) -> None:
        self._wish = threading.Event()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(storage, agents), name="penstock-security", daemon=True)
            for _ in range(count)
        ]

    @contextmanager
    def running(self) -> Iterator[Workers]:
        """Ended, they hand their jobs over at the next checkpoint."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._wish.set()
            for thread in self._threads:
                thread.join()

    def wake(self) -> None:
        self._wish.set()

    def _work(self, storage: Storage, agents: Agents) -> None:
        processor = Processor(storage, agents, stopping=self._over.is_set)
        while not self._over.is_set():
            self._wish.clear()
            pause = _IDLE_SECONDS
            try:
                if processor.process_next() is not None:
                    continue
            except LeaseLost as lost:
                _LOG.warning("%s", lost)
                continue
            except Exception:  # the outermost place: the database may be away, and come back
                _LOG.exception("A worker could not go on, and tries again in %g s", _AGAIN_SECONDS)
                pause = _AGAIN_SECONDS
            self._wish.wait(pause)
