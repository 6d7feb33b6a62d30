"""What a new table's definition may be: DynamoDB's rules, in its order and words.

Shapes have been checked before; here one part of a request is held against another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.engine.operations.table_description import (
    ON_DEMAND_WARM,
)
from penstock.engine.registry import Request
from penstock.errors import ValidationException
from penstock.wire.limits import (
    GLOBAL_INDEXES,
    INDEX_HASH_ATTRIBUTES,
    INDEX_RANGE_ATTRIBUTES,
    LOCAL_INDEXES,
    PROJECTED_ATTRIBUTES,
    VECTOR_DIMENSIONS,
    VECTOR_INDEXES,
    VECTOR_INLINE_FILTERS,
)

CAPACITY_BOUND = 1_000_000_000_000
"""Above this DynamoDB does not even look at an account's limits."""

Index = Mapping[str, Any]
KeySchema = list[dict[str, str]]


OPERATIONS_PAGE = "docs/operations.md"
"""Where each operation stands as done, described or refused."""


def invalid(message: str) -> ValidationException:
    return ValidationException(f"One or more parameter values were invalid: {message}")


def refuse_members(request: Request, members: Iterable[str]) -> None:
    """Members that ask for what does not exist here: better refused by name than silently left out."""
    for member in members:
        if member in request:
            raise invalid(f"{member} is not supported by this endpoint. See {OPERATIONS_PAGE} of Penstock.")


def check_creation(request: Request) -> None:
    """Everything that CreateTable refuses before it looks whether the table exists."""
    refuse_members(request, ("GlobalTableSourceArn", "GlobalTableSettingsReplicationMode"))
    check_table_class(request)
    _check_billing(request)
    definitions = [one["AttributeName"] for one in request["AttributeDefinitions"]]
    schema = request["KeySchema"]
    _check_table_key(schema, definitions)
    indexed = any(kind in request for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes", "VectorIndexes"))
    if not indexed and len(schema) != len(definitions):
        raise invalid(
            "Number of attributes in KeySchema does not exactly match number of attributes "
            "defined in AttributeDefinitions"
        )
    _check_indexes(request, definitions)
    _check_stream(request.get("StreamSpecification"))
    check_encryption(request.get("SSESpecification"))
    _check_on_demand(request)
    _check_warm(request)


_TABLE_CLASSES = ("STANDARD", "STANDARD_INFREQUENT_ACCESS")


def check_table_class(request: Request) -> None:
    if request.get("TableClass", "STANDARD") not in _TABLE_CLASSES:
        raise ValidationException(
            "Invalid table-class parameter provided. Please try again with a valid table-class value: "
            f"[{', '.join(_TABLE_CLASSES)}]."
        )


def check_projection(index: Index) -> None:
    projection = index["Projection"]
    kind = projection.get("ProjectionType")
    names = projection.get("NonKeyAttributes")
    if kind is None:
        raise invalid("Unknown ProjectionType: null")
    if names is not None and kind != "INCLUDE":
        raise invalid(f"ProjectionType is {kind}, but NonKeyAttributes is specified")
    if names is None and kind == "INCLUDE":
        raise invalid("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
    repeated = _first_repeated(names or ())
    if repeated is not None:
        raise invalid(f"Duplicate element in NonKeyAttributes: {repeated}")


def check_global_key(schema: KeySchema) -> None:
    """A global index's key: one to four HASH attributes and then none to four RANGE attributes."""
    names = [one["AttributeName"] for one in schema]
    if len(set(names)) != len(names):
        if len(names) == 2:
            raise ValidationException("Both the Hash Key and the Range Key element in the KeySchema have the same name")
        raise ValidationException("The KeySchema contains multiple key attributes with the same name")
    roles = [one["KeyType"] for one in schema]
    if roles[0] != "HASH":
        raise ValidationException("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    if "HASH" in roles[roles.count("HASH") :]:
        raise invalid("All HASH key attributes must precede RANGE key attributes in the KeySchema")
    for role, most in (("HASH", INDEX_HASH_ATTRIBUTES), ("RANGE", INDEX_RANGE_ATTRIBUTES)):
        if roles.count(role) > most:
            raise invalid(f"The KeySchema exceeds the maximum allowed number of {role} key attributes")


def check_keys_defined(schema: KeySchema, definitions: list[str]) -> None:
    keys = [one["AttributeName"] for one in schema]
    if not set(keys) <= set(definitions):
        raise invalid(
            "Some index key attributes are not defined in AttributeDefinitions. "
            f"Keys: [{', '.join(keys)}], AttributeDefinitions: [{', '.join(definitions)}]"
        )


def check_bounds(throughput: Mapping[str, int] | None) -> None:
    for member in ("ReadCapacityUnits", "WriteCapacityUnits"):
        if throughput is not None and throughput[member] > CAPACITY_BOUND:
            raise ValidationException(f"Given value {throughput[member]} for {member} is out of bounds")


def check_on_demand_range(maximum: Mapping[str, int], where: str, *, clearing: bool) -> None:
    """`clearing`: -1 is allowed, and removes a maximum."""
    for member, units in maximum.items():
        if units < 1 and not (clearing and units == -1):
            raise invalid(f"Requested {member} for OnDemandThroughput for {where} is outside of valid range")


def check_encryption(specification: Mapping[str, Any] | None) -> None:
    if specification is None:
        return
    if specification.get("SSEType") == "AES256":
        raise invalid("SSEType AES256 is not supported")
    if not specification.get("Enabled"):
        for member in ("SSEType", "KMSMasterKeyId"):
            if member in specification:
                raise invalid(f"{member} can not be specified if Enabled is false")
    elif "KMSMasterKeyId" in specification and "SSEType" not in specification:
        raise invalid("SSEType KMS is required if KMSMasterKeyId is specified")


def _check_billing(request: Request) -> None:
    throughput = request.get("ProvisionedThroughput")
    if request.get("BillingMode") == "PAY_PER_REQUEST":
        if throughput is not None:
            raise invalid(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
            )
    elif throughput is None:
        raise invalid("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
    check_bounds(throughput)


def _check_table_key(schema: KeySchema, definitions: list[str]) -> None:
    if len(schema) > len(definitions):
        raise ValidationException("Invalid KeySchema: Some index key attribute have no definition")
    check_keys_defined(schema, definitions)
    refuse_repeated(definitions)
    _check_two_part_key(schema)


def refuse_repeated(definitions: list[str]) -> None:
    repeated = _first_repeated(definitions)
    if repeated is not None:
        raise ValidationException(f"Attribute Name is duplicated: {repeated}")


def _check_two_part_key(schema: KeySchema) -> None:
    if len(schema) == 2 and schema[0]["AttributeName"] == schema[1]["AttributeName"]:
        raise ValidationException("Both the Hash Key and the Range Key element in the KeySchema have the same name")
    if schema[0]["KeyType"] != "HASH":
        raise ValidationException("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    if len(schema) == 2 and schema[1]["KeyType"] != "RANGE":
        raise ValidationException("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")


def _check_indexes(request: Request, definitions: list[str]) -> None:
    local = request.get("LocalSecondaryIndexes")
    world = request.get("GlobalSecondaryIndexes")
    vectors = request.get("VectorIndexes")
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes", "VectorIndexes"):
        if request.get(kind) == []:
            raise invalid(f"List of {kind} is empty")
    _check_local_keys(local or [], request["KeySchema"], definitions)
    for index in world or []:
        check_keys_defined(index["KeySchema"], definitions)
        check_global_key(index["KeySchema"])
    if vectors and request.get("BillingMode") != "PAY_PER_REQUEST":
        raise invalid("Vector indexes are only supported for PAY_PER_REQUEST tables")
    for index in vectors or []:
        check_search_schema(index, definitions)
    every = [*(local or []), *(world or []), *(vectors or [])]
    if every:
        _check_definitions_used(request["KeySchema"], every, definitions)
    _check_contents(request, local or [], world or [], vectors or [])


def _check_local_keys(indexes: Iterable[Index], table_key: KeySchema, definitions: list[str]) -> None:
    for index in indexes:
        if len(table_key) != 2:
            raise invalid(
                "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"
            )
        schema, name = index["KeySchema"], index["IndexName"]
        check_keys_defined(schema, definitions)
        _check_two_part_key(schema)
        if len(schema) != 2:
            raise invalid(f"Index KeySchema does not have a range key for index: {name}")
        leading, wanted = schema[0]["AttributeName"], table_key[0]["AttributeName"]
        if leading != wanted:
            raise invalid(
                "Index KeySchema does not have the same leading hash key as table KeySchema "
                f"for index: {name}. index hash key: {leading}, table hash key: {wanted}"
            )


def _check_definitions_used(table_key: KeySchema, indexes: list[Index], definitions: list[str]) -> None:
    schemas = [table_key, *(index.get("KeySchema") or index.get("SearchSchema", []) for index in indexes)]
    used = dict.fromkeys(one["AttributeName"] for schema in schemas for one in schema)
    if set(definitions) - set(used):
        raise invalid(
            f"Some AttributeDefinitions are not used. AttributeDefinitions: [{', '.join(definitions)}], "
            f"keys used: [{', '.join(used)}]"
        )


def check_search_schema(index: Index, definitions: list[str]) -> None:
    """What a vector index's items are chosen by: at most one HASH, and each attribute once."""
    schema = index.get("SearchSchema", [])
    names = [one["AttributeName"] for one in schema]
    if not set(names) <= set(definitions):
        raise invalid("One element in SearchSchema is not defined in attribute definitions")
    hashes = sum(one["SearchSchemaElementType"] == "HASH" for one in schema)
    if hashes > 1:
        raise invalid(
            f"Value '{hashes}' at 'SearchSchema' failed to satisfy constraint: "
            "Member must have HASH count less than or equal to 1"
        )
    if len(schema) - hashes > VECTOR_INLINE_FILTERS:
        raise invalid(
            f"Value '{len(schema) - hashes}' at 'SearchSchema' failed to satisfy constraint: "
            f"Member must have INLINE_FILTER count less than or equal to {VECTOR_INLINE_FILTERS}"
        )
    if _first_repeated(names) is not None:
        raise invalid("SearchSchema contains a duplicate AttributeName")


def check_vectors(vectors: Iterable[Index], definitions: Iterable[str]) -> None:
    """The vectors of a table's indexes: their lengths, and that no attribute is two things."""
    lengths: dict[str, int] = {}
    known = set(definitions)
    for index in vectors:
        if index["Dimensions"] > VECTOR_DIMENSIONS:
            raise invalid(f"Number of dimensions must be between 1 and {VECTOR_DIMENSIONS} inclusive.")
        name = index["VectorAttribute"]["AttributeName"]
        conflict = f"Conflicting attribute definition for '{name}'. "
        if name in known:
            raise invalid(
                f"{conflict}An attribute cannot be defined in AttributeDefinitions when used as a VectorAttribute."
            )
        if lengths.setdefault(name, index["Dimensions"]) != index["Dimensions"]:
            raise invalid(f"{conflict}All VectorIndexes on the same vector attribute must use the same dimensions.")


def _check_contents(request: Request, local: list[Index], world: list[Index], vectors: list[Index]) -> None:
    """Everything of the indexes but their keys."""
    names: set[str] = set()
    for index in (*local, *world, *vectors):
        check_projection(index)
        if index["IndexName"] in names:
            raise invalid(f"Duplicate index name: {index['IndexName']}")
        names.add(index["IndexName"])
    for index in world:
        _check_index_throughput(request, index)
    if len(local) > LOCAL_INDEXES:
        raise invalid(f"Number of LocalSecondaryIndexes exceeds per-table limit of {LOCAL_INDEXES}")
    if len(world) > GLOBAL_INDEXES:
        raise invalid(f"GlobalSecondaryIndex count exceeds the per-table limit of {GLOBAL_INDEXES}")
    if len(vectors) > VECTOR_INDEXES:
        raise invalid(f"VectorIndex count exceeds the per-table limit of {VECTOR_INDEXES}")
    check_vectors(vectors, [one["AttributeName"] for one in request["AttributeDefinitions"]])
    check_projected((*local, *world, *vectors))


def check_projected(indexes: Iterable[Index]) -> None:
    """All INCLUDE projections of a table together."""
    total = sum(len(index["Projection"].get("NonKeyAttributes", ())) + _own_projected(index) for index in indexes)
    if total > PROJECTED_ATTRIBUTES:
        raise invalid(f"Number of projected attributes across all indexes exceeds the limit of {PROJECTED_ATTRIBUTES}")


def _own_projected(index: Index) -> int:
    """A vector, and what it is filtered by, count as projected attributes."""
    if "VectorAttribute" not in index:
        return 0
    return 1 + len([one for one in index.get("SearchSchema", ()) if one["SearchSchemaElementType"] == "INLINE_FILTER"])


def _check_index_throughput(request: Request, index: Index) -> None:
    name = index["IndexName"]
    if request.get("BillingMode") == "PAY_PER_REQUEST":
        if "ProvisionedThroughput" in index:
            raise invalid(
                f"ProvisionedThroughput should not be specified for index: {name} when BillingMode is PAY_PER_REQUEST"
            )
        check_on_demand_range(index.get("OnDemandThroughput", {}), f"index : {name}", clearing=False)
        check_first_warm(index.get("WarmThroughput", {}), None, f"index {name}")
        return
    if "ProvisionedThroughput" not in index:
        raise invalid(f"ProvisionedThroughput is not specified for index: {name}")
    check_bounds(index["ProvisionedThroughput"])
    check_first_warm(index.get("WarmThroughput", {}), index["ProvisionedThroughput"], f"index {name}")
    for member in index.get("OnDemandThroughput", ()):
        raise invalid(
            f"{member} for OnDemandThroughput for index: {name} cannot be specified "
            "when table BillingMode is PROVISIONED."
        )


def _check_stream(specification: Mapping[str, Any] | None) -> None:
    if specification is None:
        return
    enabled, view = specification["StreamEnabled"], specification.get("StreamViewType")
    if enabled and view is None:
        raise invalid("Table is being created with a stream enabled, UpdateViewType is required")
    if not enabled and view is not None:
        raise invalid("Table is being created with a stream disabled, UpdateViewType should not be specified")


def _check_on_demand(request: Request) -> None:
    maximum = request.get("OnDemandThroughput", {})
    if request.get("BillingMode") != "PAY_PER_REQUEST":
        for member in maximum:
            raise invalid(f"{member} for OnDemandThroughput cannot be specified when table BillingMode is PROVISIONED.")
    check_on_demand_range(maximum, "table", clearing=False)


def _check_warm(request: Request) -> None:
    warm = request.get("WarmThroughput", {})
    if request.get("BillingMode") == "PAY_PER_REQUEST":
        check_first_warm(warm, None, "table")
    else:
        check_first_warm(warm, request["ProvisionedThroughput"], "table")


_INITIAL = (
    "is lower than initial throughput for OnDemand. See: https://docs.aws.amazon.com/amazondynamodb/latest/"
    "developerguide/on-demand-capacity-mode.html#on-demand-capacity-mode-initial"
)


def check_first_warm(warm: Mapping[str, int], units: Mapping[str, int] | None, where: str) -> None:
    """The warm throughput of what is being made; `units` is None where it is on demand."""
    if units is None:
        _check_warm_floor(warm, ON_DEMAND_WARM, where, [_INITIAL, _INITIAL])
        return
    least = {
        "ReadUnitsPerSecond": units["ReadCapacityUnits"],
        "WriteUnitsPerSecond": units["WriteCapacityUnits"],
    }
    texts = [f"is lower than {one}CapacityUnits of ProvisionedThroughput" for one in ("Read", "Write")]
    _check_warm_floor(warm, least, where, texts)


def _check_warm_floor(warm: Mapping[str, int], least: Mapping[str, int], where: str, texts: list[str]) -> None:
    for (member, floor), text in zip(least.items(), texts, strict=True):
        if member in warm and warm[member] < floor:
            raise invalid(f"Requested {member} for WarmThroughput for {where} {text}")


def check_warm_rises(warm: Mapping[str, int], current: Mapping[str, int], where: str) -> None:
    """Warm throughput can rise and never fall."""
    text = "is lower than current WarmThroughput, decreasing WarmThroughput is not supported"
    _check_warm_floor(warm, current, where, [text, text])


def _first_repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
