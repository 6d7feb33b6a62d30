"""The key condition of a typed query: which key its conditions are of, and its text.

A partition key is given by equalities, of the attribute or of those that its template is made of. A sort key takes any
condition; one by a template takes equalities of its first attributes, which are the start of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.items.expressions import Aliases, And, Comparison, Condition, F, condition_text
from penstock.client.models.model import KeyPart, Model, ModelIndex
from penstock.wire import values as wire


def key_condition(
    model: Model,
    conditions: Iterable[Condition],
    equals: Mapping[str, Any],
    index: str | None,
    aliases: Aliases,
    *,
    is_alone: bool,
) -> tuple[str, str | None]:
    """The KeyConditionExpression, and the index that it is of.

    `is_alone` is false for a handle of several classes: it reads all of them in the partition.
    """
    values, others = _equalities(model, conditions, equals)
    hashes, sorts, name = _path(model, values, index)
    terms = [_equal(aliases, part.attribute, part.write(values, model.record)) for part in hashes]
    used = {each for part in hashes for each in part.names}
    left = {one: value for one, value in values.items() if one not in used}
    for part in sorts:
        if part.field is not None:
            terms += _sort_terms(part, left, others, aliases)
        else:
            terms += _template_terms(model, part, left, aliases, is_alone=is_alone)
    if left or others:
        names = [*left, *(_name_of(one) or str(one) for one in others)]
        raise ValueError(
            f"{names[0]} is not of the key {_shown(hashes, sorts)}, or not by an equality; use filter= for it"
        )
    return " AND ".join(terms), name


def flat(conditions: Iterable[Condition]) -> list[Condition]:
    """The conditions one by one, without `&`."""
    return [each for one in conditions for each in (one.parts if isinstance(one, And) else (one,))]


def _sort_terms(part: KeyPart, left: dict[str, Any], others: list[Condition], aliases: Aliases) -> list[str]:
    assert part.field is not None
    if part.field.name in left:
        return [_equal(aliases, part.attribute, part.field.converter.write(left.pop(part.field.name)))]
    mine = [one for one in others if _name_of(one) == part.attribute]
    others[:] = [one for one in others if all(one is not each for each in mine)]
    return [condition_text(one, aliases) for one in mine]


def _template_terms(
    model: Model, part: KeyPart, left: dict[str, Any], aliases: Aliases, *, is_alone: bool
) -> list[str]:
    prefix, is_all = part.prefix(left, model.record)
    given = [name for name in part.names if name in left]
    told = part.told(left)
    for name in told:
        del left[name]
    if is_all and is_alone:
        return [_equal(aliases, part.attribute, {"S": prefix})]
    if not prefix or not (is_alone or given):  # all classes of the partition
        return []
    return [f"begins_with({aliases.name(part.attribute)}, {aliases._new({'S': prefix})})"]


def _equal(aliases: Aliases, attribute: str, value: wire.AttributeValue) -> str:
    return f"{aliases.name(attribute)} = {aliases._new(value)}"


def _name_of(condition: Condition) -> str | None:
    operand = getattr(condition, "left", None) or getattr(condition, "operand", None) or getattr(condition, "of", None)
    return str(operand.path[0]) if isinstance(operand, F) else None


def _equalities(
    model: Model, conditions: Iterable[Condition], equals: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Condition]]:
    """Values by attribute of the class, and the conditions that are no equality."""
    values, others = {}, []
    for name, value in equals.items():
        if name not in model.record.by_name:
            raise ValueError(f"{model.name} has no {name}")
        values[name] = value
    for one in conditions:
        name = _name_of(one) or ""
        field = model.record.by_attribute.get(name)
        if isinstance(one, Comparison) and one.comparator == "=" and field is not None:
            values[field.name] = one.right
        else:
            others.append(one)
    return values, others


def _path(
    model: Model, values: Mapping[str, Any], index: str | None
) -> tuple[tuple[KeyPart, ...], tuple[KeyPart, ...], str | None]:
    """The table or the index whose partition key the values are."""
    table = ModelIndex("", model.key[:1], model.key[1:])
    if index is not None:
        if index not in model.indexes:
            raise ValueError(f"{model.name} has no index {index!r}: it has {', '.join(model.indexes) or 'none'}")
        chosen = [model.indexes[index]]
    else:
        chosen = [one for one in (table, *model.indexes.values()) if _has_all(one.hash, values)]
        chosen = chosen[:1] if chosen and chosen[0] is table else chosen
    if len(chosen) != 1 or not _has_all(chosen[0].hash, values):
        names = [_shown(one.hash, one.sort) for one in (table, *model.indexes.values())]
        why = (
            "several indexes have this key: name one with index=" if len(chosen) > 1 else "the partition key is missing"
        )
        raise ValueError(f"query of {model.name}: {why}; its keys are {', '.join(names)}")
    return chosen[0].hash, chosen[0].sort, chosen[0].name or None


def _has_all(parts: Iterable[KeyPart], values: Mapping[str, Any]) -> bool:
    return all(name in values for part in parts for name in part.names)


def _shown(hashes: Iterable[KeyPart], sorts: Iterable[KeyPart]) -> str:
    return f"({', '.join(part.attribute for part in (*hashes, *sorts))})"
