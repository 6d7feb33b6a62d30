"""The thread that does exports and imports.

1. A chore of the background work finds transfers that are not over, and starts the thread: whoever opens a file takes
   up what a killed process left. An engine without buckets leaves them to one that has some.
2. A bucket that cannot be reached is tried again, `TRIES` times and less and less often; other trouble with it ends the
   transfer: FAILED, with DynamoDB's code.
3. What fails in one transfer stops no other. Only trouble with the file itself, such as a full disk, stops all; then
   they wait until it is over.
4. The thread rests after each piece of work for half as long as it took. It is a daemon, and can be cut off anywhere.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import threading
from time import monotonic
from typing import TYPE_CHECKING, Final

from penstock.engine.maintenance import chore
from penstock.engine.transfers import records
from penstock.engine.transfers.buckets import BucketFailure
from penstock.engine.transfers.export_run import ExportRun
from penstock.engine.transfers.import_run import ImportRun, give_up_table
from penstock.engine.transfers.item_images import SourceGone
from penstock.engine.transfers.records import Transfer
from penstock.errors import DatabaseLost, StorageError
from penstock.processes import this_process

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_LOG = logging.getLogger(__name__)

TRIES: Final = 8
_REST: Final = 0.5
_FIRST_WAIT_SECONDS: Final = 1.0
_LONGEST_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 10.0

Run = ExportRun | ImportRun


class Runner:
    """The transfers of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.holder = f"{this_process()}/{secrets.token_hex(8)}"
        self._runs: dict[int, Run] = {}
        self._failures: dict[int, tuple[int, float]] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopping = threading.Event()

    def wake(self) -> None:
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(target=self._loop, name="penstock-transfers", daemon=True)
            self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread after the step it is at, and lets go of what it holds."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_SECONDS)
            if self._thread.is_alive():
                return  # a bucket does not answer; the next process waits until there is proof that this one has ended
        self._let_go()

    def _let_go(self) -> None:
        for run in self._runs.values():
            run.close()
        self._runs.clear()
        try:
            with self._engine.writing() as context:
                records.release(context, self.holder)
        except (StorageError, sqlite3.Error) as error:  # the file is lost or locked; whoever is next needs proof
            _LOG.debug("transfers were not released: %s", error)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                is_busy = self.run_step()
            except DatabaseLost:
                return
            except Exception:  # a full disk, a file that another process holds: the work is there when that is over
                if self._stopping.is_set():
                    return
                _LOG.exception("An export or import failed; it is continued in %s s.", _LOOK_SECONDS)
                self._forget_all()
                is_busy = False
            self._wake.wait(_POLL_SECONDS if is_busy else _LOOK_SECONDS)

    def _forget_all(self) -> None:
        for number in list(self._runs):
            self._forget(number)

    def rest(self, seconds: float) -> None:
        self._stopping.wait(seconds * _REST)

    def run_step(self) -> bool:
        """One step of every transfer that this engine may do; whether there may be more soon."""
        with self._engine.reading() as context:
            waiting = records.in_progress(context.db)
        for number in set(self._runs) - {one.id for one in waiting}:
            self._forget(number)
        is_busy = False
        for transfer in waiting:
            if self._stopping.is_set():
                return False
            if self._failures.get(transfer.id, (0, 0.0))[1] <= monotonic():
                is_busy = self._step(transfer) or is_busy
        return is_busy

    def _step(self, transfer: Transfer) -> bool:
        run = self._runs.get(transfer.id)
        try:
            if run is None:
                run = self._taken(transfer)
                if run is None:
                    return False
            is_more = self._steps(run)
            self._failures.pop(transfer.id, None)
        except records.LostHold:
            self._forget(transfer.id)
            return False
        except BucketFailure as failure:
            return self._fail(transfer, failure)
        except SourceGone as gone:
            return self._fail(transfer, BucketFailure("TableNotFound", str(gone)))
        except (StorageError, sqlite3.Error):
            raise
        except Exception as error:
            _LOG.exception("%s failed.", transfer.arn)
            return self._fail(transfer, BucketFailure("InternalFailure", repr(error)[:500], retryable=True))
        if not is_more:
            self._forget(transfer.id)
        return True

    def _steps(self, run: Run) -> bool:
        """Steps of one transfer for a while: another one's turn comes, too."""
        until = monotonic() + 0.25
        while run.step():
            if self._stopping.is_set() or monotonic() >= until or run.is_waiting:
                return True
        return False

    def _taken(self, transfer: Transfer) -> Run | None:
        with self._engine.writing() as context:
            taken = records.try_hold(context, transfer, self.holder)
        if taken is None:
            return None
        make = ExportRun if taken.kind == "export" else ImportRun
        assert self._engine.buckets is not None
        run = self._runs[transfer.id] = make(self._engine, self._engine.buckets, taken, self.holder, self.rest)
        return run

    def _fail(self, transfer: Transfer, failure: BucketFailure) -> bool:
        """Tries again later, from what the file says; or ends the transfer."""
        self._forget(transfer.id)
        tries = self._failures.get(transfer.id, (0, 0.0))[0] + 1
        if failure.is_retryable and tries < TRIES:
            wait = min(_FIRST_WAIT_SECONDS * 2**tries, _LONGEST_WAIT_SECONDS)
            self._failures[transfer.id] = (tries, monotonic() + wait)
            _LOG.warning("%s is tried again in %s s: %s", transfer.arn, wait, failure.message)
            return False
        with self._engine.writing() as context:
            current = records.try_hold(context, transfer, self.holder)
            if current is not None:
                if current.kind == "import":
                    give_up_table(context, current)
                records.end(context, current, self.holder, (failure.code, failure.message))
        return True

    def _forget(self, number: int) -> None:
        run = self._runs.pop(number, None)
        if run is not None:
            run.close()


@chore
def continue_transfers(engine: Engine) -> float | None:
    """Starts the thread where there is something to do."""
    if engine.buckets is None:
        return None
    with engine.reading() as context:
        if not records.in_progress(context.db):
            return None
    if engine.transfers is None:
        engine.transfers = Runner(engine)
    engine.transfers.wake()
    return _LOOK_SECONDS
