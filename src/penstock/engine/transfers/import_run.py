"""One import: the objects under a prefix into a new table, a batch of records a step.

1. The table is made by the first step, not by the call: of imports into one name, the first to come here wins. Nobody
   reads it before it is whole (recovery/restores.py, 3); its indexes are then filled as those of a restored table are.
2. A batch's rows, and the place that was reached, are one transaction: an object's key, and how many of its records are
   done. Whoever continues reads the object again, and passes over these.
3. A bad record is an error and no item; the others are imported. At the end the errors are an object of JSON lines in
   the bucket (`errors_key`), in the form of DynamoDB's log events.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from time import perf_counter
from typing import TYPE_CHECKING, Final

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import bulk_rows, index_backfill, vector_rows
from penstock.engine.recovery import restores
from penstock.engine.transfers import object_records, records
from penstock.engine.transfers.buckets import Bucket, BucketFailure, Buckets, Encryption, ObjectBytes, StoredObject
from penstock.engine.transfers.export_files import FOLDER
from penstock.engine.transfers.export_run import Rest
from penstock.engine.transfers.object_records import Bad, Found, Garbage
from penstock.engine.transfers.records import Record, Transfer
from penstock.errors import DynamoDBError, ValidationException
from penstock.wire.limits import ITEM_BYTES
from penstock.wire.values import check_item

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

INVALID_ITEMS: Final = (
    "ItemValidationError",
    "Some of the items failed validation checks and were not imported. "
    "Please check CloudWatch error logs for more details.",
)
MOST_OBJECTS: Final = 50_000
MOST_REASON: Final = 1_000
"""Characters of an error's message that are written down: some name the whole value, which may have megabytes."""

_BATCH_RECORDS: Final = 1_000
_COMPUTED_SECONDS: Final = 0.003
_BATCH_BYTES: Final = maintenance.MOST_BYTES
_IMPORTS: Final = f"{FOLDER}/imports/"


def errors_key(name: str) -> str:
    """Where the errors of an import are written, in its bucket. Nothing there is read as data."""
    return f"{_IMPORTS}{name}/errors.jsonl"


class Batch:
    """The records of one step."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bulk_rows.Row] = {}
        self.errors: list[bytes] = []
        self.processed = self.imported = self.size = 0

    @property
    def is_full(self) -> bool:
        return self.processed >= _BATCH_RECORDS or self.size >= _BATCH_BYTES


class ImportRun:
    """One import that this process holds."""

    def __init__(self, engine: Engine, buckets: Buckets, transfer: Transfer, holder: str, rest: Rest) -> None:
        self._engine = engine
        self._buckets = buckets
        self._transfer = transfer
        self._holder = holder
        self._rest = rest
        self._record = transfer.record
        self._request = transfer.request
        self._bucket: Bucket | None = None
        self._objects: Iterator[StoredObject] = iter(())
        self._current: Iterator[Found] | None = None
        self._body: ObjectBytes | None = None
        self.is_waiting = False
        """Whether the next step has to wait for others' work: the filling of indexes."""

    def close(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    def step(self) -> bool:
        """Does the next step; whether there are more. Raises BucketFailure, LostHold."""
        if self._bucket is None:
            self._open_bucket()
        match self._record["phase"]:
            case "begin":
                return self._create_table()
            case "load":
                self._load()
            case "index":
                return self._finish()
        return True

    def _open_bucket(self) -> None:
        source = self._request["S3BucketSource"]
        bucket = self._buckets.bucket(source["S3Bucket"], source.get("S3BucketOwner"), self._transfer.scope.account)
        self._objects = self._listed(bucket, source.get("S3KeyPrefix", ""))
        self._bucket = bucket

    def _listed(self, bucket: Bucket, prefix: str) -> Iterator[StoredObject]:
        """The objects that are left, from the one that was under way."""
        current = self._record.get("object")
        for count, found in enumerate(bucket.list(prefix), 1):
            if count > MOST_OBJECTS:
                raise BucketFailure("S3ObjectLimitExceeded", f"There are more than {MOST_OBJECTS:,} objects to import.")
            if not found.key.startswith(_IMPORTS) and (current is None or found.key >= current):
                yield found

    # ── the table ────────────────────────────────────────────────────────────────────────────────

    def _create_table(self) -> bool:
        with self._engine.writing() as context:
            scope, name = self._transfer.scope, self._transfer.table_name
            there = self._engine.catalog.load(context.db, scope, name)
            if there is not None and context.now >= there.record.get("deleted_at", float("inf")):
                index_backfill.drop_table(context, there)
            elif there is not None:
                failure = ("TableAlreadyExists", f"Table already exists: {name}")
                records.end(context, self._transfer, self._holder, failure)
                return False
            table = self._record.pop("new_table") | {"created_at": context.now}
            restores.begin_import(
                OperationContext(self._engine, context.db, scope, context.now), table, self._transfer.id
            )
            self._record["phase"] = "load"
            records.save(context, self._transfer, self._holder)
        return True

    def _table(self, context: OperationContext) -> TableInfo:
        found = self._engine.catalog.find(context.db, self._transfer.scope, self._transfer.table_name)
        if found is None or found.record["TableId"] != self._record["table_id"]:
            raise records.LostHold  # the table is gone: nobody can continue it
        return found

    # ── loading ──────────────────────────────────────────────────────────────────────────────────

    def _load(self) -> None:
        began = perf_counter()
        with self._engine.reading() as context:
            table = self._table(context)
        batch = Batch()
        is_over = self._fill(batch, table)
        self._engine.store.await_checkpoint()
        with self._engine.writing() as context:
            table = self._table(context)
            bulk_rows.put_rows(context, table, batch.rows.values(), new=False)
            if batch.errors:
                records.add_errors(context, self._transfer, batch.errors)
            self._count(batch)
            if is_over:
                self._record["phase"] = "index"
                self._record.pop("object", None)
                restores.end_import(context, table)
            records.save(context, self._transfer, self._holder)
        self._engine.store.count_rows(context.db)
        self._rest(perf_counter() - began)

    def _count(self, batch: Batch) -> None:
        counts = self._record["counts"]
        for name, more in (
            ("processed", batch.processed),
            ("imported", batch.imported),
            ("errors", batch.processed - batch.imported),
            ("bytes", batch.size),
        ):
            counts[name] += more

    def _fill(self, batch: Batch, table: TableInfo) -> bool:
        """Takes records until the batch is full; whether there are no more at all."""
        began = perf_counter()
        while not batch.is_full:
            if perf_counter() - began > _COMPUTED_SECONDS:  # the threads that answer calls have their turn
                self._rest(perf_counter() - began)
                began = perf_counter()
            if self._current is None and not self._open_next(table):
                return True
            assert self._current is not None
            try:
                found = next(self._current, None)
            except Garbage as error:
                self._add_error(batch, str(error))
                found = None
            if found is None:
                self._close_object()
                continue
            self._take(batch, table, found)
        return False

    def _open_next(self, table: TableInfo) -> bool:
        found = next(self._objects, None)
        if found is None:
            return False
        assert self._bucket is not None
        record = self._record
        done = record["done"] if record.get("object") == found.key else 0
        if done < 0:
            return self._open_next(table)  # it was ended before
        record.update(object=found.key, done=done)
        self._body = self._bucket.open(found.key)
        types = {part["AttributeName"]: part["AttributeType"] for part in table.record["AttributeDefinitions"]}
        read = object_records.reader_of(
            self._request["InputFormat"], self._request.get("InputFormatOptions") or {}, types
        )
        records_of = read(object_records.blocks(self._body, self._request["InputCompressionType"]))
        self._current = self._after(records_of, done)
        return True

    def _after(self, found: Iterator[Found], done: int) -> Iterator[Found]:
        """Passes over the records that are imported already, with rests."""
        while done > 0:
            began = perf_counter()
            for _ in range(min(done, _BATCH_RECORDS)):
                if next(found, None) is None:  # somebody has replaced the object by a shorter one
                    return
            done -= _BATCH_RECORDS
            self._rest(perf_counter() - began)
        yield from found

    def _close_object(self) -> None:
        self.close()
        self._current = None
        self._record["done"] = -1

    def _take(self, batch: Batch, table: TableInfo, found: Found) -> None:
        batch.size += found.size
        self._record["done"] += 1
        if isinstance(found.item, Bad):
            self._add_error(batch, found.item.reason, counted=True)
            return
        try:
            item, size = check_item(found.item)
            if size > ITEM_BYTES:
                raise ValidationException("Item size has exceeded the maximum allowed size")
            key = row_keys.row_key_of_item(table, item)
            if table.vectors:
                vector_rows.check(table, item)
        except DynamoDBError as error:
            self._add_error(batch, error.message, counted=True)
            return
        batch.processed += 1
        batch.imported += 1
        batch.rows[key] = (key, size, orjson.dumps(item))  # of two with one key, the last wins

    def _add_error(self, batch: Batch, reason: str, *, counted: bool = False) -> None:
        """`counted`: the record is one of those done."""
        batch.processed += 1
        reason = reason if len(reason) <= MOST_REASON else f"{reason[:MOST_REASON]}…"
        index = self._record["done"] - 1 if counted else self._record["done"]
        pointer = {
            "bucket": self._request["S3BucketSource"]["S3Bucket"],
            "key": self._record["object"],
            "itemIndex": index,
        }
        event: Record = {"itemS3Pointer": pointer, "importArn": self._transfer.arn, "errorMessages": [reason]}
        batch.errors.append(orjson.dumps(event))

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> bool:
        """When the table is ACTIVE: the errors, and the end."""
        with self._engine.reading() as context:
            there = self._engine.catalog.load(context.db, self._transfer.scope, self._transfer.table_name)
            is_ours = there is not None and there.record["TableId"] == self._record["table_id"]
            if there is not None and is_ours:
                record = there.record
                if "restore" in record or context.now < record.get("active_at", 0.0):
                    self.is_waiting = True
                    self._engine.maintenance.wake()
                    return True
            errors = records.errors_of(context.db, self._transfer)
        if errors:
            assert self._bucket is not None
            self._bucket.put(errors_key(self._transfer.name), errors, Encryption())
            self._record["errors_key"] = errors_key(self._transfer.name)
        with self._engine.writing() as context:
            records.forget_errors(context, self._transfer)
            failure = INVALID_ITEMS if self._record["counts"]["errors"] else None
            for done in ("object", "done"):
                self._record.pop(done, None)
            records.end(context, self._transfer, self._holder, failure)
        return False


def give_up_table(context: OperationContext, transfer: Transfer) -> None:
    """When an import fails whose table is half loaded: what is there stays, and becomes ACTIVE."""
    found = context.engine.catalog.find(context.db, transfer.scope, transfer.table_name)
    if found is not None and found.record["TableId"] == transfer.record["table_id"] and "restore" in found.record:
        record = deepcopy(dict(found.record))
        if "cursor" in record["restore"]:
            restores.end_import(context, found)
