"""What stands beside the jobs in their table: queues, uniqueness, limits, and which tenants there are.

1. A unique key is held by one job of its task and tenant from its creation to its end.
2. A limit's slot is held by a job from its claim to the end of the attempt, and it is the job's, not the worker's: the
   worker that takes over a dead one's job has the slot already.
Both are taken and given back in the transaction that changes the job, so that neither can leak. What a job held that is
gone all the same (deleted by hand) is taken back by the next one that is refused because of it.
3. All who use a table agree on its shards: an index is written and read in the same ones.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.clock import utc_text
from penstock.errors import ConditionalCheckFailedException, TransactionCanceledException
from penstock.jobs.layouts.layout import Item
from penstock.jobs.model.job import Job

Action = dict[str, Any]

SEPARATOR: Final = "#"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue's settings."""

    name: str
    paused: bool = False
    reason: str = ""


class SideItems:
    """The items beside the jobs, in the table of their main records; `key` makes an item's key from its name."""

    def __init__(self, db: Database, table: str, key: Any) -> None:
        self._db = db
        self._table = table
        self._key = key
        self._tenants: set[str] = set()

    # ── queues ───────────────────────────────────────────────────────────────────────────────────

    def queue(self, name: str) -> Queue:
        item = self.read(f"queue{SEPARATOR}{name}")
        if item is None:
            return Queue(name)
        return Queue(name, "paused" in item, item.get("reason", {}).get("S", ""))

    def pause(self, name: str, reason: str, now: float) -> None:
        item = {"paused": {"BOOL": True}, "at": {"S": utc_text(now)}}
        if reason:
            item["reason"] = {"S": reason}
        self.write(f"queue{SEPARATOR}{name}", item)

    def resume(self, name: str) -> None:
        self._db.execute("DeleteItem", {"TableName": self._table, "Key": self._key(f"queue{SEPARATOR}{name}")})

    # ── tenants ──────────────────────────────────────────────────────────────────────────────────

    def note_tenant(self, tenant: str) -> None:
        """Writes down that there is such a tenant, once for each process."""
        if tenant in self._tenants or not tenant:
            return
        self.update("tenants", "ADD #names :name", {"#names": "names"}, {":name": {"SS": [tenant]}})
        self._tenants.add(tenant)

    def tenants(self) -> list[str]:
        """All of them, the nameless one first."""
        item = self.read("tenants") or {}
        return ["", *sorted(item.get("names", {}).get("SS", []))]

    # ── shards ───────────────────────────────────────────────────────────────────────────────────

    def shards(self) -> int | None:
        """As many as the table was made with; None where nobody has used it yet."""
        item = self.read("settings") or {}
        return int(item["shards"]["N"]) if "shards" in item else None

    def agree_on_shards(self, shards: int) -> int:
        """How many shards the table has: as many as whoever was first wanted (3)."""
        item = self.read("settings")
        if item is None or "shards" not in item:
            expression = "SET #shards = if_not_exists(#shards, :shards)"
            self.update("settings", expression, {"#shards": "shards"}, {":shards": {"N": str(shards)}})
            item = self.read("settings") or {}
        return int(item["shards"]["N"])

    # ── unique jobs ──────────────────────────────────────────────────────────────────────────────

    def hold_unique(self, job: Job) -> list[Action]:
        if job.unique_key is None:
            return []
        key = self._unique_key(job)
        item = {**key, "holder": {"S": job.id}, "ttl": {"N": str(job.expires_at)}}
        condition = self._held_by(job.id)
        put = {"TableName": self._table, "Item": item, **condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        return [{"Put": put}]

    def release_unique(self, job: Job) -> list[Action]:
        if job.unique_key is None:
            return []
        return [{"Delete": {"TableName": self._table, "Key": self._unique_key(job), **self._held_by(job.id)}}]

    def forget_unique(self, job: Job, holder: str) -> None:
        """Removes the guard of `job`'s key, if it is that of a holder that is gone."""
        with suppress(ConditionalCheckFailedException):  # another one has been quicker
            request = {"TableName": self._table, "Key": self._unique_key(job), **self._held_by(holder)}
            self._db.execute("DeleteItem", request)

    def keep_unique(self, job: Job, until: int) -> list[dict[str, Any]]:
        """The update by which the guard expires later, where there is one."""
        if job.unique_key is None or job.is_terminal:
            return []
        update = {
            "TableName": self._table,
            "Key": self._unique_key(job),
            "UpdateExpression": "SET #ttl = :until",
            "ConditionExpression": "#holder = :holder",
            "ExpressionAttributeNames": {"#ttl": "ttl", "#holder": "holder"},
            "ExpressionAttributeValues": {":until": {"N": str(until)}, ":holder": {"S": job.id}},
        }
        return [update]

    def _unique_key(self, job: Job) -> Item:
        key: Item = self._key(SEPARATOR.join(("unique", job.tenant, job.task, job.unique_key or "")))
        return key

    def _held_by(self, holder: str) -> dict[str, Any]:
        return {
            "ConditionExpression": "attribute_not_exists(#holder) OR #holder = :holder",
            "ExpressionAttributeNames": {"#holder": "holder"},
            "ExpressionAttributeValues": {":holder": {"S": holder}},
        }

    # ── limits ───────────────────────────────────────────────────────────────────────────────────

    def hold_slot(self, job: Job) -> list[Action]:
        if job.concurrency_key is None:
            return []
        condition = "attribute_not_exists(#holders) OR size(#holders) < :limit OR contains(#holders, :job)"
        update = {
            "TableName": self._table,
            "Key": self._key(f"limit{SEPARATOR}{job.concurrency_key}"),
            "UpdateExpression": "ADD #holders :jobs",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#holders": "holders"},
            "ExpressionAttributeValues": {
                ":limit": {"N": str(job.max_concurrent)},
                ":job": {"S": job.id},
                ":jobs": {"SS": [job.id]},
            },
        }
        return [{"Update": update}]

    def release_slot(self, job: Job) -> list[Action]:
        if job.concurrency_key is None or job.lease is None:
            return []
        return [{"Update": self._slot_update(job.concurrency_key, job.id)}]

    def _slot_update(self, concurrency_key: str, job_id: str) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "Key": self._key(f"limit{SEPARATOR}{concurrency_key}"),
            "UpdateExpression": "DELETE #holders :jobs",
            "ExpressionAttributeNames": {"#holders": "holders"},
            "ExpressionAttributeValues": {":jobs": {"SS": [job_id]}},
        }

    def slot_holders(self, concurrency_key: str) -> list[str]:
        item = self.read(f"limit{SEPARATOR}{concurrency_key}") or {}
        return sorted(item.get("holders", {}).get("SS", []))

    def free_slots(self, concurrency_key: str) -> None:
        """Takes slots back from jobs that are gone."""
        for holder in self.slot_holders(concurrency_key):
            gone = {
                "TableName": self._table,
                "Key": self._key(holder),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": next(iter(self._key(holder)))},
            }
            update = self._slot_update(concurrency_key, holder)
            with suppress(TransactionCanceledException):  # it is there
                self._db.execute(
                    "TransactWriteItems", {"TransactItems": [{"ConditionCheck": gone}, {"Update": update}]}
                )

    def release(self, before: Job, after: Job, *, without_key: bool = False) -> list[Action]:
        """What a job lets go of: its slot when an attempt ends, its unique key when all of it does."""
        actions: list[Action] = []
        if after.lease is None:
            actions += self.release_slot(before)
        if after.is_terminal and not without_key:
            actions += self.release_unique(before)
        return actions

    # ── any item ─────────────────────────────────────────────────────────────────────────────────

    def read(self, name: str) -> Item | None:
        request = {"TableName": self._table, "Key": self._key(name), "ConsistentRead": True}
        return self._db.execute("GetItem", request).get("Item")

    def write(self, name: str, attributes: Item) -> None:
        self._db.execute("PutItem", {"TableName": self._table, "Item": {**self._key(name), **attributes}})

    def update(
        self, name: str, expression: str, names: dict[str, str], values: Item | None = None, *, condition: str = ""
    ) -> Item:
        """The item as it is afterwards."""
        request: dict[str, Any] = {
            "ReturnValues": "ALL_NEW",
            "TableName": self._table,
            "Key": self._key(name),
            "UpdateExpression": expression,
            "ExpressionAttributeNames": names,
        }
        if values:
            request["ExpressionAttributeValues"] = values
        if condition:
            request["ConditionExpression"] = condition
        updated: Item = self._db.execute("UpdateItem", request).get("Attributes", {})
        return updated
