"""GetItem, PutItem, UpdateItem, DeleteItem; batches and transactions of them.

An item is answered as its bytes lie in the file. A batch is checked whole before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import orjson

from penstock.engine import requests
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import SHORT_TEXT, refuse_nested_keys, row_key_of_key, text_keys, text_partition
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import bulk_rows, capacity_units, transactions, usual_puts, write_steps
from penstock.engine.items.bulk_rows import Row, checked_row, put_rows
from penstock.engine.items.capacity_units import collection_metrics
from penstock.engine.registry import Answer, Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import DynamoDBError, ValidationException
from penstock.expressions.compiled.paths import Projector
from penstock.expressions.request import projection_of
from penstock.wire.limits import BATCH_BYTES, BATCH_GET_ITEMS, BATCH_WRITE_ITEMS
from penstock.wire.values import Item, check_item

# ── GetItem ───────────────────────────────────────────────────────────────────────────────────────


@operation("GetItem", kind="read", is_checked=False)
def get_item(context: OperationContext, request: Request) -> Response | bytes:
    """Most of a server's reads have a table and a key of short texts, and nothing else: this fast path takes half the
    time of `get_checked_item`, and gives the same answer (tests/engine/operations/test_get_item.py)."""
    try:
        key = request["Key"]
        table = context.engine.catalog.cache[1].get((context.scope, request["TableName"]))
        if table is None or table.plain_read is None or len(request) != 2:
            return get_checked_item(context, request)
        sql, hash_name, range_name = table.plain_read
        value = key[hash_name]
        text = value["S"]
        if type(text) is not str or len(value) != 1 or not 0 < len(text) <= SHORT_TEXT:
            return get_checked_item(context, request)
        row_key = text_partition(text)
        if range_name is not None:
            value = key[range_name]
            text = value["S"]
            if type(text) is not str or len(value) != 1 or not 0 < len(text) <= SHORT_TEXT:
                return get_checked_item(context, request)
            row_key += text.encode()
        if len(key) != (1 if range_name is None else 2):
            return get_checked_item(context, request)
    except (AttributeError, KeyError, TypeError, UnicodeError):
        return get_checked_item(context, request)  # refuses a name or a type in DynamoDB's words
    cursor = context.cursor
    if cursor is None:
        cursor = context.cursor = context.db.cursor()
    row = cursor.execute(sql, (row_key,)).fetchone()
    return b"{}" if row is None else b'{"Item":%b}' % row


def get_checked_item(context: OperationContext, request: Request) -> Response:
    """The full path of a GetItem."""
    request = requests.check("GetItem", request)
    key, projector = _key_and_projector(request)
    table = context.table(request["TableName"])
    row_key = row_key_of_key(table, key)
    if projector is not None:
        refuse_nested_keys(table, projector.nested)
    row = context.db.execute(table.sql_get_sized, (row_key,)).fetchone()
    response: Response = {}
    if row is not None:
        response["Item"] = orjson.Fragment(row[0]) if projector is None else projector(orjson.loads(row[0]))
    if "ReturnConsumedCapacity" in request and capacity_units.is_wanted(request):
        units = capacity_units.read_units(row[1] if row else 0, bool(request.get("ConsistentRead")))
        response["ConsumedCapacity"] = capacity_units.report(
            table, capacity_units.Units(units), request["ReturnConsumedCapacity"]
        )
    return response


def _key_and_projector(request: Request) -> tuple[Item, Projector | None]:
    """The key and what is wanted of the item, checked in DynamoDB's order."""
    key: Item = {}

    def check() -> None:
        nonlocal key
        key = check_item(request["Key"])[0]

    try:
        if "ProjectionExpression" in request or "AttributesToGet" in request or "ExpressionAttributeNames" in request:
            projector = projection_of(request, check)
            return key, projector
        return check_item(request["Key"])[0], None
    except ValidationException as error:
        raise error_wording.of_read(error) from None


# ── PutItem, UpdateItem, DeleteItem ───────────────────────────────────────────────────────────────


def _prepare_put(request: Request) -> usual_puts.UsualPut | tuple[Request, write_steps.Put]:
    return usual_puts.prepare(request) or _prepare_any_put(request)


def _prepare_any_put(request: Request) -> tuple[Request, write_steps.Put]:
    """The write, and the request as it is to be read."""
    request = requests.check("PutItem", request)
    try:
        return request, _put_of(request)
    except Exception as error:
        if isinstance(error, ValidationException) and error.message == write_steps.ITEM_TOO_LARGE:
            raise  # all of it was looked at, and a second look would take as much memory again
        converted = requests.look_closely("PutItem", request)
        if converted == request:
            raise
        return converted, _put_of(converted)


def _prepare_other_put(usual: usual_puts.UsualPut) -> tuple[Request, write_steps.Put]:
    """The same of a put whose table is not usual: its item and its condition have been checked."""
    request = requests.check("PutItem", usual.request)
    if request is not usual.request:
        return _prepare_any_put(usual.request)
    write = write_steps.Put(request, usual.item, usual.size, usual.condition)
    write.json = usual.json
    return request, write


def _put_of(request: Request) -> write_steps.Put:
    try:
        return write_steps.prepare_put(request)
    except ValidationException as error:
        raise error_wording.of_write(error, request) from None


def _prepare_delete(request: Request) -> write_steps.Delete:
    try:
        return write_steps.prepare_delete(request)
    except ValidationException as error:
        raise error_wording.of_write(error, request) from None


def _prepare_update(request: Request) -> write_steps.Update:
    try:
        return write_steps.prepare_update(request)
    except ValidationException as error:
        raise error_wording.of_write(error, request) from None


@operation("PutItem", kind="write", prepare=_prepare_put, prepare_early=usual_puts.prepare_early, is_checked=False)
def put_item(context: OperationContext, request: Request) -> Response | bytes:
    prepared = context.prepared or _prepare_put(request)
    if isinstance(prepared, usual_puts.UsualPut):
        answer = prepared.run(context)
        if answer is not None:
            return answer
        prepared = _prepare_other_put(prepared)
    return put_any_item(context, *prepared)


def put_any_item(context: OperationContext, request: Request, write: write_steps.Put) -> Response:
    """The full path of a PutItem."""
    write.resolve(context)
    table = write.table
    if write.condition is None and not table.watched and "ReturnValues" not in request and _plain(request):
        write_steps.put_unwatched(context, write)
        return {}
    if not write.put_new(context):
        write.execute(context)
    return _response(context, request, write)


@operation("DeleteItem", kind="write", prepare=_prepare_delete)
def delete_item(context: OperationContext, request: Request) -> Response:
    write = context.prepared or _prepare_delete(request)
    write.resolve(context)
    write.execute(context)
    return _response(context, request, write)


def _resolve_update(context: OperationContext, request: Request) -> write_steps.Update:
    """All of an UpdateItem that can be told without its item."""
    write: write_steps.Update = context.prepared or _prepare_update(request)
    write.resolve(context)
    write.refuse_charge()
    return write


def _update_response(context: OperationContext, request: Request, write: write_steps.Update) -> Response:
    """The answer to an UpdateItem that was decided."""
    response: dict[str, Any] = {}
    attributes = write.returned(request.get("ReturnValues", "NONE")) if "ReturnValues" in request else None
    if attributes is not None:
        response["Attributes"] = attributes
    return _with_costs(context, request, write, response)


# ── UpdateItems that arrived together ──
#
# One statement reads their items, one writes them, one or two each index.
# 1. Each is decided as if it came alone after those before it: it sees what they leave.
# 2. All are decided before anything is written, and what is refused changes nothing.

_Prepared = tuple[Request, write_steps.Update]
_Items = dict[tuple[int, bytes], Item | None]


def _update_items(context: OperationContext, given: Sequence[Request]) -> list[Answer]:
    """Stops before a request that asks about its item's collection: the answer is known after the write."""
    taken = takewhile(lambda request: "ReturnItemCollectionMetrics" not in request, given)
    prepared = [_prepare_for_group(context, request) for request in taken]
    if len(prepared) < 2:
        return []
    items = _read_items(context, [one for one in prepared if not isinstance(one, DynamoDBError)])
    made: list[write_steps.Change] = []
    answers = [
        one if isinstance(one, DynamoDBError) else _decide_update(context, *one, items, made) for one in prepared
    ]
    write_steps.write_many(context, made)
    return answers


def _prepare_for_group(context: OperationContext, given: Request) -> _Prepared | DynamoDBError:
    try:
        request = requests.check("UpdateItem", given)
        return request, _resolve_update(context, request)
    except DynamoDBError as error:
        return error.as_answer()


def _read_items(context: OperationContext, prepared: Sequence[_Prepared]) -> _Items:
    """The items as they are, by table and key."""
    keys: dict[int, tuple[TableInfo, set[bytes]]] = {}
    for _, write in prepared:
        keys.setdefault(write.table.id, (write.table, set()))[1].add(write.key)
    items: _Items = {}
    for number, (table, wanted) in keys.items():
        for key, data in bulk_rows.get_rows(context, table, wanted):
            if context.db.is_hurried:
                context.db.refuse_long_work(data)
            items[number, key] = orjson.loads(data)
    return items


def _decide_update(
    context: OperationContext,
    request: Request,
    write: write_steps.Update,
    items: _Items,
    made: list[write_steps.Change],
) -> Answer:
    place = write.table.id, write.key
    write.old = items.get(place)
    try:
        write.decide()
    except DynamoDBError as error:
        return error.as_answer()
    answer = orjson.dumps(_update_response(context, request, write))
    if write.new is not None:
        made.append(write_steps.Change(write.table, write.key, write.old, write.new, write.size))
        items[place] = write.new  # (1)
    return answer


@operation("UpdateItem", kind="write", prepare=_prepare_update, run_many=_update_items)
def update_item(context: OperationContext, request: Request) -> Response:
    write = _resolve_update(context, request)
    write.execute(context)
    return _update_response(context, request, write)


def _response(context: OperationContext, request: Request, write: write_steps.Write) -> Response:
    """The answer to a PutItem or a DeleteItem."""
    response: dict[str, Any] = {}
    if request.get("ReturnValues") == "ALL_OLD" and write.old is not None:
        response["Attributes"] = write.old
    return _with_costs(context, request, write, response)


def _with_costs(context: OperationContext, request: Request, write: write_steps.Write, response: Response) -> Response:
    if _plain(request):
        return response
    if capacity_units.is_wanted(request):
        units = capacity_units.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity_units.report(write.table, units, request["ReturnConsumedCapacity"])
    if request.get("ReturnItemCollectionMetrics") == "SIZE" and write.table.has_local_indexes:
        response["ItemCollectionMetrics"] = collection_metrics(context, write.table, write.key_values)
    return response


def _plain(request: Request) -> bool:
    """Whether the call asks nothing about its costs."""
    return "ReturnConsumedCapacity" not in request and "ReturnItemCollectionMetrics" not in request


# ── BatchGetItem, BatchWriteItem ──────────────────────────────────────────────────────────────────


ANSWER_BYTES = 2 * BATCH_BYTES
"""Of items as JSON, which may be nine times as long as DynamoDB counts: what is more is left for the next call."""
_DUPLICATES = "Provided list of item keys contains duplicates"


@operation("BatchGetItem", kind="snapshot")
def batch_get_item(context: OperationContext, request: Request) -> Response:
    wanted = _batch_reads(context, request)
    responses: dict[str, list[Any]] = {name: [] for name in request["RequestItems"]}
    unprocessed: dict[str, Any] = {}
    consumed: dict[str, tuple[TableInfo, capacity_units.Units]] = {}
    total = answer_bytes = 0
    read = context.db.cursor().execute  # one for all: each of its own would cost a tenth more
    for name, table, part, projector, row_keys in wanted:
        units = capacity_units.Units()
        for position, (row_key, _) in enumerate(row_keys):
            row = read(table.sql_get_sized, (row_key,)).fetchone()
            size = row[1] if row else 0
            answer_bytes += len(row[0]) if row else 0
            if total + size > BATCH_BYTES or (answer_bytes > ANSWER_BYTES and total):
                rest = [key for _, key in row_keys[position:]]
                unprocessed[name] = {**part, "Keys": rest}
                break
            total += size
            units.table += capacity_units.read_units(size, bool(part.get("ConsistentRead")))
            if row is not None:
                responses[name].append(
                    orjson.Fragment(row[0]) if projector is None else projector(orjson.loads(row[0]))
                )
        consumed[name] = (table, units)
    response: dict[str, Any] = {"Responses": responses, "UnprocessedKeys": unprocessed}
    if capacity_units.is_wanted(request):
        mode = request["ReturnConsumedCapacity"]
        response["ConsumedCapacity"] = [capacity_units.report(table, units, mode) for table, units in consumed.values()]
    return response


_Reads = tuple[str, TableInfo, dict[str, Any], Any, list[tuple[bytes, Item]]]
"""(name, table, what was asked, projector, row keys with their keys)"""


def _batch_reads(context: OperationContext, request: Request) -> list[_Reads]:
    """What to read of which table."""
    if not request["RequestItems"]:
        raise ValidationException("The requestItems parameter is required for BatchGetItem")
    _refuse_mixed_projections(request["RequestItems"])
    if len(request["RequestItems"]) == 1:
        usual = _usual_reads(context, *next(iter(request["RequestItems"].items())))
        if usual is not None:
            return [usual]
    prepared = []
    count = 0
    for name, part in request["RequestItems"].items():
        try:
            projector = projection_of(part)
            checked = [check_item(key)[0] for key in part["Keys"]]
        except ValidationException as error:
            raise error_wording.of_read(error) from None
        if len({orjson.dumps(key, option=orjson.OPT_SORT_KEYS) for key in checked}) != len(checked):
            raise ValidationException(_DUPLICATES)
        count += len(checked)
        prepared.append((name, part, projector, checked))
    if count > BATCH_GET_ITEMS:
        raise ValidationException("Too many items requested for the BatchGetItem call")
    wanted = []
    for name, part, projector, checked in prepared:
        table = context.table(name)
        row_keys = [(row_key_of_key(table, key), key) for key in checked]
        if projector is not None:
            refuse_nested_keys(table, projector.nested)
        wanted.append((name, table, part, projector, row_keys))
    return wanted


def _usual_reads(context: OperationContext, name: str, part: dict[str, Any]) -> _Reads | None:
    """The same of whole items of one table, by keys that are different short texts; None where anything is not so."""
    table = context.engine.catalog.cache[1].get((context.scope, name))
    if table is None or table.plain_read is None or not part.keys() <= _USUAL_PART:
        return None
    _, hash_name, range_name = table.plain_read
    most, keys = 1 if range_name is None else 2, part["Keys"]
    if len(keys) > BATCH_GET_ITEMS:
        return None
    row_keys: dict[bytes, Item] = {}
    for key in keys:
        hashed = key.get(hash_name, _NO_TEXT).get("S")
        ranged = "" if range_name is None else key.get(range_name, _NO_TEXT).get("S")
        if not hashed or len(hashed) > SHORT_TEXT or ranged is None or len(ranged) > SHORT_TEXT or len(key) != most:
            return None
        if (range_name is not None and not ranged) or any(len(value) != 1 for value in key.values()):
            return None
        row_keys[text_keys(hashed, ranged)[0]] = key
    return (name, table, part, None, list(row_keys.items())) if len(row_keys) == len(keys) else None


_USUAL_PART = frozenset({"Keys", "ConsistentRead"})
_NO_TEXT: dict[str, Any] = {}


def _refuse_mixed_projections(tables: dict[str, Any]) -> None:
    """A request is written with expressions or without, whichever its table."""
    used = {name for part in tables.values() for name in ("ProjectionExpression", "AttributesToGet") if name in part}
    if len(used) > 1:
        raise ValidationException(
            "Can not use both expression and non-expression parameters in the same request: "
            "Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}"
        )


_Planned = dict[str, list[write_steps.Write]]


def _prepare_writes(request: Request) -> _Planned:
    """The writes by table."""
    items = request["RequestItems"]
    if not items:
        raise ValidationException("The requestItems parameter is required for BatchWriteItem")
    if sum(map(len, items.values())) > BATCH_WRITE_ITEMS:
        raise ValidationException("Too many items requested for the BatchWriteItem call")
    by_table: _Planned = {}
    for name, write_requests in items.items():
        table = {"TableName": name}  # all that is left to ask of the request of one of these
        by_table[name] = [_write(table, one) for one in write_requests]
    return by_table


def _write(table: Request, asked: dict[str, Any]) -> write_steps.Write:
    put, delete = asked.get("PutRequest"), asked.get("DeleteRequest")
    if (put is None) is (delete is None):
        raise ValidationException(
            "Supplied AttributeValue has more than one datatypes set, "
            "must contain exactly one of the supported datatypes"
        )
    if put is not None:
        return write_steps.plain_put(table, put["Item"])
    return write_steps.prepare_delete({**table, "Key": asked["DeleteRequest"]["Key"]})


@operation("BatchWriteItem", kind="write", prepare=_prepare_writes)
def batch_write_item(context: OperationContext, request: Request) -> Response:
    by_table: _Planned = context.prepared or _prepare_writes(request)
    if len(request) == 1:  # nothing is asked about costs
        plain = _plain_puts(context, by_table)
        if plain is not None:
            for table, rows in plain:
                put_rows(context, table, rows)
            return {"UnprocessedItems": {}}
    for planned in by_table.values():
        _resolve_all(context, planned)
    response: dict[str, Any] = {"UnprocessedItems": {}}
    consumed = []
    metrics: dict[str, list[Any]] = {}
    costs = capacity_units.is_wanted(request)
    for name, planned in by_table.items():
        table = planned[0].table
        units = capacity_units.Units()
        for write in planned:
            if table.watched or costs or isinstance(write, write_steps.Delete):
                write.read(context)
            write.decide()
            write.apply(context)
            if costs:
                units.add(capacity_units.units_of_write(table, write.old, write.new))
        if costs:
            consumed.append(capacity_units.report(table, units, request["ReturnConsumedCapacity"]))
        if request.get("ReturnItemCollectionMetrics") == "SIZE" and table.has_local_indexes:
            collections = {orjson.dumps(write.key_values[table.hash.name]): write.key_values for write in planned}
            metrics[name] = [collection_metrics(context, table, item) for item in collections.values()]
    if costs:
        response["ConsumedCapacity"] = consumed
    if metrics:
        response["ItemCollectionMetrics"] = metrics
    return response


def _plain_puts(context: OperationContext, by_table: _Planned) -> list[tuple[TableInfo, list[Row]]] | None:
    """The rows of a batch that does nothing but put into tables where nothing is kept in step; None for any other."""
    found = []
    for name, planned in by_table.items():
        table = _plain_table(context, name)
        if table is None:
            return None
        rows: dict[bytes, Row] = {}
        for write in planned:
            row = checked_row(table, write.item, write.size) if isinstance(write, write_steps.Put) else None
            if row is None:
                return None
            rows[row[0]] = row
        if len(rows) < len(planned):
            return None
        found.append((table, list(rows.values())))
    return found


def _plain_table(context: OperationContext, name: str) -> TableInfo | None:
    try:
        table = context.table(name)
    except DynamoDBError:
        return None
    return None if table.watched else table


def _resolve_all(context: OperationContext, planned: list[write_steps.Write]) -> None:
    for write in planned:
        _resolve(context, write)
    if len({write.key for write in planned}) != len(planned):
        raise ValidationException(_DUPLICATES)


def _resolve(context: OperationContext, write: write_steps.Write) -> None:
    """Finds the table and the row; a batch says the same of a put's key as of a delete's."""
    table = context.table(write.request["TableName"])
    if any(part.kind not in write.key_values.get(part.name, {}) for part in table.key):
        raise ValidationException("The provided key element does not match the schema")
    write.resolve(context)


# ── TransactWriteItems, TransactGetItems ──────────────────────────────────────────────────────────


_PREPARE: dict[str, Callable[..., write_steps.Write]] = {
    "Put": write_steps.prepare_put,
    "Update": write_steps.prepare_update,
    "Delete": write_steps.prepare_delete,
    "ConditionCheck": write_steps.prepare_check,
}


def _prepare(request: Request) -> list[write_steps.Write]:
    return [_action(one) for one in request["TransactItems"]]


def _action(one: dict[str, Any]) -> write_steps.Write:
    named = [name for name in one if name in _PREPARE]
    if len(named) != 1:
        raise ValidationException("TransactItems can only contain one of Check, Put, Update or Delete")
    return _PREPARE[named[0]](one[named[0]], transaction=True)


@operation("TransactWriteItems", kind="write", prepare=_prepare)
def transact_write_items(context: OperationContext, request: Request) -> Response:
    actions = context.prepared or _prepare(request)
    token = request.get("ClientRequestToken")
    if token is not None:
        digest = transactions.digest_of(request["TransactItems"])
        earlier = transactions.earlier_answer(context, token, digest)
        if earlier is not None:
            return transactions.replay(context, request, earlier, {})
    transactions.resolve(context, actions)
    transactions.carry_out(context, actions)
    if token is not None:
        transactions.remember(context, token, digest, actions)
    return _with_transaction_costs(context, request, actions)


def _with_transaction_costs(context: OperationContext, request: Request, actions: list[write_steps.Write]) -> Response:
    response: dict[str, Any] = {}
    if capacity_units.is_wanted(request):
        response["ConsumedCapacity"] = transactions.consumed_capacity(actions, request["ReturnConsumedCapacity"])
    if request.get("ReturnItemCollectionMetrics") == "SIZE":
        metrics: dict[str, list[Any]] = {}
        for action in actions:
            if action.table.has_local_indexes:
                one = collection_metrics(context, action.table, action.key_values)
                metrics.setdefault(action.table.name, []).append(one)
        if metrics:
            response["ItemCollectionMetrics"] = metrics
    return response


@operation("TransactGetItems", kind="snapshot")
def transact_get_items(context: OperationContext, request: Request) -> Response:
    wanted = [_get(one) for one in request["TransactItems"]]
    rows = _resolve_reads(context, wanted)
    reads = ((*row, projector) for row, (_, projector, _) in zip(rows, wanted, strict=True))
    return transactions.read_items(context, request, reads)


def _get(one: dict[str, Any]) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    get = one["Get"]
    return get, projection_of(get, transaction=True), check_item(get["Key"])[0]


def _resolve_reads(
    context: OperationContext, wanted: list[tuple[dict[str, Any], Any, dict[str, Any]]]
) -> list[tuple[TableInfo, bytes]]:
    found: list[tuple[TableInfo, bytes]] = []
    reasons: list[transactions.Reason] = []
    for get, projector, key in wanted:
        table = context.table(get["TableName"])
        try:
            row_key = row_key_of_key(table, key)
            if projector is not None:
                refuse_nested_keys(table, projector.nested)
            found.append((table, row_key))
            reasons.append({"Code": "None"})
        except ValidationException as error:
            if "cannot contain an empty" in error.message:
                raise
            reasons.append(transactions.reason_of(error))
    if len({(table.id, row_key) for table, row_key in found}) != len(found):
        raise ValidationException("Transaction request cannot include multiple operations on one item")
    if len(found) != len(wanted):
        raise transactions.cancellation(transactions.first_problem(reasons))
    return found
