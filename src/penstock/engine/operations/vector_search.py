"""SearchVectors: the items of a vector index that are nearest to a vector.

1. The search is exact, and sees every write that was answered before it began. (DynamoDB's is approximate, and sees
   writes a little later.)
2. A matrix in memory says which items may be the nearest (engine/vectors/); these are read from the file, vector and
   item in one statement, and ordered by their exact scores. Where there are many, as with a thousand equal vectors,
   their vectors are read first, and the items of the nearest alone.
3. Between the steps another process may have written. A candidate that is gone, or has changed, makes the search begin
   again; after some rounds it goes on without such items.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import TableInfo, VectorIndexInfo
from penstock.engine.items import capacity_units
from penstock.engine.items.vector_rows import LEAST_WRITE_BYTES, choices_of
from penstock.engine.operations.table_description import is_backfilling, is_building
from penstock.engine.registry import Request, Response, operation
from penstock.engine.vectors.cache import cached_index, keep_within_bounds
from penstock.engine.vectors.nearest import in_order, scorer, sign_of
from penstock.errors import ValidationException
from penstock.expressions.compiled.conditions import KeyTerm
from penstock.expressions.compiled.paths import Projector
from penstock.expressions.request import search_of
from penstock.wire import float32
from penstock.wire.limits import VECTOR_ANSWER_BYTES, VECTOR_TOP_K
from penstock.wire.values import Item, check_value, type_of

_ROUNDS: Final = 5
_KEYS_AT_ONCE: Final = 500


class Found(NamedTuple):
    """An item near to what was searched for."""

    score: float
    vector: bytes
    item: bytes


@operation("SearchVectors", kind="read")
def search_vectors(context: OperationContext, request: Request) -> Response:
    top = request["TopK"]
    if top > VECTOR_TOP_K:
        raise ValidationException(
            f"Provided TopK value '{top}' is out of valid range. The value must be between 1 and {VECTOR_TOP_K} "
            "inclusive"
        )
    query = _query_vector(request["SearchVector"])
    terms, projector = search_of(request)
    table = context.table(request["TableName"])
    index = _searchable_index(context, table, request["IndexName"])
    chosen = _chosen(index, terms)
    if len(query) != index.dimensions * float32.BYTES:
        raise ValidationException(
            f"Input search vector dimension {len(query) // float32.BYTES} does not match vector index dimension "
            f"{index.dimensions}"
        )
    found = nearest(context, table, index, query, top, chosen)
    results, size = _results(index, found, projector)
    response: Response = {"SearchResults": results}
    if capacity_units.is_wanted(request):
        response["ConsumedCapacity"] = {"VectorSearchRequestBytes": max(LEAST_WRITE_BYTES, len(query) + size)}
    return response


def _query_vector(values: list[dict[str, Any]]) -> bytes:
    try:
        checked = check_value({"L": values})["L"]
        return float32.from_texts([value["N"] for value in checked])
    except (KeyError, OverflowError, ValidationException):
        raise ValidationException(
            "Search vector contains invalid values. All values in the search vector must be a 32-bit floating-point "
            "number attribute"
        ) from None


def _searchable_index(context: OperationContext, table: TableInfo, name: str) -> VectorIndexInfo:
    index = table.vectors.get(name)
    if index is None or (
        is_building(index.record, context.now) and not is_backfilling(table.record, index.record, context.now)
    ):
        raise ValidationException(f"The table does not have the specified index: {name}")
    if is_building(index.record, context.now):
        raise ValidationException(f"Cannot search backfilling vector index: {name}")
    return index


def _chosen(index: VectorIndexInfo, terms: Sequence[KeyTerm]) -> list[str | None]:
    """The values that items must have, in the order of the search schema; None: any."""
    given = {term.attribute: term.operands[0] for term in terms}
    if index.hash is not None and index.hash.name not in given:
        raise ValidationException("SearchConditionExpression must be provided when SearchSchema has a HASH key")
    kinds = {part.name: part.kind for part in index.schema}
    for name, value in given.items():
        if name not in kinds:
            raise ValidationException(
                "SearchConditionExpression must not contain any attributes that is not in SearchSchema. "
                f"Invalid attribute: {name}"
            )
        if kinds[name] not in value:
            raise ValidationException(
                f"Type of '{name}' attribute in SearchConditionExpression ({type_of(value)}) does not match type in "
                f"search schema ({kinds[name]})"
            )
    return choices_of(index, given)


def nearest(
    context: OperationContext,
    table: TableInfo,
    index: VectorIndexInfo,
    query: bytes,
    top: int,
    chosen: Sequence[str | None],
) -> list[Found]:
    """The nearest items, in their order."""
    cache, score = cached_index(context.engine, index), scorer(index.function, query)
    gone: set[bytes] = set()
    wanted = orjson.dumps(chosen)
    for attempt in range(_ROUNDS):
        with cache.lock:
            cache.refresh(context)
            keys = cache.candidates(query, top, chosen, gone)
        vectors: dict[bytes, bytes] = {}
        if len(keys) > _KEYS_AT_ONCE:
            vectors = _nearest_vectors(context, index, keys, top, score)
            keys = list(vectors)
        rows = _read(context, table, index, keys)
        lost = [
            key
            for key in keys
            if key not in rows
            or not _is_chosen(rows[key][1], wanted, chosen)
            or vectors.get(key, rows[key][0]) != rows[key][0]
        ]
        if not lost:
            break
        if attempt:
            gone.update(lost)
    keep_within_bounds(context.engine)
    scores = [(score(rows[key][0]), key) for key in keys if key in rows and key not in lost]
    return [Found(one, rows[key][0], rows[key][2]) for one, key in in_order(index.function, scores)[:top]]


def _nearest_vectors(
    context: OperationContext, index: VectorIndexInfo, keys: list[bytes], top: int, score: Callable[[bytes], float]
) -> dict[bytes, bytes]:
    """The keys of the nearest of these, and their vectors; no more than `top` of them are held."""

    def scored() -> Iterator[tuple[float, bytes, bytes]]:
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            for key, vector in context.db.execute(
                f"SELECT key, vector FROM {index.storage} "  # noqa: S608
                f"WHERE vector IS NOT NULL AND key IN ({', '.join('?' * len(some))})",
                some,
            ):
                yield sign_of(index.function) * score(vector), key, vector

    return {key: vector for _, key, vector in heapq.nsmallest(top, scored())}


_Row = tuple[bytes, bytes | None, bytes]
"""Vector, values, item."""


def _read(context: OperationContext, table: TableInfo, index: VectorIndexInfo, keys: list[bytes]) -> dict[bytes, _Row]:
    found: dict[bytes, _Row] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[start : start + _KEYS_AT_ONCE]
        rows = context.db.execute(
            f"SELECT v.key, v.vector, v.chosen_by, t.item FROM {index.storage} v "  # noqa: S608
            f"JOIN {table.storage} t ON t.key = v.key "
            f"WHERE v.vector IS NOT NULL AND v.key IN ({', '.join('?' * len(some))})",
            some,
        )
        found.update((key, (vector, chosen_by, item)) for key, vector, chosen_by, item in rows)
    return found


def _is_chosen(chosen_by: bytes | None, wanted: bytes, chosen: Sequence[str | None]) -> bool:
    """Whether an item still has the values that were asked for."""
    if chosen_by is None or chosen_by == wanted:
        return True
    pairs = zip(orjson.loads(chosen_by), chosen, strict=True)
    return all(asked is None or have == asked for have, asked in pairs)


def _results(index: VectorIndexInfo, found: list[Found], projector: Projector | None) -> tuple[list[Any], int]:
    """The answers, as many as there is room for, and the bytes of their items."""
    results: list[Any] = []
    size = 0
    for one in found:
        item = orjson.dumps(_shown(index, one, projector))
        size += len(item)
        if size > VECTOR_ANSWER_BYTES:
            break
        results.append({"Item": orjson.Fragment(item), "Score": one.score})
    return results, size


def _shown(index: VectorIndexInfo, one: Found, projector: Projector | None) -> Item:
    """What the index holds of an item. Its vector is left out unless it is asked for, and is then the index's own."""
    item = index.view(orjson.loads(one.item))
    if projector is None:
        return {name: value for name, value in item.items() if name != index.attribute}
    if index.attribute in projector.attributes:
        numbers = [{"N": float32.shortest_text(number)} for number in float32.to_floats(one.vector)]
        item = {**item, index.attribute: {"L": numbers}}
    return projector(item)
