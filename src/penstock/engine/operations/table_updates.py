"""What UpdateTable may change: DynamoDB's rules, in its order and words.

First the request alone, then the table as it is. The rules of definitions are `table_validation`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.operations.table_description import (
    billing_mode,
    dropped_indexes,
    in_use,
    index_warm_throughput,
    is_backfilling,
    is_building,
    key_arn,
    online_indexes,
    refuse_unless_active,
    table_status,
    throughput,
    warm_throughput,
)
from penstock.engine.operations.table_validation import (
    CAPACITY_BOUND,
    Index,
    check_bounds,
    check_encryption,
    check_first_warm,
    check_global_key,
    check_keys_defined,
    check_on_demand_range,
    check_projected,
    check_projection,
    check_search_schema,
    check_table_class,
    check_vectors,
    check_warm_rises,
    invalid,
    refuse_repeated,
)
from penstock.engine.registry import Request
from penstock.errors import LimitExceededException, ResourceNotFoundException, ValidationException
from penstock.wire.limits import (
    GLOBAL_INDEXES,
    VECTOR_INDEXES,
)

ONE_ONLINE_INDEX = "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"

_CHANGES = (
    "ProvisionedThroughput",
    "BillingMode",
    "StreamSpecification",
    "SSESpecification",
    "TableClass",
    "DeletionProtectionEnabled",
    "OnDemandThroughput",
    "WarmThroughput",
    "ReplicaUpdates",
    "GlobalTableSettingsReplicationMode",
    "DisassociationProtectionEnabled",
)

_NAMED_AS_CHANGES = (
    "ProvisionedThroughput",
    "BillingMode",
    "UpdateStreamEnabled",
    "GlobalSecondaryIndexUpdates",
    "SSESpecification",
    "ReplicaUpdates",
    "MultiAccountReplicaReady",
    "ReplicaTransitRoleArn",
    "MultiRegionConsistency",
    "DeletionProtectionEnabled",
    "OnDemandThroughput",
    "WarmThroughput",
)
"""What AWS lists to a request that changes nothing. It leaves out what the request has (MultiRegionConsistency)."""

_ALONE = (
    ("SSESpecification", "Server-Side Encryption modification"),
    ("TableClass", "TableClass modification"),
    ("DeletionProtectionEnabled", "DeletionProtection modification"),
    ("WarmThroughput", "WarmThroughput"),
    ("ReplicaUpdates", "Replica modification"),
)

Update = Mapping[str, Any]


def with_known_actions(request: Request) -> Request:
    """The request without actions on indexes that there are none of; as with all unknown members, nobody is told."""
    updates = request.get("GlobalSecondaryIndexUpdates")
    if updates is None:
        return request
    known = [{name: update[name] for name in ("Create", "Update", "Delete") if name in update} for update in updates]
    return {**request, "GlobalSecondaryIndexUpdates": known}


def check_request(request: Request) -> None:
    """Everything that is wrong whatever the table."""
    check_table_class(request)
    updates, vectors = request.get("GlobalSecondaryIndexUpdates", []), request.get("VectorIndexUpdates", [])
    if "ReplicaUpdates" not in request:
        _refuse_witness_alone(request)
    if not updates and not vectors and not any(member in request for member in _CHANGES):
        missing = [name for name in _NAMED_AS_CHANGES if not request.get(name)]
        raise ValidationException(f"At least one of {', '.join(missing)} or TableClass is required")
    if request.get("BillingMode") == "PROVISIONED" and "ProvisionedThroughput" not in request:
        raise invalid("ProvisionedThroughput must be specified when BillingMode is PROVISIONED")
    check_bounds(request.get("ProvisionedThroughput"))
    if request.get("GlobalSecondaryIndexUpdates") == []:
        raise invalid("List of GlobalSecondaryIndexUpdates is empty")
    _check_actions(updates)
    _check_vector_actions(vectors)
    _check_combination(request, [*updates, *vectors])
    _check_replica_actions(request)
    _check_stream_change(request.get("StreamSpecification"))
    check_encryption(request.get("SSESpecification"))


def _refuse_witness_alone(request: Request) -> None:
    """A witness is part of a group that is STRONG."""
    if "GlobalTableWitnessUpdates" in request and request.get("MultiRegionConsistency") != "STRONG":
        raise ValidationException(
            "MultiRegionConsistency must be set as STRONG when GlobalTableWitnessUpdates parameter is present."
        )


def _check_replica_actions(request: Request) -> None:
    """Replicas are changed one at a time; only a group that is STRONG from the start has two made at once."""
    actions = [kind for update in request.get("ReplicaUpdates", ()) for kind in update]
    if "ReplicaUpdates" not in request:
        return
    strong = request.get("MultiRegionConsistency") == "STRONG"
    if not actions:
        raise ValidationException("There are no actions specified in the Replica Update Action of the request.")
    _refuse_witness_alone(request)
    if len(set(actions)) > 1:
        raise ValidationException("Update table operation with more than one type of replica actions not allowed.")
    if strong and set(actions) != {"Create"}:
        raise ValidationException(
            "Only Replica Create actions are supported when MultiRegionConsistency parameter is provided."
        )
    if strong and len(actions) + len(request.get("GlobalTableWitnessUpdates", ())) != 2:
        raise ValidationException(
            "Unsupported replica count for global tables with MultiRegionConsistency set to STRONG."
        )
    if not strong and len(actions) > 1 and actions[0] in ("Create", "Delete"):
        raise ValidationException(
            "Update table operation with more than one create or delete replica actions not allowed"
        )


def check_against(table: TableInfo, request: Request, now: float) -> None:
    """Everything that is wrong for this table, in this state."""
    refuse_unless_active(table, now)
    _check_throughput_mode(table.record, request)
    updates = request.get("GlobalSecondaryIndexUpdates", [])
    vectors = request.get("VectorIndexUpdates", [])
    online = [one for one in (*updates, *vectors) if "Create" in one or "Delete" in one]
    if len(online) > 1:
        raise LimitExceededException(ONE_ONLINE_INDEX)
    for update in updates:
        _check_index_update(table, request, update, now)
    for update in vectors:
        _check_vector_update(table, request, update, now)
    _check_busy(table, request, online, now)
    _check_changes(table, request)


def _check_actions(updates: list[dict[str, Any]]) -> None:
    names: set[str] = set()
    for update in updates:
        if not update:
            raise invalid(
                "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
                "GlobalSecondaryIndexUpdate.Delete must not be null"
            )
        if len(update) > 1:
            raise invalid("Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object")
        name = next(iter(update.values()))["IndexName"]
        if update.get("Update", {}).get("WarmThroughput") == {}:
            raise invalid(
                "WarmThroughput must have at least one of ReadUnitsPerSecond or WriteUnitsPerSecond specified "
                f"for index: {name}"
            )
        if name in names:
            raise invalid(f"Only one global secondary index update per index is allowed simultaneously. Index: {name}")
        names.add(name)


def _check_vector_actions(updates: list[dict[str, Any]]) -> None:
    for update in updates:
        if not update:
            raise invalid("One of VectorIndexUpdate.Create, VectorIndexUpdate.Delete must not be null")
        if len(update) > 1:
            raise invalid("Only one vector index action is allowed per VectorIndexUpdate object")


def _check_combination(request: Request, updates: list[dict[str, Any]]) -> None:
    """Most changes must be a request's only one. A throughput of {} counts as none, as on AWS."""
    given = {member for member in _CHANGES if member in request and request[member] != {}}
    for member, what in _ALONE:
        if member in given and (len(given) > 1 or updates):
            ending = "must be the only operation in the request"
            raise invalid(f"{what} {ending}")
    if "OnDemandThroughput" in given and (given - {"OnDemandThroughput", "BillingMode"} or updates):
        raise invalid("OnDemandThroughput can only be combined with BillingMode in an UpdateTable request")
    capacity = "ProvisionedThroughput" in request
    if capacity and "StreamSpecification" in request:
        raise invalid("You cannot modify stream status while updating table IOPS")
    if any("Create" in one or "Delete" in one for one in updates):
        if capacity:
            raise invalid("You cannot create or delete index while updating table IOPS")
        if "StreamSpecification" in request:
            raise invalid("You cannot create or delete index while changing stream status")


def _check_stream_change(specification: Mapping[str, Any] | None) -> None:
    if specification is None:
        return
    enabled, view = specification["StreamEnabled"], specification.get("StreamViewType")
    if enabled and view is None:
        raise invalid("If stream is being enabled then UpdateViewType is required")
    if not enabled and view is not None:
        raise invalid("If stream is being disabled, then UpdateViewType must not be specified")


def _check_throughput_mode(record: Mapping[str, Any], request: Request) -> None:
    mode = request.get("BillingMode", billing_mode(record))
    if mode == "PAY_PER_REQUEST":
        if "ProvisionedThroughput" in request:
            raise invalid(
                "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
            )
    else:
        for member in request.get("OnDemandThroughput", ()):
            raise invalid(
                f"{member} for OnDemandThroughput cannot be specified when the table BillingMode is PROVISIONED"
            )
        if record.get("VectorIndexes"):
            raise invalid("Tables with vector indexes must be in PAY_PER_REQUEST mode")
        _check_every_index_provisioned(record, request)
    check_on_demand_range(request.get("OnDemandThroughput", {}), "table", clearing=True)


def _check_every_index_provisioned(record: Mapping[str, Any], request: Request) -> None:
    """An on-demand table that becomes provisioned needs throughput for each of its indexes."""
    if billing_mode(record) == "PROVISIONED":
        return
    given = {
        one["Update"]["IndexName"]
        for one in request.get("GlobalSecondaryIndexUpdates", ())
        if "ProvisionedThroughput" in one.get("Update", {})
    }
    names = [one["IndexName"] for one in record.get("GlobalSecondaryIndexes", ())]
    missing = [name for name in names if name not in given]
    if missing:
        raise invalid(f"ProvisionedThroughput must be specified for index: {','.join(missing)}")


def _check_index_update(table: TableInfo, request: Request, update: Update, now: float) -> None:
    ((action, index),) = update.items()
    name = index["IndexName"]
    known = table.indexes.get(name)
    if action == "Create":
        _check_new_index(table, request, index, now)
        return
    if known is not None and known.local:
        raise ValidationException(f"Cannot {action.lower()} an index that is not a GlobalSecondaryIndex: {name}")
    if action == "Update":
        _check_units_bound(index)
    if known is None:
        _refuse_deleting(table, name, now)
        raise ResourceNotFoundException(f"Requested resource not found: Index {name} for table {table.name}")
    if action == "Update":
        _check_changed_index_throughput(table, request, index)


def _check_new_index(table: TableInfo, request: Request, index: Update, now: float) -> None:
    name = index["IndexName"]
    if name in table.indexes or name in table.vectors:
        raise ValidationException("Attempting to create an index which already exists")
    _refuse_deleting(table, name, now)
    definitions = [one["AttributeName"] for one in request.get("AttributeDefinitions", ())]
    if not definitions:
        raise invalid(f"AttributeDefinitions is not specified for index: {name}")
    if len(index["KeySchema"]) > len(definitions):
        raise ValidationException("Invalid KeySchema: Some index key attribute have no definition")
    check_keys_defined(index["KeySchema"], definitions)
    refuse_repeated(definitions)
    check_global_key(index["KeySchema"])
    _refuse_redefinition(table, request["AttributeDefinitions"], index["KeySchema"])
    vectors = table.record.get("VectorIndexes", ())
    keys = [one["AttributeName"] for one in index["KeySchema"]]
    check_vectors(vectors, keys)
    for one in vectors:
        _refuse_redefined_choices(table, _defined(request, keys), one)
    check_projection(index)
    _check_new_throughput(table, request, index)
    world = table.record.get("GlobalSecondaryIndexes", [])
    if len(world) >= GLOBAL_INDEXES:
        raise LimitExceededException(
            f"Subscriber limit exceeded: Number of global secondary indexes exceeds per-table limit of {GLOBAL_INDEXES}"
        )
    others = (*table.record.get("LocalSecondaryIndexes", ()), *vectors)
    check_projected((*others, *world, index))


def _defined(request: Request, names: list[str]) -> list[dict[str, str]]:
    return [one for one in request["AttributeDefinitions"] if one["AttributeName"] in names]


def _check_vector_update(table: TableInfo, request: Request, update: Update, now: float) -> None:
    ((action, index),) = update.items()
    name = index["IndexName"]
    if action == "Delete":
        if name not in table.vectors:
            _refuse_deleting(table, name, now)
            raise ResourceNotFoundException(f"Requested resource not found: Index {name} for table {table.name}")
        return
    if name in table.indexes or name in table.vectors:
        raise ValidationException("Attempting to create an index which already exists")
    _refuse_deleting(table, name, now)
    if request.get("BillingMode", billing_mode(table.record)) != "PAY_PER_REQUEST":
        raise invalid("Vector indexes are only supported for PAY_PER_REQUEST tables")
    given = request.get("AttributeDefinitions", [])
    refuse_repeated([one["AttributeName"] for one in given])
    definitions = {one["AttributeName"] for one in (*table.record["AttributeDefinitions"], *given)}
    check_search_schema(index, list(definitions))
    _refuse_redefined_choices(table, given, index)
    check_projection(index)
    record = table.record
    others = record.get("VectorIndexes", [])
    if len(others) >= VECTOR_INDEXES:
        raise LimitExceededException(
            f"Subscriber limit exceeded: Number of vector indexes exceeds per-table limit of {VECTOR_INDEXES}"
        )
    check_vectors((*others, index), definitions)
    secondary = (*record.get("LocalSecondaryIndexes", ()), *record.get("GlobalSecondaryIndexes", ()))
    check_projected((*secondary, *others, index))


def _refuse_redefined_choices(table: TableInfo, given: list[dict[str, str]], index: Update) -> None:
    """An attribute has one type, whatever it is used for."""
    kinds = {one["AttributeName"]: one["AttributeType"] for one in table.record["AttributeDefinitions"]}
    used = {one["AttributeName"] for one in index.get("SearchSchema", ())}
    for one in given:
        if (
            one["AttributeName"] in used
            and kinds.get(one["AttributeName"], one["AttributeType"]) != one["AttributeType"]
        ):
            raise invalid(
                "Attributes cannot be redefined. Please check that your attribute has the same type as previously "
                f"defined. Attribute: {one['AttributeName']}"
            )


def _refuse_redefinition(table: TableInfo, definitions: list[dict[str, str]], schema: list[dict[str, str]]) -> None:
    """A key attribute has one type, whichever key it is part of."""
    record = table.record
    kinds = {one["AttributeName"]: one["AttributeType"] for one in record["AttributeDefinitions"]}
    wanted = {one["AttributeName"]: one["AttributeType"] for one in definitions}
    keys = (record["KeySchema"], *(index.record["KeySchema"] for index in table.index_list))
    for name in (part["AttributeName"] for part in schema):
        existing = next((key for key in keys if any(part["AttributeName"] == name for part in key)), None)
        if existing is not None and kinds[name] != wanted[name]:
            raise invalid(
                "Attributes cannot be redefined. Please check that your attribute has the same type as previously "
                f"defined. Existing schema: {_schema_text(existing, kinds)} New schema: {_schema_text(schema, wanted)}"
            )


def _schema_text(schema: list[dict[str, str]], kinds: Mapping[str, str]) -> str:
    parts = (f"{one['AttributeName']}:{kinds[one['AttributeName']]}:{one['KeyType']}" for one in schema)
    return f"Schema:[{', '.join(f'SchemaElement: key{{{part}}}' for part in parts)}]"


def _check_new_throughput(table: TableInfo, request: Request, index: Update) -> None:
    name = index["IndexName"]
    if request.get("BillingMode", billing_mode(table.record)) == "PAY_PER_REQUEST":
        _refuse_units(index)
        check_on_demand_range(index.get("OnDemandThroughput", {}), f"index : {name}", clearing=False)
    elif "ProvisionedThroughput" not in index:
        raise invalid(f"Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: {name}")
    check_bounds(index.get("ProvisionedThroughput"))
    check_first_warm(index.get("WarmThroughput", {}), index.get("ProvisionedThroughput"), f"index {name}")


def _refuse_units(index: Update) -> None:
    if "ProvisionedThroughput" in index:
        raise invalid(
            "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: "
            f"{index['IndexName']} when BillingMode is PAY_PER_REQUEST"
        )


def _check_units_bound(index: Update) -> None:
    if any(units > CAPACITY_BOUND for units in index.get("ProvisionedThroughput", {}).values()):
        raise ValidationException(
            "This operation cannot be performed with given input values. "
            "Please contact DynamoDB service team for more info: Action Blocked: IndexUpdate"
        )


def _check_changed_index_throughput(table: TableInfo, request: Request, index: Update) -> None:
    name = index["IndexName"]
    record = table.indexes[name].record
    if request.get("BillingMode", billing_mode(table.record)) == "PAY_PER_REQUEST":
        _refuse_units(index)
        if not index.get("OnDemandThroughput") and not index.get("WarmThroughput"):
            raise invalid(
                f"The only Updates for index: {name} when TableThroughputMode is PAY_PER_REQUEST can be to "
                "OnDemandThroughput, WarmThroughput"
            )
        check_on_demand_range(index.get("OnDemandThroughput", {}), f"index : {name}", clearing=True)
    elif not {"ProvisionedThroughput", "WarmThroughput"} & set(index):
        raise invalid(f"Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: {name}")
    elif "ProvisionedThroughput" in index:
        _refuse_same(throughput(record), index["ProvisionedThroughput"], f"the index {name}", f"index {name}")
    if "WarmThroughput" in index:
        current = index_warm_throughput(table.record, record)
        check_warm_rises(index["WarmThroughput"], current, f"index {name}")


def _refuse_same(current: Mapping[str, int], wanted: Mapping[str, int], which: str, place: str) -> None:
    read, write = "ReadCapacityUnits", "WriteCapacityUnits"
    if (current[read], current[write]) != (wanted[read], wanted[write]):
        return
    problems = ". ".join(
        f"Current {units} provisioned for {place}: {current[units]}. Requested {units}: {wanted[units]}"
        for units in (read, write)
    )
    raise ValidationException(
        f"The provisioned throughput for {which} will not change. The requested value equals the current "
        f"value. {problems}. Refer to the Amazon DynamoDB Developer Guide for current limits and how to "
        "request higher limits."
    )


def _refuse_deleting(table: TableInfo, name: str, now: float) -> None:
    if any(index["IndexName"] == name for index in dropped_indexes(table.record, now)):
        raise in_use(f"Index is being deleted. Table: {table.name} Index: {name}")


def _check_busy(table: TableInfo, request: Request, online: list[dict[str, Any]], now: float) -> None:
    """What the changes that are still under way do not allow."""
    record = table.record
    built = [index for index in online_indexes(record) if is_building(index, now)]
    deleted = dropped_indexes(record, now)
    if online and (built or deleted):
        _check_online(table, online[0], {index["IndexName"]: index for index in built}, now)
    if "ProvisionedThroughput" in request or "StreamSpecification" in request:
        what = "table IOPS" if "ProvisionedThroughput" in request else "stream status"
        allocating = [i["IndexName"] for i in built if not is_backfilling(record, i, now)]
        if allocating:
            raise in_use(_during(what, "created", table.name, allocating))
        if deleted:
            raise in_use(_during(what, "deleted", table.name, [one["IndexName"] for one in deleted]))
    if not built and not deleted and table_status(record, now) == "UPDATING":
        raise in_use(f"Table is being updated: {table.name}")


def _check_online(table: TableInfo, update: Update, built: Mapping[str, Index], now: float) -> None:
    """Only an index that is being filled may go while it is being made; nothing else beside it."""
    name = update.get("Delete", {}).get("IndexName")
    if name not in built:
        raise LimitExceededException(ONE_ONLINE_INDEX)
    if not is_backfilling(table.record, built[name], now):
        raise in_use(
            "Index creation is in resource allocation phase. Retry deletion during backfilling phase or when "
            f"the index is active. Table: {table.name} Index: {name}"
        )


def _during(what: str, state: str, table: str, indexes: list[str]) -> str:
    return f"Can't change {what} when an index is being {state}. Table: {table} Indexes: [{', '.join(indexes)}]"


def _check_changes(table: TableInfo, request: Request) -> None:
    """Changes that would change nothing."""
    record = table.record
    if "ProvisionedThroughput" in request and billing_mode(record) == "PROVISIONED":
        _refuse_same(throughput(record), request["ProvisionedThroughput"], "the table", "the table")
    stream = request.get("StreamSpecification")
    if stream is not None and stream["StreamEnabled"] and record.get("stream"):
        raise ValidationException(f"Table already has an enabled stream: TableName: {table.name}")
    if stream is not None and not stream["StreamEnabled"] and not record.get("stream"):
        raise ValidationException(f"Table has no stream to disable: TableName: {table.name}")
    encryption = request.get("SSESpecification")
    encrypted = (record.get("SSESpecification") or {}).get("Enabled", False)
    if encryption is not None and not encryption.get("Enabled") and not encrypted:
        raise invalid("Table is already encrypted by default")
    if encrypted and encryption is not None and encryption.get("KMSMasterKeyId") == key_arn(table):
        raise invalid(
            "Table is already encrypted with given KMSMasterKeyId. "
            "Use KMSMasterKeyId parameter if you want to change Master Key"
        )
    if "WarmThroughput" in request:
        check_warm_rises(request["WarmThroughput"], warm_throughput(record), "table")
