"""The usual PutItem in one pass: keys are short texts, those of indexes short texts or numbers, no stream, a condition
that has been seen before.

Most puts of most programs are like this, a job's three writes among them, and the steps of write_steps.py cost them
more than SQLite does. This is a fast path:

1. It takes a request only where the full path would neither refuse it nor read it in another way. In any other case it
   says so before it has changed anything, and the full path begins anew (tests/engine/items/test_usual_puts.py).
2. It leaves the same rows as the full path: the item's, its indexes' and its expiry's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import SHORT_TEXT, fitting_index_starts, index_start, text_keys
from penstock.engine.catalog.table_schema import IndexInfo, PutPlan
from penstock.engine.items import expiry_rows
from penstock.errors import ConditionalCheckFailedException
from penstock.expressions.request import named_expressions
from penstock.wire.limits import ITEM_BYTES
from penstock.wire.values import Item, check_item

Request = dict[str, Any]
Condition = Callable[[Item], bool]

DONE: Final = b"{}"
"""The answer to a put that asks for nothing."""

_WITH_CONDITION: Final = frozenset(
    {
        *("TableName", "Item", "ConditionExpression", "ExpressionAttributeNames"),
        *("ExpressionAttributeValues", "ReturnValuesOnConditionCheckFailure"),
    }
)


class UsualPut:
    """A put of which everything is right that the request alone can tell."""

    __slots__ = ("condition", "item", "json", "request", "size")

    def __init__(self, request: Request, item: Item, size: int, condition: Condition | None) -> None:
        self.request = request
        self.item = item
        self.size = size
        self.condition = condition
        self.json: bytes | None = None
        """The item as it is stored; None until somebody needs it."""

    def run(self, context: OperationContext) -> bytes | None:
        """The answer, after the put; None, and nothing is done, where the table or its keys are not usual."""
        item = self.item
        table = context.engine.catalog.cache[1].get((context.scope, self.request["TableName"]))
        plan = None if table is None else table.put_plan
        if plan is None:
            return None
        hashed = item.get(plan.hash_name, _NO_TEXT).get("S")
        ranged = "" if plan.range_name is None else item.get(plan.range_name, _NO_TEXT).get("S")
        if not hashed or len(hashed) > SHORT_TEXT or ranged is None or len(ranged) > SHORT_TEXT:
            return None
        if plan.range_name is not None and not ranged:
            return None
        for name, kind in plan.index_kinds:
            value = item.get(name)
            if value is not None and not 0 < len(value.get(kind, "")) <= SHORT_TEXT:
                return None
        key, tail = text_keys(hashed, ranged)
        cursor = context.cursor
        if cursor is None:
            cursor = context.cursor = context.db.cursor()
        execute = cursor.execute
        row = (key, self.size, self.json or orjson.dumps(item))
        condition = self.condition
        if (condition is None or condition(_NOTHING)) and execute(plan.sql_insert, row).rowcount:
            for index, start in zip(plan.indexes, fitting_index_starts(plan.indexes, item), strict=True):
                if start is not None:
                    execute(index.sql_put, (start + tail, key))
            old: Item = _NOTHING
        else:
            old = self._old_item(context, plan, key)
            execute(plan.sql_put, row)
            if plan.indexes:
                _move_index_rows(execute, plan.indexes, old, item, key, tail)
        ttl = plan.ttl_name
        if ttl is not None and old.get(ttl) != item.get(ttl):
            expiry_rows.move(
                context, plan.ttl_storage, key, expiry_rows.expiry(old, ttl), expiry_rows.expiry(item, ttl)
            )
        return DONE

    def _old_item(self, context: OperationContext, plan: PutPlan, key: bytes) -> Item:
        """The item that is there, of which the condition holds; ConditionalCheckFailedException otherwise."""
        assert context.cursor is not None
        found = context.cursor.execute(plan.sql_get, (key,)).fetchone()
        old: Item = _NOTHING
        if found is not None:
            if context.db.is_hurried:
                context.db.refuse_long_work(found[0])
            old = orjson.loads(found[0])
        if self.condition is not None and not self.condition(old):
            fields: dict[str, Any] = {}
            if found is not None and self.request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
                fields["Item"] = old
            raise ConditionalCheckFailedException("The conditional request failed", **fields)
        return old


_NOTHING: Final[Item] = {}
_NO_TEXT: Final[dict[str, Any]] = {}


def prepare(request: Request) -> UsualPut | None:
    """The put, or None where something is not usual."""
    try:
        if type(request["TableName"]) is not str or type(request["Item"]) is not dict:
            return None
        condition: Condition | None = None
        if len(request) > 2:
            condition = _condition_of(request)
            if condition is None:
                return None
        item, size = check_item(request["Item"])
    except Exception:  # the full path finds out what is wrong, and says it in DynamoDB's words
        return None
    return UsualPut(request, item, size, condition) if size <= ITEM_BYTES else None


def prepare_early(request: Request) -> UsualPut | None:
    """The same where there is time for more: the transaction has not begun, and nobody waits for its end."""
    usual = prepare(request)
    if usual is not None:
        usual.json = orjson.dumps(usual.item)  # what has been checked can be written
    return usual


def _condition_of(request: Request) -> Condition | None:
    get = request.get
    text = get("ConditionExpression")
    if type(text) is not str or "." in text or "[" in text or not request.keys() <= _WITH_CONDITION:
        return None
    if get("ReturnValuesOnConditionCheckFailure", "NONE") not in ("ALL_OLD", "NONE"):
        return None
    values = get("ExpressionAttributeValues")
    if (values is None and "ExpressionAttributeValues" in request) or type(get("ExpressionAttributeNames")) is not dict:
        return None
    known = named_expressions(None, text, request["ExpressionAttributeNames"])
    checked = None if known is None else known.check_values(values)
    return None if known is None or checked is None else known.condition(checked[0])


def _move_index_rows(
    execute: Callable[..., Any], indexes: tuple[IndexInfo, ...], old: Item, new: Item, key: bytes, tail: bytes
) -> None:
    changed = []
    for index in indexes:
        for name in index.own_names:
            if old.get(name) != new.get(name):
                changed.append(index)
                break
    if not changed:
        return
    for index, after in zip(changed, fitting_index_starts(changed, new), strict=True):
        before = index_start(index, old)  # which may be older than the index, and not fit it
        if before == after:
            continue
        if before is not None and after is not None:
            # An index that is being filled may not have the old row yet.
            if execute(index.sql_move, (after + tail, before + tail)).rowcount:
                continue
        elif before is not None:
            execute(index.sql_delete, (before + tail,))
        if after is not None:
            execute(index.sql_put, (after + tail, key))
