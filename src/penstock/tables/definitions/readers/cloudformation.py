"""The tables of a CloudFormation template: AWS::DynamoDB::Table and AWS::DynamoDB::GlobalTable.

1. Functions are resolved as CloudFormation does: Ref, Sub, Join, Select, Split, FindInMap, If, and conditions.
2. A parameter has the value that the caller gives, else its default. What only a stack knows (the attribute of another
   resource, an import, a generated name) can be given the same way, under the name that stands in the template.
3. A value that cannot be resolved is an error that names its place; nothing is guessed.
4. Only tables are resolved: functions in the rest of a template may be anything.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import PITR_DAYS, Table, Throughput
from penstock.tables.definitions.export_file import NeedsStep, TemplateError
from penstock.tables.definitions.problems import check
from penstock.tables.definitions.readers.template_members import wrong_capacity, wrong_properties
from penstock.tables.definitions.resource_policy import policy_text

TABLE = "AWS::DynamoDB::Table"
GLOBAL_TABLE = "AWS::DynamoDB::GlobalTable"
SIMPLE_TABLE = "AWS::Serverless::SimpleTable"
SCALABLE_TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
DEEPEST = 100
"""Levels of nested values that are resolved."""

Json = dict[str, Any]


class _Nothing:
    """AWS::NoValue: the member is left out."""


_NO_VALUE = _Nothing()


@dataclass(frozen=True, slots=True)
class Template:
    """Tables under their full names, and what the template says of them that is not compared."""

    tables: tuple[Table, ...]
    not_compared: tuple[str, ...] = ()


def is_template(document: Any) -> bool:
    return isinstance(document, dict) and isinstance(document.get("Resources"), dict)


def read_template(document: Mapping[str, Any], file: str, parameters: Mapping[str, str] | None = None) -> Template:
    """Raises ExportError for what is no template or cannot be resolved, DefinitionError for what is no table."""
    given = parameters or {}
    _check_values(document, file, given)
    functions = _Functions(document, file, given)
    tables, notes = [], []
    for name, resource in document["Resources"].items():
        place = f"Resources.{name}"
        if name.startswith("Fn::ForEach"):
            raise TemplateError(file, f"{place}: loops are not read; give the processed template instead")
        kind = resource.get("Type") if isinstance(resource, Mapping) else None
        if kind == SIMPLE_TABLE:
            notes.append(f"{name}: {SIMPLE_TABLE}, which is a table in the processed template only")
        if kind not in (TABLE, GLOBAL_TABLE):
            continue
        if "Condition" in resource and not functions.condition(str(resource["Condition"]), f"{place}.Condition"):
            continue
        properties, unresolved = functions.without_unmanaged(resource.get("Properties") or {}, f"{place}.Properties")
        shape = functions.resolve(properties, f"{place}.Properties")
        if not isinstance(shape, dict):
            raise TemplateError(file, f"{place}.Properties is no object")
        if shape.get("TableName") is None:
            shape["TableName"] = _generated_name(file, name, given)
        is_global = kind == GLOBAL_TABLE
        wrong = wrong_properties(shape, is_global=is_global) or wrong_capacity(shape, is_global=is_global)
        if wrong:
            raise TemplateError(
                file, "; ".join(f"{place}.Properties{_dotted(one.pointer)} {one.text}" for one in wrong)
            )
        try:
            shape, found = _merge_replica(shape, given) if is_global else (shape, [])
            table = table_of(shape)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise TemplateError(file, f"{place}: {_reason(error, shape)}") from error
        check(table, file)
        if isinstance(table.billing, Throughput) and _is_scaled(document, name, table.name):
            table = table.replace(ignore=["billing"])
            found.append("autoscaling of its capacity")
        tables.append(table)
        notes += [f"{table.name}: {one}" for one in [*found, *_unmanaged({**shape, **unresolved})]]
    _check_parameters(document, file, given.keys() - functions.used)
    return Template(tuple(tables), tuple(notes))


def _dotted(pointer: str) -> str:
    """`/Indexes/0/KeySchema` as places are written here: `.Indexes[0].KeySchema`."""
    return "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in pointer.split("/")[1:])


def _reason(error: Exception, shape: Mapping[str, Any]) -> str:
    if isinstance(error, KeyError):
        name = error.args[0]
        keys = [shape.get("KeySchema"), *((one or {}).get("KeySchema") for one in _indexes_of(shape))]
        if any(one.get("AttributeName") == name for key in keys for one in key or ()):
            return f"{name!r} is in a KeySchema, and not in AttributeDefinitions"
        return f"the member {name} is missing"
    return f"it is no table ({error})"


def _indexes_of(shape: Mapping[str, Any]) -> list[Any]:
    return [*(shape.get("GlobalSecondaryIndexes") or ()), *(shape.get("LocalSecondaryIndexes") or ())]


def _check_parameters(document: Mapping[str, Any], file: str, unused: Set[str]) -> None:
    """A value that nothing needed may be for a table whose condition does not hold; one of an unknown name is wrong."""
    known = {*(document.get("Parameters") or {}), *document["Resources"]}
    for name in sorted(unused):
        if name.partition(".")[0] not in known and not name.startswith("AWS::"):
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise NeedsStep(file, f"--parameter {name}: the template has no such name{hint}")


def _check_values(document: Mapping[str, Any], file: str, given: Mapping[str, str]) -> None:
    """As CloudFormation does, which refuses a value that a parameter does not allow."""
    parameters = document.get("Parameters")
    for name, declared in parameters.items() if isinstance(parameters, Mapping) else ():
        is_one = isinstance(declared, Mapping) and "List" not in str(declared.get("Type"))
        allowed = declared.get("AllowedValues") if is_one else None
        if name in given and isinstance(allowed, list) and given[name] not in [_parameter_text(one) for one in allowed]:
            shown = ", ".join(_parameter_text(one) for one in allowed)
            raise NeedsStep(file, f"--parameter {name}={given[name]}: the template allows {shown}")


def _parameter_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _generated_name(file: str, name: str, given: Mapping[str, str]) -> str:
    if name in given:
        return given[name]
    reason = f"Resources.{name}.Properties has no TableName, so CloudFormation makes a name"
    raise NeedsStep(file, f"{reason}; give the table's name with --parameter {name}=NAME")


# ── a table ──────────────────────────────────────────────────────────────────────────────────────


def table_of(shape: Mapping[str, Any]) -> Table:
    """The table that resolved Properties declare. Not checked."""
    stream = shape.get("StreamSpecification")
    description = {
        **shape,
        "BillingModeSummary": {"BillingMode": shape.get("BillingMode") or "PROVISIONED"},
        "StreamSpecification": {"StreamEnabled": stream is not None, **(stream or {})},
    }
    table = aws_shapes.from_description(_with_numbers(description), tags=shape.get("Tags"))
    ttl = shape.get("TimeToLiveSpecification") or {}
    protection = shape.get("DeletionProtectionEnabled")
    return table.replace(
        ttl=ttl.get("AttributeName") if _is_true(ttl.get("Enabled")) else None,
        pitr=_recovery(shape.get("PointInTimeRecoverySpecification")),
        table_class=shape.get("TableClass"),
        deletion_protection=None if protection is None else _is_true(protection),
        sse=_encryption(shape.get("SSESpecification")),
        resource_policy=_policy(shape.get("ResourcePolicy")),
    )


_NUMBERS = frozenset(
    {
        "Dimensions",
        "MaxReadRequestUnits",
        "MaxWriteRequestUnits",
        "ReadCapacityUnits",
        "ReadUnitsPerSecond",
        "WriteCapacityUnits",
        "WriteUnitsPerSecond",
    }
)


def _with_numbers(value: Any, name: str = "") -> Any:
    """Parameters are texts; CloudFormation makes numbers of them where a number belongs."""
    if isinstance(value, Mapping):
        return {member: _with_numbers(one, member) for member, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    return int(value) if name in _NUMBERS else value


def _is_true(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value is None or isinstance(value, bool):
        return bool(value)
    raise ValueError(f"{value!r} is neither true nor false")


def _recovery(shape: Mapping[str, Any] | None) -> int | None:
    if shape is None:
        return None
    return int(shape.get("RecoveryPeriodInDays", PITR_DAYS)) if _is_true(shape["PointInTimeRecoveryEnabled"]) else 0


def _encryption(shape: Mapping[str, Any] | None) -> bool | str | None:
    if shape is None:
        return None
    key: bool | str = shape.get("KMSMasterKeyId", True)
    return key if _is_true(shape["SSEEnabled"]) else False


def _policy(shape: Mapping[str, Any] | None) -> str | None:
    if shape is None:
        return None
    text: str = policy_text(shape["PolicyDocument"])
    return text


_UNMANAGED = {
    "ContributorInsightsSpecification": "Contributor Insights",
    "ImportSourceSpecification": "an import from S3",
    "KinesisStreamSpecification": "a Kinesis destination",
}


def _is_scaled(document: Mapping[str, Any], name: str, table: str) -> bool:
    """Whether autoscaling owns capacity of the table, which is no drift then; a target names it by Ref, Sub or name."""
    resources = document["Resources"]
    names = (f'"Ref": "{name}"', f"${{{name}}}", f'table/{table}"', f"table/{table}/")
    if "AutoScalingSettings" in json.dumps(resources[name], default=str):  # of a global table
        return True
    for resource in resources.values():
        if isinstance(resource, Mapping) and resource.get("Type") == SCALABLE_TARGET:
            text = json.dumps(resource.get("Properties"), default=str)
            if any(one in text for one in names):
                return True
    return False


def _unmanaged(shape: Mapping[str, Any]) -> list[str]:
    return [words for member, words in _UNMANAGED.items() if shape.get(member)]


# ── a global table ───────────────────────────────────────────────────────────────────────────────


def _merge_replica(shape: Json, given: Mapping[str, str]) -> tuple[Json, list[str]]:
    """The table as it is in one region: that of the parameter AWS::Region, else the first replica's."""
    replicas = shape.get("Replicas") or []
    region = given.get("AWS::Region")
    chosen = next((one for one in replicas if one.get("Region") == region), replicas[0] if replicas else {})
    merged = {member: value for member, value in shape.items() if member != "Replicas"}
    settings = ("PointInTimeRecoverySpecification", "Tags", "TableClass", "DeletionProtectionEnabled")
    others = ("ContributorInsightsSpecification", "KinesisStreamSpecification", "ResourcePolicy")
    merged |= {member: chosen[member] for member in (*settings, *others) if member in chosen}
    if (chosen.get("SSESpecification") or {}).get("KMSMasterKeyId"):
        key = chosen["SSESpecification"]["KMSMasterKeyId"]
        merged["SSESpecification"] = {**(merged.get("SSESpecification") or {}), "KMSMasterKeyId": key}
    if len(replicas) > 1:
        # Replication reads the stream: DynamoDB switches it on.
        merged.setdefault("StreamSpecification", {"StreamViewType": "NEW_AND_OLD_IMAGES"})
    _merge_capacity(merged, chosen)
    names = ", ".join(str(one.get("Region")) for one in replicas)
    return merged, [f"replicas in {names}"] if len(replicas) > 1 else []


def _merge_capacity(merged: Json, replica: Mapping[str, Any]) -> None:
    """Provisioned global tables are scaled by the service: the least capacity is the one that is declared."""
    for shape, reader in ((merged, replica), *_index_pairs(merged, replica)):
        limit = {
            **(shape.pop("WriteOnDemandThroughputSettings", None) or {}),
            **(reader.get("ReadOnDemandThroughputSettings") or {}),
        }
        if limit:
            shape["OnDemandThroughput"] = limit
        write = shape.pop("WriteProvisionedThroughputSettings", None)
        read = reader.get("ReadProvisionedThroughputSettings") or replica.get("ReadProvisionedThroughputSettings")
        if write and merged.get("BillingMode") != "PAY_PER_REQUEST":
            shape["ProvisionedThroughput"] = {
                "ReadCapacityUnits": _least_units(read, "Read"),
                "WriteCapacityUnits": _least_units(write, "Write"),
            }


def _index_pairs(merged: Json, replica: Mapping[str, Any]) -> list[tuple[Json, Mapping[str, Any]]]:
    readers = {one.get("IndexName"): one for one in replica.get("GlobalSecondaryIndexes") or ()}
    return [(one, readers.get(one.get("IndexName"), {})) for one in merged.get("GlobalSecondaryIndexes") or ()]


def _least_units(settings: Any, kind: str) -> int:
    settings = settings or {}
    fixed = settings.get(f"{kind}CapacityUnits")
    scaling = settings.get(f"{kind}CapacityAutoScalingSettings") or {}
    return int(fixed or scaling.get("SeedCapacity") or scaling.get("MinCapacity") or 1)


# ── functions ────────────────────────────────────────────────────────────────────────────────────

_VARIABLE = re.compile(r"\$\{([^}$]*+)\}")


@dataclass(slots=True)
class _Functions:
    """A template's functions, resolved with values for its parameters (1)."""

    document: Mapping[str, Any]
    file: str
    given: Mapping[str, str]
    used: set[str] = field(default_factory=set)
    """The names of given values that something asked for."""
    _deciding: list[str] = field(default_factory=list)

    def resolve(self, value: Any, place: str, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise self._error(place, "it is nested too deep")
        if isinstance(value, list):
            several = [self.resolve(one, f"{place}[{at}]", depth + 1) for at, one in enumerate(value)]
            return [one for one in several if one is not _NO_VALUE]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref":
                return self._named(str(argument), place, "Ref")
            if isinstance(name, str) and name.startswith("Fn::"):
                return self._call(name, argument, place, depth)
        found = {member: self.resolve(one, f"{place}.{member}", depth + 1) for member, one in value.items()}
        return {member: one for member, one in found.items() if one is not _NO_VALUE}

    def without_unmanaged(self, properties: Any, place: str) -> tuple[Any, Json]:
        """The properties without what is not compared and only the stack could resolve; and that."""
        if not isinstance(properties, Mapping):
            return properties, {}
        unresolved: Json = {}
        for member in properties.keys() & _UNMANAGED.keys():
            try:
                self.resolve(properties[member], f"{place}.{member}")
            except NeedsStep:
                unresolved[member] = properties[member]
        return {name: value for name, value in properties.items() if name not in unresolved}, unresolved

    def _call(self, name: str, argument: Any, place: str, depth: int) -> Any:
        rules: dict[str, Callable[[Any, str, int], Any]] = {
            "Fn::FindInMap": self._find_in_map,
            "Fn::GetAtt": self._attribute,
            "Fn::If": self._if,
            "Fn::ImportValue": self._import,
            "Fn::Join": self._join,
            "Fn::Select": self._select,
            "Fn::Split": self._split,
            "Fn::Sub": self._substitute,
        }
        if name not in rules:
            raise self._error(place, f"{name} is not resolved here; write its value, or give the processed template")
        try:
            return rules[name](argument, place, depth + 1)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            reason = f"it has no {error.args[0]!r}" if isinstance(error, KeyError) else repr(error)
            raise self._error(place, f"{name} cannot be resolved: {reason}") from error

    def _named(self, name: str, place: str, function: str) -> Any:
        """A parameter's value, a pseudo parameter's, or what was given for a name that only a stack knows (2)."""
        if name == "AWS::NoValue":
            return _NO_VALUE
        declared = (self.document.get("Parameters") or {}).get(name)
        is_list = isinstance(declared, Mapping) and "List" in str(declared.get("Type"))
        if name in self.given:
            self.used.add(name)
            return [one.strip() for one in self.given[name].split(",")] if is_list else self.given[name]
        if isinstance(declared, Mapping) and "Default" in declared:
            default = declared["Default"]
            return [one.strip() for one in str(default).split(",")] if is_list else default
        what = "a parameter without a default" if declared is not None else "known to the stack only"
        raise NeedsStep(self.file, f"{place}: {function} {name} is {what}; give it with --parameter {name}=VALUE")

    def _attribute(self, argument: Any, place: str, depth: int) -> Any:
        return self._named(argument if isinstance(argument, str) else ".".join(argument), place, "GetAtt")

    def _import(self, argument: Any, place: str, depth: int) -> Any:
        return self._named(str(self.resolve(argument, place, depth)), place, "ImportValue")

    def _substitute(self, argument: Any, place: str, depth: int) -> str:
        text, names = (argument, {}) if isinstance(argument, str) else argument

        def value(found: re.Match[str]) -> str:
            name = found.group(1).strip()
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in names:
                return _text(self.resolve(names[name], place, depth))
            return _text(self._named(name, place, "Sub"))

        return _VARIABLE.sub(value, text)

    def _join(self, argument: Any, place: str, depth: int) -> str:
        separator, parts = argument
        resolved = self.resolve(parts, place, depth)
        if not isinstance(resolved, list):
            raise TypeError(f"{resolved!r} is no list")
        return str(separator).join(_text(one) for one in resolved)

    def _split(self, argument: Any, place: str, depth: int) -> list[str]:
        separator, text = argument
        return _text(self.resolve(text, place, depth)).split(separator)

    def _select(self, argument: Any, place: str, depth: int) -> Any:
        at, several = (self.resolve(one, place, depth) for one in argument)
        if int(at) < 0 or not isinstance(several, list):
            raise IndexError(at)
        return several[int(at)]

    def _find_in_map(self, argument: Any, place: str, depth: int) -> Any:
        name, first, second = (_text(self.resolve(one, place, depth)) for one in argument[:3])
        return self.document["Mappings"][name][first][second]

    def _if(self, argument: Any, place: str, depth: int) -> Any:
        name, yes, no = argument
        return self.resolve(yes if self.condition(name, place) else no, place, depth)

    def condition(self, name: str, place: str) -> bool:
        """Whether a condition of the template holds."""
        conditions = self.document.get("Conditions") or {}
        if name not in conditions:
            raise self._error(place, f"the condition {name} is not in the template")
        if name in self._deciding:
            raise self._error(place, f"the condition {name} depends on itself")
        self._deciding.append(name)
        try:
            return self._decide(conditions[name], f"Conditions.{name}")
        finally:
            self._deciding.pop()

    def _decide(self, rule: Any, place: str, depth: int = 0) -> bool:
        if not isinstance(rule, Mapping) or len(rule) != 1 or depth > DEEPEST:
            raise self._error(place, "it is no condition")
        ((name, argument),) = rule.items()
        if name == "Condition":
            return self.condition(str(argument), place)
        if not isinstance(argument, list):
            raise self._error(place, f"{name} takes a list")
        match name:
            case "Fn::Equals" if len(argument) == 2:
                left, right = (self.resolve(one, place) for one in argument)
                return _text(left) == _text(right)
            case "Fn::Not" if len(argument) == 1:
                return not self._decide(argument[0], place, depth + 1)
            case "Fn::And":
                return all(self._decide(one, place, depth + 1) for one in argument)
            case "Fn::Or":
                return any(self._decide(one, place, depth + 1) for one in argument)
            case _:
                raise self._error(place, f"{name} is no condition that is read here")

    def _error(self, place: str, reason: str) -> TemplateError:
        return TemplateError(self.file, f"{place}: {reason}")


def _text(value: Any) -> str:
    """A value as CloudFormation puts it into a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{value!r} is no text")
