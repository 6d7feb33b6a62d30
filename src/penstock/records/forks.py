"""Work that forks, by itself or by multiprocessing; and signals.

1. A child that comes back from a task, or from a record's function, ends there. Otherwise it would go on as a copy of
   its parent: end the job a second time, and take others under the same name.
2. A worker's way to stop calmly is not its children's: they end when they are told to. (A pool waits until they do.)
3. A signal interrupts the main thread anywhere, also where it holds a lock; so what a handler calls for is called by
   another thread.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], None]
_LOG = logging.getLogger("penstock.records")


def end_child_of(process: int, function: Callable[..., Any], error: BaseException | None = None) -> None:
    """Ends this process if it is not that one, but was forked by the function, which has returned or raised."""
    if os.getpid() == process:
        return
    if isinstance(error, SystemExit):  # as it was meant
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    _LOG.warning(
        "%s has forked, and the child came back from it: it ends here. Leave a child by os._exit(), or start one with "
        "subprocess or multiprocessing.",
        getattr(function, "__name__", repr(function)),
        exc_info=error,
    )
    os._exit(int(error is not None))


class _OwnHandler:
    """Calls the handler in the process that made it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._process = os.getpid()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._process:
            self._handler(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)


def not_in_children(handler: Handler) -> Handler:
    """A handler of signals for this process alone (2).

    A process that was forked from it is ended by SIGTERM, and by the second Ctrl-C: the first one reaches its parent as
    well, which may want to let it finish.
    """
    _reset_in_children()
    return _OwnHandler(handler)


@cache
def _reset_in_children() -> None:
    os.register_at_fork(after_in_child=_reset_sigterm)


def _reset_sigterm() -> None:
    """In a child, which SIGTERM then ends at once: Python calls a handler only after a call that blocks."""
    if isinstance(signal.getsignal(signal.SIGTERM), _OwnHandler):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def for_handlers(call: Callable[[], object]) -> Callable[[], None]:
    """What a handler of signals may call, once, to have this called (3)."""
    asked: SimpleQueue[None] = SimpleQueue()  # its `put` may interrupt itself

    def wait() -> None:
        asked.get()
        call()

    threading.Thread(target=wait, name="penstock-signals", daemon=True).start()
    return lambda: asked.put(None)
