"""RecordProcessor: every pending record of a table through a function, in parallel, none twice and none lost."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.client.items.expressions import Condition
from penstock.client.tables.table import Table
from penstock.clock import Clock
from penstock.leases import DEFAULT_LEASE_SECONDS
from penstock.records.executors import DirectRunner, ExecutorOrMaker, ExecutorRunner, Function, Runner, check_function
from penstock.records.failed_records import FailureGroup, Failures
from penstock.records.record_state import BOOKKEEPING
from penstock.records.run.report import MOST_ERRORS, Progress, Report
from penstock.records.run.run import RecordRun
from penstock.records.run.run_context import Rules
from penstock.records.source import Mark, Source, Unchanged, Work
from penstock.records.store import DEFAULT_MAX_CRASHES, RecordStore
from penstock.retry import Cause, RetryPolicy

MOST_WORKERS = 1_000


class RecordProcessor:
    """Processes the pending records of a table, or of an index of it.

        processor = RecordProcessor(db.table("Records"), index="Processed", value=0, set={"Processed": 1})
        report = processor.process_all(handle)

    **What is pending**: `index` with `value` or `values` of its partition key; an index alone (a sparse one); or the
    whole table; of those, what meets `where`. **What says that it is done**: the attributes of `set` (a value, or a
    function of the record) and of `remove`; without them, the bookkeeping.

    Several processors may work on one table, in many processes. Each record is leased for `lease_seconds`, renewed
    while it runs; the lease and the attempts are in the record itself, in the attribute `bookkeeping`.

    A record that fails is tried again `max_retries` times, after a random wait below `backoff_base_ms`, which grows by
    `backoff_multiplier` up to `backoff_cap_ms`, if its error is one of `retry_on` and none of `give_up_on` (types, or
    error codes). Then it has failed, until it is redriven. So has one whose workers died `max_crashes` times.

    A result is stored only if the record is as the function was given it: as a whole, or in the attributes that
    `unchanged` names (a version, say), or in any case (None). A record that was changed is run again.

    `executor` is any `concurrent.futures.Executor`, or a function that makes one, which is called again when its
    workers died. Time limits (`timeout_seconds`) count from when a record is given to it.
    """

    def __init__(
        self,
        table: Table,
        *,
        index: str | None = None,
        value: Any = None,
        values: Sequence[Any] = (),
        where: Condition | None = None,
        set: Mapping[str, Mark] | None = None,
        remove: Sequence[str] = (),
        bookkeeping: str = BOOKKEEPING,
        unchanged: Unchanged = "record",
        max_workers: int = 5,
        max_retries: int = 3,
        backoff_base_ms: float = 100,
        backoff_multiplier: float = 2,
        backoff_cap_ms: float = 30_000,
        retry_on: Sequence[Cause] = (Exception,),
        give_up_on: Sequence[Cause] = (),
        max_crashes: int = DEFAULT_MAX_CRASHES,
        max_iterations: int = 10,
        max_errors: int = MOST_ERRORS,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        timeout_seconds: float | None = None,
        grace_seconds: float = 30.0,
        executor: ExecutorOrMaker | None = None,
        clock: Clock | None = None,
        draw: random.Random | None = None,
    ) -> None:
        _check("max_workers", max_workers, 1, MOST_WORKERS)
        _check("max_retries", max_retries, 0, 1_000)
        _check("max_crashes", max_crashes, 1, 1_000)
        _check("max_iterations", max_iterations, 1, 1_000_000)
        if timeout_seconds is not None and not timeout_seconds > 0:
            raise ValueError(f"timeout_seconds is more than 0, not {timeout_seconds}")
        wanted = [value, *values] if value is not None else list(values)
        work = Work(table.name, index, wanted, where, dict(set or {}), remove, bookkeeping)
        self._executor = executor
        self._draw = draw or random.Random()
        self._rules = Rules(
            max_workers=max_workers,
            max_iterations=max_iterations,
            timeout_seconds=timeout_seconds,
            grace_seconds=grace_seconds,
            most_errors=max_errors,
            retries=RetryPolicy(
                times=max_retries,
                on=tuple(retry_on),
                never_on=tuple(give_up_on),
                base_seconds=backoff_base_ms / 1000,
                cap_seconds=backoff_cap_ms / 1000,
                multiplier=backoff_multiplier,
            ),
        )
        self._source = Source(table.database, work)
        self._store = RecordStore(
            self._source, lease_seconds=lease_seconds, max_crashes=max_crashes, unchanged=unchanged, clock=clock
        )
        self._run: RecordRun | None = None

    def process_all(
        self,
        function: Function,
        *,
        progress: Callable[[Progress, Report], object] | None = None,
        total: int | None = None,
        run_id: str = "",
    ) -> Report:
        """Runs the function on every pending record, and reports what became of them; `report.errors` are the failed.

        The function is given a record as a dict, and returns None or a dict of attributes to set. The source is read
        repeatedly, `max_iterations` times at most, until it has nothing more.

        `progress` is called some times a second. Ctrl-C lets what runs finish for `grace_seconds` and raises
        `Interrupted`; a second one does not wait. Called again, it continues where it was stopped.
        """
        check_function(function)
        runner = self._runner()
        runner.check(function)
        self._run = RecordRun(
            self._store,
            runner,
            function,
            self._rules,
            draw=self._draw,
            run_id=run_id or new_run_id(),
            total=total,
            on_progress=progress,
        )
        return self._run.go()

    def stop(self) -> None:
        """From another thread: nothing more is begun, and `process_all` returns when what runs has ended."""
        if self._run is not None:
            self._run.stop()

    def count(self) -> int:
        """How many records are pending; reads the whole source."""
        return self._source.count()

    def failures(self) -> list[FailureGroup]:
        """The failed records, grouped by the kind of their error and its message; the largest group first."""
        return Failures(self._store).groups()

    def count_failures(self, *, kind: str | None = None, message: str | None = None) -> int:
        """How many records have failed, with an error of this kind and with this message."""
        return sum(failed.is_one_of(kind, message) for failed in Failures(self._store))

    def redrive(self, *, kind: str | None = None, message: str | None = None, limit: int | None = None) -> int:
        """Makes failed records pending again, with all their attempts before them; how many."""
        return Failures(self._store).redrive(kind=kind, message=message, limit=limit)

    def _runner(self) -> Runner:
        if self._executor is None:
            return DirectRunner(self._rules.retries)
        limit, workers = self._rules.timeout_seconds, self._rules.max_workers
        return ExecutorRunner(self._executor, self._rules.retries, timeout_seconds=limit, workers=workers)


def new_run_id() -> str:
    return f"run_{secrets.token_hex(6)}"


def _check(name: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise ValueError(f"{name} is {least:,} to {most:,}, not {number}")
