"""Records of accounts: `AccountId`, `RunTime`, `Processed` (0 or 1), `DocumentId` and whatever else they have (S4.6).

1. Every query is an iterator that reads on page after page.
2. Marking never makes a record: one that is not there is an error.
3. In the safe layout, what is still to be done is in the index `Pending` and nothing else is; both indexes are spread
   over shards, by the record's key, and read back in the order of `RunTime`. In compat there is one index, `Processed`,
   by the bare number, in no order.
4. What the layout and a processor keep in a record is not shown: what was put is what is got.
5. Other programs write `Processed` and nothing else. In compat that is all. In safe such a record is in no index:
   `adopt` reads the table, and gives each its shard on the condition that its `Processed` is still what was read. A
   text, "0" or "1", becomes the number: programs that read CSV files write it, and compat's index would refuse it.
   What asks for unprocessed or processed records adopts first.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from zlib import crc32

from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import InvalidValue, Item
from penstock.client.reads.pages import Items
from penstock.errors import PenstockError
from penstock.records.record_state import BOOKKEEPING, LEASED, PARKED, NotOurs, RecordState
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.services.dynamodb import default_database
from penstock.systems.account_records.tables import PENDING_INDEX, PENDING_SHARD, PROCESSED_INDEX, PROCESSED_SHARD
from penstock.systems.schema_variants import SchemaVariant, check_variant

Record = Item
"""A record is a dict: `AccountId` and `RunTime` are texts, `Processed` is 0 or 1."""

SHARDS: Final = 8
"""A partition of an index takes 1,000 writes a second. Records keep the shard that they were written with."""

HIDDEN: Final = (PENDING_SHARD, PROCESSED_SHARD, BOOKKEEPING)

STATE: Final = "_state"
"""What `with_state` adds to a record that was tried and is not done."""

_PENDING_STRAY: Final = ((F("Processed") == 0) & F(PENDING_SHARD).missing()) | (F("Processed") == "0")
_PROCESSED_STRAY: Final = ((F("Processed") == 1) & F(PROCESSED_SHARD).missing()) | (F("Processed") == "1")
_INDEX_TRIES: Final = 50
_INDEX_SECONDS: Final = 0.1
"""DynamoDB's indexes follow their table, most often within milliseconds: they are waited for five seconds at most."""

Show = Callable[[Item], "Record"]


class RecordMissing(PenstockError):
    def __init__(self, account_id: str, run_time: str) -> None:
        super().__init__(f"There is no record of {account_id!r} at {run_time!r}. Nothing was changed; check both.")
        self.account_id, self.run_time = account_id, run_time


class RecordModel:
    """The table of records. Without a database, it is that of the configuration (`.env`).

    Which layout the table has is asked of it once, unless it is said. `adopt=False` says that only this model writes
    records: then the whole table is never read (5).
    """

    def __init__(
        self,
        db: Database | None = None,
        *,
        table: str | None = None,
        layout: SchemaVariant | None = None,
        adopt: bool = True,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        if layout is not None:
            check_variant(layout)
        self.db = default_database() if db is None else db
        self.table = self.db.table(table or Config.load().record_table, key=("AccountId:S", "RunTime:S"))
        self._layout = layout
        self._processed_index = ""
        self._adopts = adopt
        self._wait = wait

    @property
    def layout(self) -> SchemaVariant:
        if self._layout is None:
            self._layout = layout_of(self._described())
        return self._layout

    @property
    def processed_index(self) -> str:
        """The name of the index by the number `Processed`, in compat: whoever made the table has named it."""
        if not self._processed_index:
            self._processed_index = processed_index_of(self._described())
        return self._processed_index

    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = self.db.execute("DescribeTable", {"TableName": self.table.name})["Table"]
        return described

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

    def get_item(
        self, account_id: str, run_time: str, *, consistent: bool = False, show: Show | None = None
    ) -> Record | None:
        found = self.table.get(_key(account_id, run_time), consistent=consistent)
        return None if found is None else (show or plain)(found)

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

    def query_unprocessed(
        self, *, since: str = "", limit: int | None = None, show: Show | None = None
    ) -> Iterator[Record]:
        """What is still to be done; in the safe layout oldest first, and from `since` on.

        `show` is `with_state` for records that say whether they have failed; it is the same in all queries.
        """
        if self.layout == "compat":
            return self._of_state(0, since, limit, show)
        self.adopt()
        return self._merge(PENDING_INDEX, PENDING_SHARD, pending_shards(), since, limit, show)

    def query_processed(
        self, *, since: str = "", limit: int | None = None, show: Show | None = None
    ) -> Iterator[Record]:
        """What is done, in the same way."""
        if self.layout == "compat":
            return self._of_state(1, since, limit, show)
        self.adopt()
        return self._merge(PROCESSED_INDEX, PROCESSED_SHARD, processed_shards(), since, limit, show)

    def query_by_account(
        self,
        account_id: str,
        *,
        since: str = "",
        newest_first: bool = False,
        limit: int | None = None,
        show: Show | None = None,
    ) -> Iterator[Record]:
        """An account's records in the order of their times."""
        sort = _since(since)
        items = self.table.query(AccountId=account_id, sort=sort, newest_first=newest_first, limit=limit)
        return map(show or plain, items)

    def query_failed(self, *, since: str = "", limit: int | None = None, show: Show | None = None) -> Iterator[Record]:
        """What has failed for good, until it is redriven; reads the whole table."""
        failed = F(BOOKKEEPING).begins_with(PARKED)
        wanted = failed & (F("RunTime") >= since) if since else failed
        return map(show or plain, self.table.scan(filter=wanted, limit=limit, consistent=True))

    # ── records of other programs ────────────────────────────────────────────────────────────────

    def adopt(self) -> int:
        """Puts records of other programs into the index of their state; how many there were (5)."""
        if not self._adopts or self.layout == "compat":
            return 0
        count, last = 0, None
        wanted = _PENDING_STRAY | _PROCESSED_STRAY
        for item in self.table.scan(filter=wanted, select=["AccountId", "RunTime", "Processed"], consistent=True):
            if self._adopt(item):
                count, last = count + 1, item
        if last is not None:
            self._wait_for_index(last)
        return count

    def _adopt(self, item: Item) -> bool:
        state = int(item["Processed"])
        key = {"AccountId": item["AccountId"], "RunTime": item["RunTime"]}
        gone = [PENDING_SHARD, BOOKKEEPING] if state else [PROCESSED_SHARD]
        marks = {"Processed": state, **self._marks(item, state)}
        try:
            self.table.update(key, set=marks, remove=gone, if_=_PROCESSED_STRAY if state else _PENDING_STRAY)
        except ConditionFailed:  # it was changed, deleted, or adopted by somebody else
            return False
        return True

    def _wait_for_index(self, item: Item) -> None:
        """Until the index shows the record that was adopted last; not if somebody has changed it meanwhile."""
        state = int(item["Processed"])
        index, attribute = (PROCESSED_INDEX, PROCESSED_SHARD) if state else (PENDING_INDEX, PENDING_SHARD)
        shard = self._marks(item, state)[attribute]
        key = {"AccountId": item["AccountId"], "RunTime": item["RunTime"]}
        for _ in range(_INDEX_TRIES):
            same_time = self.table.query(index=index, key={attribute: shard}, sort=F("RunTime") == item["RunTime"])
            if any(one["AccountId"] == item["AccountId"] for one in same_time):
                return
            if (self.table.get(key, consistent=True) or {}).get(attribute) != shard:
                return
            self._wait(_INDEX_SECONDS)

    def count_strays(self) -> int:
        """How many unprocessed records `adopt` would find."""
        if not self._adopts or self.layout == "compat":
            return 0
        found = self.table.scan(filter=_PENDING_STRAY, select=["AccountId"], consistent=True)
        return sum(1 for _ in found)

    def _merge(
        self, index: str, attribute: str, shards: list[str], since: str, limit: int | None, show: Show | None
    ) -> Iterator[Record]:
        """The shards of an index as one, in the order of `RunTime`: a page of each is in memory."""
        queries = [self._query(index, {attribute: shard}, since, limit) for shard in shards]
        merged = heapq.merge(*queries, key=lambda item: (item["RunTime"], item["AccountId"]))
        return map(show or plain, _first(merged, limit))

    def _of_state(self, state: int, since: str, limit: int | None, show: Show | None) -> Iterator[Record]:
        filter_ = F("RunTime") >= since if since else None
        query = self.table.query(index=self.processed_index, key={"Processed": state}, filter=filter_, limit=limit)
        return map(show or plain, query)

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


def processed_index_of(described: Mapping[str, Any]) -> str:
    """The index whose partition key is the number `Processed`. Raises PenstockError."""
    types = {one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]}
    for index in described.get("GlobalSecondaryIndexes", ()):
        keys = {one["KeyType"]: one["AttributeName"] for one in index["KeySchema"]}
        if keys["HASH"] == "Processed" and types["Processed"] == "N":
            return str(index["IndexName"])
    raise PenstockError(
        f"The table {described['TableName']} has no index by the number Processed, so what is to be done cannot be "
        "found. `penstock tables apply account-records --layout compat` adds one."
    )


def plain(item: Item) -> Record:
    """A record as its owner wrote it (4)."""
    return {name: value for name, value in item.items() if name not in HIDDEN}


def with_state(item: Item) -> Record:
    """The same, with `_state` where a processor has it, tries it again, or has given it up."""
    try:
        state = RecordState.of({"S": str(item[BOOKKEEPING])} if BOOKKEEPING in item else None)
    except NotOurs:
        return plain(item)
    word = {PARKED: "failed", LEASED: "processing"}.get(state.word, "retrying" if state.failures else "")
    if not word:
        return plain(item)
    error = {"kind": state.kind, "message": state.message} if state.kind else {}
    return plain(item) | {STATE: {"state": word, "attempts": state.attempts, **error}}


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
