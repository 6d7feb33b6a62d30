"""What stands beside the jobs in their table: queues, uniqueness, limits, and which tenants there are.

1. A unique key is held by one job of its task and tenant from its creation to its end.
2. A limit's slot is held by a job from its claim to the end of the attempt, and it is the job's, not the worker's: the
   worker that takes over a dead one's job has the slot already.
Both are taken and given back in the transaction that changes the job, so that neither can leak. What a job held that is
gone all the same (deleted by hand) is taken back by the next one that is refused because of it.
3. Jobs that their limit refuses are in the pool of their concurrency key. They move there only while no slot is free,
   in a transaction that marks the limit's item as blocked. Whoever releases a slot of a blocked limit puts the item
   into the claim index in the same transaction, so that a worker brings jobs of the pool back (JobStore.unblock),
   even if the one that has released it dies. While it is blocked, the item is always in the index: a worker looks at
   it now and then.
4. A job is in the pool of its task only while the item of its queue names the task: workers that have it read that
   pool. The name is removed when the pool is empty, long after the last job can have moved there.
5. All who use a table agree on its shards: an index is written and read in the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.clock import utc_seconds, utc_text
from penstock.errors import ConditionalCheckFailedException, TransactionCanceledException
from penstock.jobs.layouts.layout import ClaimIndex, Item, shard_of
from penstock.jobs.model.job import Job

Action = dict[str, Any]

SEPARATOR: Final = "#"
_TENANTS_SECONDS: Final = 60.0
_NOTED_SECONDS: Final = 3600
_MOST_NOTED: Final = 100


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue's settings."""

    name: str
    paused: bool = False
    reason: str = ""
    tasks: frozenset[str] = frozenset()
    """Tasks that have a pool of their own: not all workers have them (4)."""
    tasks_at: float = 0.0
    """When a job was last moved to one of these pools, or a little later."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A concurrency key, as it was read."""

    key: str
    holders: tuple[str, ...] = ()
    blocked: str = ""
    """A queue of jobs that are in the key's pool; "" where there are none."""
    blocked_at: float = 0.0
    moves: str = "0"
    """How often jobs were moved to the pool."""
    order: str = ""
    """Where it stands in the claim index."""


class SideItems:
    """The items beside the jobs, in the table of their main records; `key` makes an item's key from its name."""

    def __init__(
        self, db: Database, table: str, key: Any, claim_index: ClaimIndex | None = None, shards: int = 1
    ) -> None:
        self._db = db
        self._table = table
        self._key = key
        self._pool_name = "" if claim_index is None else claim_index.pool
        self._order_name = "" if claim_index is None else claim_index.order
        self._shards = shards
        self._tenants: set[str] = set()
        self._read_tenants_at = 0.0

    # ── queues ───────────────────────────────────────────────────────────────────────────────────

    def queue(self, name: str) -> Queue:
        item = self.read(f"queue{SEPARATOR}{name}")
        if item is None:
            return Queue(name)
        reason, tasks = item.get("reason", {}).get("S", ""), frozenset(item.get("tasks", {}).get("SS", ()))
        return Queue(name, "paused" in item, reason, tasks, utc_seconds(item["tasks_at"]["S"]) if tasks else 0.0)

    def pause(self, name: str, reason: str, now: float) -> None:
        names = {"#paused": "paused", "#at": "at", "#reason": "reason"}
        values = {":yes": {"BOOL": True}, ":at": {"S": utc_text(now)}, ":reason": {"S": reason}}
        self.update(f"queue{SEPARATOR}{name}", "SET #paused = :yes, #at = :at, #reason = :reason", names, values)

    def resume(self, name: str) -> None:
        names = {"#paused": "paused", "#at": "at", "#reason": "reason"}
        self.update(f"queue{SEPARATOR}{name}", "REMOVE #paused, #at, #reason", names)

    def add_tasks(self, queue: str, tasks: frozenset[str], now: float) -> None:
        """Names the tasks in the queue's item, so that their jobs may move to pools of their own (4)."""
        values = {":tasks": {"SS": sorted(tasks)}, ":now": {"S": utc_text(now)}}
        names = {"#tasks": "tasks", "#at": "tasks_at"}
        self.update(f"queue{SEPARATOR}{queue}", "ADD #tasks :tasks SET #at = :now", names, values)

    def names_task(self, queue: str, task: str, since: float) -> Action:
        """The check that the queue's item has named the task since then."""
        check = {
            "TableName": self._table,
            "Key": self._key(f"queue{SEPARATOR}{queue}"),
            "ConditionExpression": "contains(#tasks, :task) AND #at >= :since",
            "ExpressionAttributeNames": {"#tasks": "tasks", "#at": "tasks_at"},
            "ExpressionAttributeValues": {":task": {"S": task}, ":since": {"S": utc_text(since)}},
        }
        return {"ConditionCheck": check}

    def remove_task(self, queue: Queue, task: str) -> None:
        """The pool of the task was empty; nothing is done if a job may have moved there since the queue was read."""
        values = {":tasks": {"SS": [task]}, ":at": {"S": utc_text(queue.tasks_at)}}
        names = {"#tasks": "tasks", "#at": "tasks_at"}
        with suppress(ConditionalCheckFailedException):
            self.update(f"queue{SEPARATOR}{queue.name}", "DELETE #tasks :tasks", names, values, "#at = :at")

    # ── cancelled jobs that run ──────────────────────────────────────────────────────────────────

    def note_cancelled(self, owner: str, job: Job, ttl_name: str) -> None:
        """Names a job in an item of the worker that runs it (coroutines.py, 19).

        Raises ConditionalCheckFailedException if there are many already: a worker without coroutines reads none.
        """
        ttl = int(job.updated_at) + _NOTED_SECONDS
        values: Item = {":ids": {"SS": [job.id]}, ":ttl": {"N": str(ttl)}, ":most": {"N": str(_MOST_NOTED)}}
        names = {"#ids": "ids", "#ttl": ttl_name}
        condition = "attribute_not_exists(#ids) OR size(#ids) < :most"
        self.update(f"cancelled{SEPARATOR}{owner}", "ADD #ids :ids SET #ttl = :ttl", names, values, condition)

    def cancelled_jobs(self, owner: str) -> frozenset[str]:
        item = self.read(f"cancelled{SEPARATOR}{owner}") or {}
        return frozenset(item.get("ids", {}).get("SS", ()))

    def forget_cancelled(self, owner: str, ids: Iterable[str]) -> None:
        values = {":ids": {"SS": sorted(ids)}}
        self.update(f"cancelled{SEPARATOR}{owner}", "DELETE #ids :ids", {"#ids": "ids"}, values)

    # ── tenants ──────────────────────────────────────────────────────────────────────────────────

    def note_tenant(self, tenant: str) -> None:
        """Writes down that there is such a tenant, once for each process."""
        if tenant in self._tenants or not tenant:
            return
        self.update("tenants", "ADD #names :name", {"#names": "names"}, {":name": {"SS": [tenant]}})
        self._tenants.add(tenant)

    def has_tenants(self, now: float) -> bool:
        """Whether a job of this table has a tenant; read once a minute, and not by who enqueues for a moment only."""
        if self._tenants:
            return True
        if now >= self._read_tenants_at:
            if self._read_tenants_at:
                self._tenants.update(self.tenants()[1:])
            self._read_tenants_at = now + (_TENANTS_SECONDS if self._read_tenants_at else 1.0)
        return bool(self._tenants)

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

    def read_unique(self, job: Job) -> Item | None:
        """Who holds the job's key, as `holder`."""
        request = {"TableName": self._table, "Key": self._unique_key(job), "ConsistentRead": True}
        return self._db.execute("GetItem", request).get("Item")

    def check_unique(self, job: Job, holder: str) -> Action:
        """The check that `job`'s key is still held by this one, which has not ended then (1)."""
        check = {
            "TableName": self._table,
            "Key": self._unique_key(job),
            "ConditionExpression": "#holder = :holder",
            "ExpressionAttributeNames": {"#holder": "holder"},
            "ExpressionAttributeValues": {":holder": {"S": holder}},
        }
        return {"ConditionCheck": check}

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

    def release_slot(self, job: Job, blocked: str = "", now: float = 0.0) -> list[Action]:
        """Refused where the limit is blocked and `blocked`, the queue that is to be told, is not given (3)."""
        if job.concurrency_key is None or job.lease is None:
            return []
        return [{"Update": self._slot_update(job.concurrency_key, job.id, blocked, now)}]

    def _slot_update(self, concurrency_key: str, job_id: str, blocked: str, now: float) -> dict[str, Any]:
        update = {
            "TableName": self._table,
            "Key": self._key(f"limit{SEPARATOR}{concurrency_key}"),
            "UpdateExpression": "DELETE #holders :jobs",
            "ExpressionAttributeNames": {"#holders": "holders"},
            "ExpressionAttributeValues": {":jobs": {"SS": [job_id]}},
        }
        if blocked:
            update["UpdateExpression"] += " SET #pool = :pool, #order = :order"
            update["ExpressionAttributeNames"] |= self._place_names()
            update["ExpressionAttributeValues"] |= self._place(concurrency_key, blocked, now, job_id)
        else:
            update["ConditionExpression"] = "attribute_not_exists(#blocked)"
            update["ExpressionAttributeNames"] |= {"#blocked": "blocked"}
            update["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return update

    def _place_names(self) -> dict[str, str]:
        return {"#pool": self._pool_name, "#order": self._order_name}

    def _place(self, concurrency_key: str, queue: str, at: float, by: str) -> Item:
        """The limit's place in the claim index, by which it is looked at; `by` makes it like no other."""
        shard = shard_of(concurrency_key, self._shards)
        return {":pool": {"S": f"{queue}#wake#{shard}"}, ":order": {"S": f"{utc_text(at)}#{by}"}}

    def limit(self, concurrency_key: str) -> Limit:
        item = self.read(f"limit{SEPARATOR}{concurrency_key}") or {}
        at = item.get("blocked_at", {}).get("S")
        return Limit(
            concurrency_key,
            tuple(sorted(item.get("holders", {}).get("SS", ()))),
            item.get("blocked", {}).get("S", ""),
            0.0 if at is None else utc_seconds(at),
            item.get("moves", {}).get("N", "0"),
            item.get(self._order_name, {}).get("S", ""),
        )

    def slot_holders(self, concurrency_key: str) -> list[str]:
        return list(self.limit(concurrency_key).holders)

    def block(self, job: Job, most: int, now: float, look_at: float) -> Action:
        """The update that goes with a move of jobs to the pool of their limit: refused where a slot is free (3)."""
        key = job.concurrency_key or ""
        blocked = {":queue": {"S": job.queue}, ":now": {"S": utc_text(now)}, ":one": {"N": "1"}}
        update = {
            "TableName": self._table,
            "Key": self._key(f"limit{SEPARATOR}{key}"),
            "UpdateExpression": "SET #blocked = :queue, #at = :now, #pool = if_not_exists(#pool, :pool), "
            "#order = if_not_exists(#order, :order) ADD #moves :one",
            "ConditionExpression": "attribute_exists(#holders) AND size(#holders) >= :most",
            "ExpressionAttributeNames": {"#blocked": "blocked", "#at": "blocked_at", "#moves": "moves"}
            | {"#holders": "holders"}
            | self._place_names(),
            "ExpressionAttributeValues": blocked
            | {":most": {"N": str(most)}}
            | self._place(key, job.queue, look_at, job.id),
        }
        return {"Update": update}

    def end_look(self, limit: Limit, queue: str, look_at: float | None, by: str) -> bool:
        """Looks again at that time; None where the pool is empty and the limit is not blocked any more.

        False, and nothing is changed, if a slot was released or (for None) a job was moved to the pool since.
        """
        names = self._place_names()
        values: Item = {":seen": {"S": limit.order}}
        condition = "#order = :seen"
        if look_at is None:
            expression = "REMOVE #blocked, #at, #pool, #order"
            condition += " AND (#moves = :moves OR attribute_not_exists(#moves))"
            names |= {"#blocked": "blocked", "#at": "blocked_at", "#moves": "moves"}
            values[":moves"] = {"N": limit.moves}
        else:
            expression = "SET #blocked = :queue, #pool = :pool, #order = :order"
            names |= {"#blocked": "blocked"}
            values |= {":queue": {"S": queue}} | self._place(limit.key, queue, look_at, by)
        try:
            self.update(f"limit{SEPARATOR}{limit.key}", expression, names, values, condition)
        except ConditionalCheckFailedException:
            return False
        return True

    def free_slots(self, concurrency_key: str, now: float) -> None:
        """Takes slots back from jobs that are gone."""
        limit = self.limit(concurrency_key)
        for holder in limit.holders:
            gone = {
                "TableName": self._table,
                "Key": self._key(holder),
                "ConditionExpression": "attribute_not_exists(#key)",
                "ExpressionAttributeNames": {"#key": next(iter(self._key(holder)))},
            }
            update = self._slot_update(concurrency_key, holder, limit.blocked, now)
            with suppress(TransactionCanceledException):  # it is there
                self._db.execute(
                    "TransactWriteItems", {"TransactItems": [{"ConditionCheck": gone}, {"Update": update}]}
                )

    def release(
        self, before: Job, after: Job, *, without_key: bool = False, blocked: str = "", now: float = 0.0
    ) -> list[Action]:
        """What a job lets go of: its slot when an attempt ends, its unique key when all of it does."""
        actions: list[Action] = []
        if after.lease is None:
            actions += self.release_slot(before, blocked, now)
        if after.is_terminal and not without_key:
            actions += self.release_unique(before)
        return actions

    # ── any item ─────────────────────────────────────────────────────────────────────────────────

    def read(self, name: str) -> Item | None:
        request = {"TableName": self._table, "Key": self._key(name), "ConsistentRead": True}
        return self._db.execute("GetItem", request).get("Item")

    def write(self, name: str, attributes: Item) -> None:
        self._db.execute("PutItem", {"TableName": self._table, "Item": {**self._key(name), **attributes}})

    def put(self, request: dict[str, Any]) -> None:
        """A PutItem. Raises ConditionalCheckFailedException."""
        self._db.execute("PutItem", request)

    def update(
        self, name: str, expression: str, names: dict[str, str], values: Item | None = None, condition: str = ""
    ) -> Item:
        """The item as it is afterwards. Raises ConditionalCheckFailedException."""
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
