"""The tables in what `terraform show -json` prints, of a state or of a plan: `aws_dynamodb_table` in every module.

Terraform has resolved variables, count and for_each already: each instance is a resource of its own, with its address.
Resources beside a table that Penstock does not manage (replicas, Kinesis destinations, scaling) are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.tables.definitions.aws_shapes import ON_DEMAND_WARM, UNLIMITED
from penstock.tables.definitions.definition import (
    ON_DEMAND,
    PITR_DAYS,
    Attribute,
    Billing,
    Index,
    Key,
    Maximum,
    Table,
    Throughput,
)
from penstock.tables.definitions.export_file import ExportError
from penstock.tables.definitions.problems import check
from penstock.tables.definitions.readers.cloudformation import Template
from penstock.tables.definitions.resource_policy import policy_text

TABLE = "aws_dynamodb_table"
POLICY = "aws_dynamodb_resource_policy"
DEEPEST_MODULES = 100

_BESIDE = {
    "aws_dynamodb_contributor_insights": ("table_name", "Contributor Insights"),
    "aws_dynamodb_global_secondary_index": ("table_name", "an index that is a resource of its own"),
    "aws_dynamodb_kinesis_streaming_destination": ("table_name", "a Kinesis destination"),
    "aws_dynamodb_table_replica": ("global_table_arn", "a replica"),
    "aws_appautoscaling_target": ("resource_id", "autoscaling"),
}
"""Resources that belong to a table: the value that names it, and what they are."""

_TABLES_OWN = frozenset(
    {
        "arn",
        "attribute",
        "billing_mode",
        "deletion_protection_enabled",
        "global_secondary_index",
        "global_table_witness",
        "hash_key",
        "id",
        "import_table",
        "key_schema",
        "local_secondary_index",
        "name",
        "on_demand_throughput",
        "point_in_time_recovery",
        "range_key",
        "read_capacity",
        "region",
        "replica",
        "restore_backup_arn",
        "restore_date_time",
        "restore_source_name",
        "restore_source_table_arn",
        "restore_to_latest_time",
        "server_side_encryption",
        "stream_arn",
        "stream_enabled",
        "stream_label",
        "stream_view_type",
        "table_class",
        "tags",
        "tags_all",
        "timeouts",
        "ttl",
        "warm_throughput",
        "write_capacity",
    }
)
"""What the resource has in the provider's versions up to 6.37; a newer one may say more of a table."""

Json = Mapping[str, Any]


def is_terraform(document: Any) -> bool:
    return isinstance(document, dict) and "format_version" in document


def read_terraform(document: Json, file: str) -> Template:
    """Raises ExportError for a table that has no values yet, and DefinitionError for what is no table."""
    values = document.get("planned_values") or document.get("values") or {}
    resources = list(_resources(values.get("root_module") or {}, file))
    tables, notes = [], []
    for one in resources:
        if one.get("type") != TABLE or one.get("mode", "managed") != "managed":
            continue
        given = one.get("values") or {}
        address = str(one.get("address", TABLE))
        if not given.get("name"):
            step = "apply it first, and read the state with `terraform show -json`"
            raise ExportError(file, f"{address}: its name is known after apply only; {step}")
        try:
            table = _table(given)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else f"it is no table ({error!r})"
            raise ExportError(file, f"{address}: {reason}") from error
        table, note = _with_policy(table, resources)
        check(table, file)
        tables.append(table.replace(ignore=["billing"]) if _is_scaled(table, resources) else table)
        notes += [note] if note else []
        regions = ", ".join(str(replica.get("region_name")) for replica in given.get("replica") or ())
        notes += [f"{table.name}: replicas in {regions}"] if regions else []
        unknown = ", ".join(sorted(member for member, value in given.items() if value and member not in _TABLES_OWN))
        notes += [f"{table.name}: {unknown} ({address})"] if unknown else []
    return Template(tuple(tables), (*notes, *_notes(resources)))


def _with_policy(table: Table, resources: list[Json]) -> tuple[Table, str]:
    """The table with the policy that names it; a policy whose values are known after apply only is a note."""
    for one in resources:
        given = one.get("values") or {}
        if one.get("type") == POLICY and str(given.get("resource_arn") or "").endswith(f":table/{table.name}"):
            if not given.get("policy"):
                return table, f"{table.name}: a resource policy ({one.get('address')})"
            return table.replace(resource_policy=policy_text(given["policy"])), ""
    return table, ""


def _resources(module: Json, file: str, depth: int = 0) -> Iterator[Json]:
    if depth > DEEPEST_MODULES:
        raise ExportError(file, "its modules are nested too deep")
    yield from (one for one in module.get("resources") or () if isinstance(one, Mapping))
    for child in module.get("child_modules") or ():
        yield from _resources(child, file, depth + 1)


def _notes(resources: list[Json]) -> Iterator[str]:
    for one in resources:
        if one.get("type") == POLICY and not (one.get("values") or {}).get("resource_arn"):
            yield f"its table is not known yet: a resource policy ({one.get('address')})"
        member, words = _BESIDE.get(str(one.get("type")), ("", ""))
        named = str((one.get("values") or {}).get(member) or "")
        if words and (one["type"] != "aws_appautoscaling_target" or named.startswith("table/")):
            place = named.partition("table/")[2] or named or "its table is not known yet"
            yield f"{place}: {words} ({one.get('address')})"


def _is_scaled(table: Table, resources: Iterable[Json]) -> bool:
    """Whether autoscaling owns the capacity of the table, or of an index of it: then it is no drift."""
    if not isinstance(table.billing, Throughput):
        return False
    targets = (one for one in resources if one.get("type") == "aws_appautoscaling_target")
    places = [str((one.get("values") or {}).get("resource_id")).split("/") for one in targets]
    return ["table", table.name] in [place[:2] for place in places]


def _table(given: Json) -> Table:
    types = {one["name"]: one["type"] for one in given["attribute"]}
    billing = _billing(given)
    key = _key(given, types)
    indexes = [_global_index(one, types, billing) for one in given.get("global_secondary_index") or ()]
    indexes += [_local_index(one, types, key) for one in given.get("local_secondary_index") or ()]
    ttl = _first(given, "ttl")
    tags = given.get("tags_all") if given.get("tags_all") is not None else given.get("tags")
    return Table.unchecked(
        name=given["name"],
        key=key,
        indexes=tuple(sorted(indexes, key=lambda one: one.name)),
        ttl=ttl.get("attribute_name") if ttl.get("enabled") else None,
        stream=given.get("stream_view_type") if given.get("stream_enabled") else None,
        pitr=_recovery(_first(given, "point_in_time_recovery")),
        tags=None if tags is None else {name: value or "" for name, value in sorted(tags.items())},
        billing=billing,
        on_demand_max=_maximum(given, billing),
        warm=_warm(given, billing),
        table_class=given.get("table_class") or None,
        deletion_protection=given.get("deletion_protection_enabled"),
        sse=_encryption(_first(given, "server_side_encryption")),
    )


def _first(given: Json, block: str) -> Json:
    """A block of which there is at most one: a list in this form."""
    several = given.get(block) or ()
    return several[0] or {} if several else {}


def _billing(given: Json) -> Billing:
    if given.get("billing_mode") == "PAY_PER_REQUEST":
        return ON_DEMAND
    return Throughput(int(given["read_capacity"]), int(given["write_capacity"]))


def _key(given: Json, types: Mapping[str, str]) -> Key:
    parts: dict[str, list[str]] = {"HASH": [], "RANGE": []}
    for one in given.get("key_schema") or ():
        parts[one["key_type"]].append(one["attribute_name"])
    for role, member in (("HASH", "hash_key"), ("RANGE", "range_key")):
        if given.get(member) and not parts[role]:  # a provider may tell both forms
            parts[role] = [given[member]]
    read = {role: tuple(Attribute(name, types[name]) for name in names) for role, names in parts.items()}
    return Key(read["HASH"], read["RANGE"])


def _projection(given: Json) -> Any:
    kept = given["projection_type"]
    return given.get("non_key_attributes") or () if kept == "INCLUDE" else kept


def _global_index(given: Json, types: Mapping[str, str], billing: Billing) -> Index:
    provisioned = isinstance(billing, Throughput)
    units = Throughput(int(given["read_capacity"]), int(given["write_capacity"])) if provisioned else None
    return Index(
        given["name"],
        key=_key(given, types),
        projection=_projection(given),
        throughput=units,
        on_demand_max=_maximum(given, billing),
        warm=_warm(given, units or billing),
    )


def _local_index(given: Json, types: Mapping[str, str], table: Key) -> Index:
    name = given["range_key"]
    key = Key(table.hash, (Attribute(name, types[name]),))
    return Index(given["name"], key=key, projection=_projection(given), local=True)


def _maximum(given: Json, billing: Billing) -> Maximum | None:
    limit = _first(given, "on_demand_throughput")
    if not limit or isinstance(billing, Throughput):
        return None
    units = [limit.get(f"max_{one}_request_units") for one in ("read", "write")]
    return Maximum(*(None if one in (None, 0, UNLIMITED) else int(one) for one in units))


def _warm(given: Json, billing: Billing) -> Throughput | None:
    """None where it is only what every table has: a state tells it of each."""
    found = _first(given, "warm_throughput")
    base = billing if isinstance(billing, Throughput) else ON_DEMAND_WARM
    read, write = (found.get(f"{one}_units_per_second") or 0 for one in ("read", "write"))
    return Throughput(int(read), int(write)) if read > base.read or write > base.write else None


def _recovery(block: Json) -> int | None:
    if not block:
        return None
    return int(block.get("recovery_period_in_days") or PITR_DAYS) if block.get("enabled") else 0


def _encryption(block: Json) -> bool | str | None:
    """A key's ARN that is known after apply only is the account's own key, or one that cannot be compared yet."""
    if not block:
        return None
    return (block.get("kms_key_arn") or True) if block.get("enabled") else False
