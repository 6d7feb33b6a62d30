"""Every unprocessed record through a function, in parallel: `penstock.records` on this system's table (S4.8–17)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final, overload

from penstock.client.items.expressions import F
from penstock.client.items.values import Item
from penstock.records import processor
from penstock.records.executors import Attributes, Function, check_function
from penstock.records.run.report import Progress, RecordError, Report
from penstock.records.run.run import Interrupted, ProcessingStopped
from penstock.systems.account_records.models.record import RecordModel, pending_shards, plain, processed_shard
from penstock.systems.account_records.tables import PENDING_INDEX, PENDING_SHARD, PROCESSED_SHARD

MOST_ERRORS: Final = 10_000
"""Errors that a report lists, unless `max_errors` says otherwise; `report.failed` counts all."""


@dataclass(frozen=True, slots=True)
class AccountError(RecordError):
    """A record that failed for good, by the names of its own attributes."""

    @property
    def AccountId(self) -> str:  # noqa: N802 - the record's attribute
        return str(self.key["AccountId"])

    @property
    def RunTime(self) -> str:  # noqa: N802
        return str(self.key["RunTime"])


@dataclass(slots=True, eq=False)
class AccountReport(Report, Sequence[AccountError]):
    """The list of what failed, and the counts of all: `len(report)`, `for error in report`, `report.processed`."""

    @classmethod
    def of(cls, report: Report) -> AccountReport:
        counts = {one.name: getattr(report, one.name) for one in fields(Report) if one.name != "errors"}
        errors = (AccountError(one.key, one.kind, one.message, one.attempts, one.trace) for one in report.errors)
        return cls(**counts, errors=list(errors))

    @overload
    def __getitem__(self, at: int) -> AccountError: ...
    @overload
    def __getitem__(self, at: slice) -> list[AccountError]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self.errors[at]

    def __len__(self) -> int:
        return len(self.errors)


class RecordProcessor(processor.RecordProcessor):
    """Processes what `model.query_unprocessed()` would give, and marks each record that is done.

        errors = RecordProcessor(max_workers=5, max_retries=3).process_all(handle)
        for error in errors:
            print(error.AccountId, error.RunTime)

    The options are those of `penstock.RecordProcessor`; what is pending and what says that it is done is known here.
    Records that other programs have put are adopted first, unless the model says that there are none.
    """

    def __init__(self, model: RecordModel | None = None, *, max_errors: int = MOST_ERRORS, **options: Any) -> None:
        self.model = RecordModel() if model is None else model
        super().__init__(self.model.table, **_work(self.model), max_errors=max_errors, **options)

    def process_all(
        self,
        function: Function,
        *,
        progress: Callable[[Progress, Report], object] | None = None,
        total: int | None = None,
        run_id: str = "",
    ) -> AccountReport:
        """As in `penstock.RecordProcessor`; the function, `def` or `async def`, is given records as `RecordModel` gives
        them."""
        check_function(function)
        shown = partial(_on_plain_record, function)
        self.model.adopt()
        try:
            return AccountReport.of(super().process_all(shown, progress=progress, total=total, run_id=run_id))
        except (Interrupted, ProcessingStopped) as stopped:
            stopped.report = AccountReport.of(stopped.report)
            raise

    def count(self) -> int:
        """How many records are pending, those of other programs included; reads the whole source."""
        return super().count() + self.model.count_strays()


def _work(model: RecordModel) -> dict[str, Any]:
    """The pending index of the table's layout, and the marks of a record that is done."""
    if model.layout == "compat":
        return {"index": model.processed_index, "value": 0, "set": {"Processed": 1}}
    return {
        "index": PENDING_INDEX,
        "values": pending_shards(),
        "where": F("Processed") == 0,  # another program may have marked it, and left its shard
        "set": {"Processed": 1, PROCESSED_SHARD: processed_shard},
        "remove": [PENDING_SHARD],
    }


def _on_plain_record(function: Function, record: Item) -> Attributes | Awaitable[Attributes]:
    """A function of this file, so that another process can be given it."""
    return function(plain(record))
