"""Tables with vector indexes for tests, in short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.engine import Engine

Json = dict[str, Any]


def numbers(*values: object) -> list[Json]:
    """A search's vector."""
    return [{"N": str(value)} for value in values]


def vector(*values: object) -> Json:
    """An attribute's value."""
    return {"L": numbers(*values)}


def vector_index(
    name: str = "near",
    attribute: str = "embedding",
    dimensions: int = 3,
    function: str = "COSINE",
    *,
    projection: str = "ALL",
    include: Sequence[str] = (),
    hash_: str = "",
    filters: Sequence[str] = (),
) -> Json:
    shape: Json = {"ProjectionType": projection}
    if include:
        shape["NonKeyAttributes"] = list(include)
    schema = [{"AttributeName": hash_, "SearchSchemaElementType": "HASH"}] if hash_ else []
    schema += [{"AttributeName": one, "SearchSchemaElementType": "INLINE_FILTER"} for one in filters]
    index = {
        "IndexName": name,
        "VectorAttribute": {"AttributeName": attribute},
        "Dimensions": dimensions,
        "DistanceFunction": function,
        "Projection": shape,
    }
    return index | ({"SearchSchema": schema} if schema else {})


def vector_table(name: str, *indexes: Json, kinds: Json | None = None) -> Json:
    """A CreateTable request; attributes of search schemas are texts unless `kinds` says otherwise."""
    used = {one["AttributeName"]: "S" for index in indexes for one in index.get("SearchSchema", ())} | (kinds or {})
    types = {"pk": "S", **used}
    request: Json = {
        "TableName": name,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": one, "AttributeType": kind} for one, kind in types.items()],
        "BillingMode": "PAY_PER_REQUEST",
    }
    return request | ({"VectorIndexes": list(indexes)} if indexes else {})


def put(engine: Engine, table: str, pk: str, *values: object, **others: Json) -> Json:
    item = {"pk": {"S": pk}, **others} | ({"embedding": vector(*values)} if values else {})
    return engine.execute("PutItem", {"TableName": table, "Item": item, "ReturnConsumedCapacity": "INDEXES"})


def search(engine: Engine, table: str, *values: object, index: str = "near", top: int = 10, **more: Any) -> Json:
    request = {"TableName": table, "IndexName": index, "SearchVector": numbers(*values), "TopK": top, **more}
    return engine.execute("SearchVectors", request)


def found(engine: Engine, table: str, *values: object, **more: Any) -> list[str]:
    """The keys that a search gives, in its order."""
    return keys(search(engine, table, *values, **more)["SearchResults"])


def keys(results: Iterable[Json]) -> list[str]:
    return [one["Item"]["pk"]["S"] for one in results]


def create_request(table: str, index: Json) -> Json:
    """An UpdateTable that adds the index."""
    return {"TableName": table, "VectorIndexUpdates": [{"Create": index}]}


def delete_request(table: str, name: str) -> Json:
    """One that deletes the index of this name."""
    return {"TableName": table, "VectorIndexUpdates": [{"Delete": {"IndexName": name}}]}
