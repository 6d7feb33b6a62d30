"""Records of accounts: `AccountId`, `RunTime`, `Processed` (0 or 1), `DocumentId` and whatever else they have (S4.6).

1. Every query is an iterator that reads on page after page.
2. Marking never makes a record: one that is not there is an error.
3. In the safe layout, what is still to be done is in the index `Pending` and nothing else is; both indexes are spread
   over shards, by the record's key, and read back in the order of `RunTime`. In compat there is one index, `Processed`,
   by the bare number, in no order.
4. What the layout and a processor keep in a record is not shown: what was put is what is got.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any, Final
from zlib import crc32

from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import InvalidValue, Item
from penstock.client.reads.pages import Items
from penstock.errors import PenstockError
from penstock.records.record_state import BOOKKEEPING
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.services.dynamodb import default_database
from penstock.systems.account_records.tables import PENDING_INDEX, PENDING_SHARD, PROCESSED_INDEX, PROCESSED_SHARD
from penstock.systems.schema_variants import SchemaVariant, check_variant

Record = Item
"""A record is a dict: `AccountId` and `RunTime` are texts, `Processed` is 0 or 1."""

SHARDS: Final = 8
"""A partition of an index takes 1,000 writes a second. Records keep the shard that they were written with."""

HIDDEN: Final = (PENDING_SHARD, PROCESSED_SHARD, BOOKKEEPING)


class RecordMissing(PenstockError):
    def __init__(self, account_id: str, run_time: str) -> None:
        super().__init__(f"There is no record of {account_id!r} at {run_time!r}. Nothing was changed; check both.")
        self.account_id, self.run_time = account_id, run_time


class RecordModel:
    """The table of records. Without a database, it is that of the configuration (`.env`).

    Which layout the table has is asked of it once, unless it is said.
    """

    def __init__(
        self, db: Database | None = None, *, table: str | None = None, layout: SchemaVariant | None = None
    ) -> None:
        if layout is not None:
            check_variant(layout)
        self.db = default_database() if db is None else db
        self.table = self.db.table(table or Config.load().record_table, key=("AccountId:S", "RunTime:S"))
        self._layout = layout

    @property
    def layout(self) -> SchemaVariant:
        if self._layout is None:
            described = self.db.execute("DescribeTable", {"TableName": self.table.name})["Table"]
            self._layout = layout_of(described)
        return self._layout

    # ── one record ───────────────────────────────────────────────────────────────────────────────

    def put_item(self, record: Mapping[str, Any]) -> Record:
        """Writes a record, in place of the one with its key; without `Processed`, it is still to be done.

        Raises InvalidValue for what no record can be.
        """
        written = dict(record)
        written.setdefault("Processed", 0)
        for name in HIDDEN:
            if name in record:
                raise InvalidValue("the model keeps this attribute itself; leave it out", name)
        _check_key(written.get("AccountId"), written.get("RunTime"))
        self.table.put({**written, **self._marks(written, _state(written["Processed"]))})
        return written

    def get_item(self, account_id: str, run_time: str, *, consistent: bool = False) -> Record | None:
        found = self.table.get(_key(account_id, run_time), consistent=consistent)
        return None if found is None else plain(found)

    def delete_item(self, account_id: str, run_time: str) -> Record | None:
        """Deletes a record, and gives back what it was; None where there was none."""
        found = self.table.delete(_key(account_id, run_time), return_old=True)
        return None if found is None else plain(found)

    def mark_as_processed(self, account_id: str, run_time: str) -> Record:
        """Marks a record that is there, and gives it back; one that is marked stays so. Raises RecordMissing."""
        key = _key(account_id, run_time)
        changes = {"Processed": 1, **self._marks(key, 1)}
        gone = [BOOKKEEPING, PENDING_SHARD] if self.layout == "safe" else [BOOKKEEPING]
        try:
            marked = self.table.update(key, set=changes, remove=gone, if_=F("AccountId").exists(), return_new=True)
        except ConditionFailed as error:
            raise RecordMissing(account_id, run_time) from error
        assert marked is not None  # return_new gives it
        return plain(marked)

    # ── many records ─────────────────────────────────────────────────────────────────────────────

    def query_unprocessed(self, *, since: str = "", limit: int | None = None) -> Iterator[Record]:
        """What is still to be done; in the safe layout oldest first, and from `since` on."""
        if self.layout == "safe":
            return self._merge(PENDING_INDEX, PENDING_SHARD, pending_shards(), since, limit)
        return self._of_state(0, since, limit)

    def query_processed(self, *, since: str = "", limit: int | None = None) -> Iterator[Record]:
        """What is done, in the same way."""
        if self.layout == "safe":
            return self._merge(PROCESSED_INDEX, PROCESSED_SHARD, processed_shards(), since, limit)
        return self._of_state(1, since, limit)

    def query_by_account(
        self, account_id: str, *, since: str = "", newest_first: bool = False, limit: int | None = None
    ) -> Iterator[Record]:
        """An account's records in the order of their times."""
        sort = _since(since)
        items = self.table.query(AccountId=account_id, sort=sort, newest_first=newest_first, limit=limit)
        return map(plain, items)

    def _merge(self, index: str, attribute: str, shards: list[str], since: str, limit: int | None) -> Iterator[Record]:
        """The shards of an index as one, in the order of `RunTime`: a page of each is in memory."""
        queries = [self._query(index, {attribute: shard}, since, limit) for shard in shards]
        merged = heapq.merge(*queries, key=lambda item: (item["RunTime"], item["AccountId"]))
        return map(plain, _first(merged, limit))

    def _of_state(self, state: int, since: str, limit: int | None) -> Iterator[Record]:
        filter_ = F("RunTime") >= since if since else None
        query = self.table.query(index=PROCESSED_INDEX, key={"Processed": state}, filter=filter_, limit=limit)
        return map(plain, query)

    def _query(self, index: str, key: dict[str, Any], since: str, limit: int | None) -> Items:
        return self.table.query(index=index, key=key, sort=_since(since), limit=limit)

    def _marks(self, record: Mapping[str, Any], state: int) -> dict[str, str]:
        """What puts a record into the index of its state."""
        if self.layout == "compat":
            return {}
        return {PROCESSED_SHARD: processed_shard(record)} if state else {PENDING_SHARD: pending_shard(record)}


# ── shards ───────────────────────────────────────────────────────────────────────────────────────


def pending_shard(record: Mapping[str, Any]) -> str:
    """`07`: the partition of the index `Pending`."""
    name = f"{record['AccountId']}\0{record['RunTime']}"
    return f"{crc32(name.encode()) % SHARDS:02d}"


def processed_shard(record: Mapping[str, Any]) -> str:
    """`1#07`: the partition of the index `Processed`."""
    return f"1#{pending_shard(record)}"


def pending_shards() -> list[str]:
    return [f"{number:02d}" for number in range(SHARDS)]


def processed_shards() -> list[str]:
    return [f"1#{shard}" for shard in pending_shards()]


# ── their shape ──────────────────────────────────────────────────────────────────────────────────


def layout_of(described: Mapping[str, Any]) -> SchemaVariant:
    """The layout of a table as DescribeTable shows it."""
    names = {index["IndexName"] for index in described.get("GlobalSecondaryIndexes", ())}
    return "safe" if PENDING_INDEX in names else "compat"


def plain(item: Item) -> Record:
    """A record as its owner wrote it (4)."""
    return {name: value for name, value in item.items() if name not in HIDDEN}


def _key(account_id: str, run_time: str) -> dict[str, str]:
    _check_key(account_id, run_time)
    return {"AccountId": account_id, "RunTime": run_time}


def _check_key(account_id: object, run_time: object) -> None:
    for name, value in (("AccountId", account_id), ("RunTime", run_time)):
        if not isinstance(value, str) or not value:
            raise InvalidValue("a record has it, a text that is not empty", name)


def _state(value: object) -> int:
    if isinstance(value, bool) or value not in (0, 1):
        raise InvalidValue(f"it is 0 (to be done) or 1 (done), not {value!r}", "Processed")
    return int(value)


def _since(since: str) -> Condition | None:
    return F("RunTime") >= since if since else None


def _first(items: Iterator[Item], limit: int | None) -> Iterator[Item]:
    for number, item in enumerate(items):
        if number == limit:
            return
        yield item
