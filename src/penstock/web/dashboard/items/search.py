"""A search among the items of a table, as the fields of a form. The fields are in the URL, so that it can be shared.

With a partition key it is a Query, without one a Scan. Conditions have a type each: `1` the number is not `1` the text.
    index=by-email  h=ada@example.org  op=begins  r=2026  |  fa=total fo=>= ft=N fv=100  (repeated)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from penstock.client.items.expressions import Aliases, And, Comparison, Condition, F, Function, condition_text
from penstock.client.items.values import decode
from penstock.client.reads.pages import read_token, write_token
from penstock.errors import DynamoDBError
from penstock.tables.definitions.definition import Attribute, Key, Table
from penstock.wire import values as wire
from penstock.wire.values import Item

PAGE_ITEMS: Final = 50
_MOST_READ: Final = 2_000
"""Items that one page reads at most, where a filter drops most of them."""
_FILTERED_PAGE: Final = 500
_CALLS: Final = 8
_MOST_FILTERS: Final = 20
_LONGEST_VALUE: Final = 4_000

SORT_OPERATORS: Final = {
    "=": "=",
    "<": "<",
    "<=": "≤",
    ">": ">",
    ">=": "≥",
    "begins": "begins with",
    "between": "from … to",
}
FILTER_OPERATORS: Final = {
    "=": "=",
    "<>": "≠",
    "<": "<",
    "<=": "≤",
    ">": ">",
    ">=": "≥",
    "begins": "begins with",
    "contains": "contains",
    "lacks": "contains not",
    "exists": "is there",
    "missing": "is missing",
    "type": "is of the type",
}
VALUE_TYPES: Final = {"S": "text", "N": "number", "B": "bytes (base64)", "BOOL": "true/false", "NULL": "null"}


class BadSearch(ValueError):
    """An invalid field: which, and why."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One row of the form: an attribute, an operator, and a value of a type."""

    name: str = ""
    operator: str = "="
    type: str = "S"
    value: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """The search. `hash` and `range` are the texts of the key's fields, in its order."""

    index: str = ""
    hash: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    operator: str = "="
    upto: str = ""
    newest_first: bool = False
    filters: tuple[Filter, ...] = ()

    @classmethod
    def parse(cls, pairs: Sequence[tuple[str, str]]) -> Search:
        """From a URL's query. Unknown fields are ignored; `request_of` refuses invalid ones."""
        fields: dict[str, list[str]] = {}
        for name, value in pairs:
            fields.setdefault(name, []).append(value[:_LONGEST_VALUE])
        columns = [fields.get(name, []) for name in ("fa", "fo", "ft", "fv")]
        rows = zip(*(column[:_MOST_FILTERS] for column in columns), strict=False)
        return cls(
            index=fields.get("index", [""])[0],
            hash=tuple(fields.get("h", ())),
            range=tuple(fields.get("r", ())),
            operator=fields.get("op", ["="])[0],
            upto=fields.get("upto", [""])[0],
            newest_first="desc" in fields,
            filters=tuple(Filter(*row) for row in rows if row[0]),
        )

    def pairs(self) -> list[tuple[str, str]]:
        """The fields that parse to this."""
        pairs = [("index", self.index)] if self.index else []
        pairs += [("h", text) for text in self.hash] + [("r", text) for text in self.range]
        if any(self.range):
            pairs += [("op", self.operator), ("upto", self.upto)]
        if self.newest_first:
            pairs.append(("desc", "1"))
        for one in self.filters:
            pairs += [("fa", one.name), ("fo", one.operator), ("ft", one.type), ("fv", one.value)]
        return pairs

    def query(self, **others: str) -> str:
        return urlencode([*self.pairs(), *others.items()])

    @property
    def is_query(self) -> bool:
        return any(self.hash)

    @property
    def is_blank(self) -> bool:
        """No condition at all; perhaps an index."""
        return not (self.is_query or self.filters)


# ── the request ──────────────────────────────────────────────────────────────────────────────────


def key_of(table: Table, index: str) -> Key:
    """The key of the table or of its index. Raises BadSearch."""
    if not index:
        return table.key
    named_index = table.index(index)
    if named_index is None:
        raise BadSearch(f"{table.name} has no index {index[:100]}.")
    return named_index.key


def request_of(table: Table, search: Search) -> tuple[str, dict[str, Any]]:
    """The operation and its request, without a limit. Raises BadSearch."""
    key = key_of(table, search.index)
    aliases = Aliases()
    request: dict[str, Any] = {"TableName": table.name}
    if search.index:
        request["IndexName"] = search.index
    if search.is_query:
        request["KeyConditionExpression"] = condition_text(And(tuple(_key_conditions(key, search))), aliases)
        if search.newest_first:
            request["ScanIndexForward"] = False
    elif any(search.range):
        raise BadSearch(f"A condition on {key.range[0].name} needs a value of {key.hash[0].name} too.")
    if search.filters:
        filters = And(tuple(_filter_condition(one) for one in search.filters))
        request["FilterExpression"] = condition_text(filters, aliases)
    return ("Query" if search.is_query else "Scan"), aliases.into(request)


def _key_conditions(key: Key, search: Search) -> list[Condition]:
    if len(search.hash) != len(key.hash) or not all(search.hash):
        raise BadSearch(f"A query needs a value of {' and of '.join(one.name for one in key.hash)}.")
    parts = [_equals(one, text) for one, text in zip(key.hash, search.hash, strict=True)]
    given = [text for text in search.range if text]
    if not given:
        return parts
    if len(given) > len(key.range) or list(search.range[: len(given)]) != given:
        raise BadSearch(f"Values of {', '.join(one.name for one in key.range)} are given from the first on.")
    ordered = list(zip(key.range, given, strict=False))
    parts += [_equals(one, text) for one, text in ordered[:-1]]
    return [*parts, _sort_condition(*ordered[-1], search)]


def _equals(one: Attribute, text: str) -> Condition:
    return Comparison("=", F(one.name), typed_value(one.type, text, one.name))


def _sort_condition(one: Attribute, text: str, search: Search) -> Condition:
    value = typed_value(one.type, text, one.name)
    match search.operator:
        case "begins":
            if one.type == "N":
                raise BadSearch(f"{one.name} is a number: numbers do not begin with anything.")
            return F(one.name).begins_with(value)
        case "between":
            if not search.upto:
                raise BadSearch(f"“From … to” needs both values of {one.name}.")
            return F(one.name).between(value, typed_value(one.type, search.upto, one.name))
        case "=" | "<" | "<=" | ">" | ">=" as sign:
            return Comparison(sign, F(one.name), value)
    raise BadSearch(f"A sort key cannot be compared by {search.operator[:20]!r}.")


def _filter_condition(one: Filter) -> Condition:
    attribute = F(one.name)
    match one.operator:
        case "exists":
            return attribute.exists()
        case "missing":
            return attribute.missing()
        case "type":
            kind = one.value.strip().upper()
            if kind not in wire.TYPES:
                raise BadSearch(f"{one.name}: there is no type {one.value[:20]!r}; there are {', '.join(wire.TYPES)}.")
            return Function("attribute_type", attribute, (kind,))
    value = typed_value(one.type, one.value, one.name)
    match one.operator:
        case "begins":
            if one.type not in ("S", "B"):
                raise BadSearch(f"{one.name}: only texts and bytes begin with something.")
            return attribute.begins_with(value)
        case "contains":
            return attribute.contains(value)
        case "lacks":
            return ~attribute.contains(value)
        case "=" | "<>" | "<" | "<=" | ">" | ">=" as sign:
            return Comparison(sign, attribute, value)
    raise BadSearch(f"{one.name}: there is no operator {one.operator[:20]!r}.")


def typed_value(kind: str, text: str, name: str) -> Any:
    """The text as a value of a type, in Python's values. Raises BadSearch."""
    match kind:
        case "S":
            return text
        case "N" | "B":
            try:
                return decode(wire.check_value({kind: text.strip()}))
            except DynamoDBError:
                what = "number" if kind == "N" else "base64"
                raise BadSearch(f"{name}: {text[:50]!r} is no {what}.") from None
        case "BOOL":
            word = text.strip().lower()
            if word not in ("true", "false"):
                raise BadSearch(f"{name}: write true or false, not {text[:50]!r}.")
            return word == "true"
        case "NULL":
            return None
    raise BadSearch(f"{name}: there is no type {kind[:20]!r} to look for.")


# ── pages of items ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of items. `looked_at` is how many were read to find them, `units` what that cost."""

    items: list[Item]
    token: str | None
    looked_at: int
    units: float


Execute = Callable[[str, dict[str, Any]], Mapping[str, Any]]


def find(execute: Execute, table: Table, search: Search, token: str | None, limit: int = PAGE_ITEMS) -> ItemPage:
    """The items from the token on; a filter sees at most two thousand items. Raises BadSearch, InvalidToken, and the
    database's errors."""
    operation, request = request_of(table, search)
    question = sha256(orjson.dumps([operation, request], option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
    start = None if token is None else read_token(token, question)[0]
    names = dict.fromkeys([*table.key.names, *key_of(table, search.index).names])
    items: list[Item] = []
    looked_at, units = 0, 0.0
    for _ in range(_CALLS):
        size = _FILTERED_PAGE if search.filters else limit - len(items)
        more = {"Limit": size} if start is None else {"Limit": size, "ExclusiveStartKey": start}
        answer = execute(operation, {**request, **more, "ReturnConsumedCapacity": "TOTAL"})
        units += float((answer.get("ConsumedCapacity") or {}).get("CapacityUnits", 0.0))
        looked_at += answer.get("ScannedCount", 0)
        items += answer["Items"]
        start = answer.get("LastEvaluatedKey")
        if len(items) > limit:
            items = items[:limit]
            start = {name: items[-1][name] for name in names}
        if start is None or len(items) == limit or looked_at >= _MOST_READ:
            break
    return ItemPage(items, None if start is None else write_token(question, start, 0), looked_at, units)
