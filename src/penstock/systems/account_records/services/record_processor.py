"""Every unprocessed record through a function, in parallel: `penstock.records` on this system's table (S4.8–17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from penstock.client.items.values import Item
from penstock.records import processor
from penstock.records.executors import Function, check_function
from penstock.records.run.report import Progress, Report
from penstock.systems.account_records.models.record import RecordModel, pending_shards, plain, processed_shard
from penstock.systems.account_records.tables import PENDING_INDEX, PENDING_SHARD, PROCESSED_INDEX, PROCESSED_SHARD


class RecordProcessor(processor.RecordProcessor):
    """Processes what `model.query_unprocessed()` would give, and marks each record that is done.

        report = RecordProcessor(max_workers=5, max_retries=3).process_all(handle)
        for error in report.errors: ...

    The options are those of `penstock.RecordProcessor`; what is pending and what says that it is done is known here.
    """

    def __init__(self, model: RecordModel | None = None, **options: Any) -> None:
        self.model = RecordModel() if model is None else model
        super().__init__(self.model.table, **_work(self.model), **options)

    def process_all(
        self,
        function: Function,
        *,
        progress: Callable[[Progress, Report], object] | None = None,
        total: int | None = None,
        run_id: str = "",
    ) -> Report:
        """As in `penstock.RecordProcessor`; the function is given records as `RecordModel` gives them."""
        check_function(function)
        shown = partial(_on_plain_record, function)
        return super().process_all(shown, progress=progress, total=total, run_id=run_id)


def _work(model: RecordModel) -> dict[str, Any]:
    """The pending index of the table's layout, and the marks of a record that is done."""
    if model.layout == "compat":
        return {"index": PROCESSED_INDEX, "value": 0, "set": {"Processed": 1}}
    return {
        "index": PENDING_INDEX,
        "values": pending_shards(),
        "set": {"Processed": 1, PROCESSED_SHARD: processed_shard},
        "remove": [PENDING_SHARD],
    }


def _on_plain_record(function: Function, record: Item) -> Mapping[str, Any] | None:
    """A function of this file, so that another process can be given it."""
    return function(plain(record))
