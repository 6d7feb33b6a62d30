"""The usual Query: one that differs from an earlier one in its values alone.

The full path goes from the expressions to the terms and the schema, for each Query anew, which takes longer than
reading a few rows. What it has found of a Query is kept with the table, by the text of the key condition: then only
the values are looked at. Anything else is left to the full path, which alone refuses requests. Where another process
has changed the table, a kept form is as good as the table in the cache (catalog.py, 2), and goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import SHORT_TEXT
from penstock.engine.catalog.table_schema import KeyAttribute, TableInfo
from penstock.engine.registry import Request
from penstock.expressions.compiled.conditions import KeyTerm

_PARAMETERS: Final = frozenset({
    "TableName", "IndexName", "KeyConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
    "Limit", "ScanIndexForward", "ConsistentRead",
})  # fmt: skip
_COMPARISONS: Final = frozenset({"=", "<", "<=", ">", ">=", "begins_with"})
_MOST_FORMS: Final = 64
"""Of a table's: a program that writes its values into its expressions has a new one for each Query."""


class TermForm(NamedTuple):
    """A term without its value, which is the text that is given by this alias."""

    attribute: str
    operator: str
    alias: str


class UsualQuery(NamedTuple):
    table: TableInfo
    terms: list[KeyTerm]
    """Of the partition key, and of the sort key if it is asked for."""


def usual_query(context: OperationContext, request: Request) -> UsualQuery | None:
    """The terms of a Query of a kept form, whose values are ASCII texts so short that any key may be."""
    table = context.engine.catalog.cache[1].get((context.scope, request["TableName"]))
    if table is None or not table.query_forms or "unsettled" in table.record or not request.keys() <= _PARAMETERS:
        return None
    values = request.get("ExpressionAttributeValues")
    forms: tuple[TermForm, ...] | None = table.query_forms.get(_form_key(request))
    if forms is None or values is None or len(values) != len(forms):
        return None
    terms = []
    for attribute, operator, alias in forms:
        value = values.get(alias)
        text = None if value is None or len(value) != 1 else value.get("S")
        if type(text) is not str or not 0 < len(text) <= SHORT_TEXT or not text.isascii():
            return None
        terms.append(KeyTerm(attribute, operator, (value,)))
    return UsualQuery(table, terms)


def keep_form(table: TableInfo, request: Request, terms: Sequence[KeyTerm]) -> None:
    """Keeps what the full path has found of a Query that it answers, where all of it is usual."""
    values = request.get("ExpressionAttributeValues")
    if values is None or len(values) != len(terms) or len(table.query_forms) >= _MOST_FORMS:
        return
    if not request.keys() <= _PARAMETERS:
        return
    name = request.get("IndexName")
    index = None if name is None else table.indexes[name]
    if index is not None and len(index.hash) != 1:
        return
    by_name = {term.attribute: term for term in terms}
    parts = (table.key if index is None else (*index.hash, *index.range[:1]))[: len(terms)]
    forms = [_form_of(part, by_name.get(part.name), values) for part in parts]
    if len(forms) == len(terms) and None not in forms:
        table.query_forms[_form_key(request)] = tuple(forms)


def _form_of(part: KeyAttribute, term: KeyTerm | None, values: Mapping[str, Any]) -> TermForm | None:
    if term is None or part.kind != "S" or term.operator not in _COMPARISONS or len(term.operands) != 1:
        return None
    aliases = [alias for alias, value in values.items() if value is term.operands[0]]
    return TermForm(term.attribute, term.operator, aliases[0]) if len(aliases) == 1 else None


def _form_key(request: Request) -> Any:
    names = request.get("ExpressionAttributeNames")
    return (
        request.get("KeyConditionExpression"),
        request.get("IndexName"),
        None if names is None else tuple(names.items()),
    )
