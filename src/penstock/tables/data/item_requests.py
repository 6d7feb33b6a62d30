"""Reads and writes of single items as people write them on a command line, as requests of DynamoDB's. Nothing is sent.

1. A key is NAME=VALUE, and has the type that the table's schema says: `id=42` is the number 42 where the key is N.
2. A condition is what stands after WHERE in PartiQL: literals stand in it, and every name is aliased, so that a
   reserved word is a name like any other. Beside PartiQL, a keyword that no condition uses (`date`, `user`) is a name.
3. "Double quotes" around what is compared are refused: in PartiQL they name an attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import DynamoDBError, PenstockError, ValidationException
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.parser import parse
from penstock.expressions.partiql.translation import Translator, update_tree
from penstock.expressions.partiql.tree import Select, Update
from penstock.expressions.syntax import tree as syntax
from penstock.expressions.syntax.tree import render
from penstock.tables.definitions.definition import Attribute, Key, Table
from penstock.wire.values import AttributeValue, Item, check_value

Request = dict[str, Any]

_COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_CONDITION_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "between",
        "is",
        "null",
        "missing",
        "true",
        "false",
        "like",
        "size",
        "exists",
        "bool",
        "boolean",
        "string",
        "list",
        "struct",
        "tuple",
        "bag",
        "blob",
        "int",
        "integer",
        "decimal",
        "numeric",
        "float",
        "real",
    ]
)
_TYPE_WORDS = {"S": "a text", "N": "a number", "B": "bytes in base64"}


class BadItemRequest(PenstockError):
    """What was asked cannot be asked of this table: what, and what to write instead."""


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def typed_value(attribute: Attribute, text: str) -> AttributeValue:
    """A key attribute's value, of the type that the schema says (1)."""
    content = text if attribute.type == "S" else text.strip()
    try:
        value = check_value({attribute.type: content})
    except DynamoDBError:
        raise BadItemRequest(
            f"{attribute.name}: {text[:60]!r} is not {_TYPE_WORDS[attribute.type]}, which the key has."
        ) from None
    if not content:
        raise BadItemRequest(f"{attribute.name}: a key attribute must not be empty.")
    return value


def parse_key(pairs: Iterable[str], key: Key, owner: str) -> Item:
    """`NAME=VALUE`, several of them, each an attribute of the key and none twice."""
    types = {one.name: one for one in key.attributes}
    found: Item = {}
    for pair in pairs:
        # A name may itself have an equals sign in it: the longest name of the key that fits is meant.
        name = max((one for one in types if pair.startswith(f"{one}=")), key=len, default=None)
        if name is None:
            raise BadItemRequest(f"{pair[:60]!r} is no part of the key of {owner}. Write {_key_form(key)}.")
        if name in found:
            raise BadItemRequest(f"{name} is given twice.")
        found[name] = typed_value(types[name], pair[len(name) + 1 :])
    return found


def whole_key(pairs: Sequence[str], table: Table) -> Item:
    """The key of one item."""
    found = parse_key(pairs, table.key, table.name)
    missing = [name for name in table.key.names if name not in found]
    if missing:
        raise BadItemRequest(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: one item of {table.name} is "
            f"named by {_key_form(table.key)}."
        )
    return found


def _key_form(key: Key) -> str:
    return " ".join(f"{one.name}={_TYPE_WORDS[one.type].upper().split()[-1]}" for one in key.attributes)


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def parse_condition(text: str, translator: Translator) -> syntax.Term:
    """The condition's tree; its names and values are the translator's (2, 3)."""
    try:
        where = parse(f"SELECT * FROM t WHERE {_with_plain_names(text)}")  # noqa: S608 - parsed here, sent nowhere
        if not isinstance(where.statement, Select) or where.statement.where is None or where.parameters:
            raise ValidationException("Write a condition, such as status = 'open' AND total > 100")
        if where.statement.order or where.statement.unsupported:
            raise ValidationException("Only a condition stands here, without ORDER BY or LIMIT")
        return translator.term(where.statement.where)
    except ValidationException as error:
        raise BadItemRequest(
            f"The condition {text[:200]!r} cannot be read: {error.message}. "
            "Write for example: status = 'open' AND total > 100 AND begins_with(name, 'A')."
        ) from None


def _with_plain_names(text: str) -> str:
    """The text with keywords that no condition uses in quotes, as names."""
    found = tokens.tokenize(text)
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    pieces: list[str] = []
    end = 0
    for before, token, after in zip([None, *found], found, [*found[1:], None], strict=False):
        at = starts[token.place.line - 1] + token.place.column - 1
        if token.kind == tokens.QUOTED and before is not None and before.kind in _COMPARATORS | {"between", "in"}:
            raise ValidationException(
                f"\"{token.text}\" in double quotes is an attribute's name; a text is written '{token.text}'"
            )
        is_call = after is not None and after.kind == "("
        is_type = before is not None and before.kind in ("is", "not")
        if token.kind in tokens.KEYWORDS and token.kind not in _CONDITION_WORDS and not is_call and not is_type:
            pieces += [text[end:at], f'"{token.text}"']
            end = at + token.place.length
    return "".join([*pieces, text[end:]])


def condition_parts(text: str | None) -> tuple[str | None, Request]:
    """A condition as DynamoDB's expression, and the names and values that it uses."""
    if text is None:
        return None, {}
    translator = Translator(())
    expression = render(parse_condition(text, translator))
    return expression, placeholders(translator)


def placeholders(translator: Translator) -> Request:
    parts: Request = {}
    if translator.names:
        parts["ExpressionAttributeNames"] = translator.names
    if translator.values:
        parts["ExpressionAttributeValues"] = translator.values
    return parts


# ── conditions on the sort key ───────────────────────────────────────────────────────────────────


def sort_condition(text: str, attribute: Attribute, translator: Translator) -> str:
    """`>= 2026-01`, `begins_with 2026`, `begins_with(2026)`, `between 10 and 20`, with the sort key's name or without.

    Values have the key's type, so that quotes are not needed around them.
    """
    rest = text.strip()
    after = rest.removeprefix(attribute.name)
    if after != rest and (after[:1].isspace() or after[:1] in ("<", ">", "=")):
        rest = after.strip()
    path = syntax.render_path(syntax.Path((translator.name(attribute.name),)))

    def value(word: str) -> str:
        word = word.strip()
        if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
            word = word[1:-1]
        return translator.value(typed_value(attribute, word)).name

    first, _, after = rest.partition(" ")
    for sign in ("<=", ">=", "=", "<", ">"):
        if rest.startswith(sign) and rest[len(sign) :].strip():
            return f"{path} {sign} {value(rest[len(sign) :])}"
    if rest[:11].lower() == "begins_with" and rest[11:].strip():
        return f"begins_with({path}, {value(_beginning(rest[11:].strip(), attribute))})"
    low, between, high = after.partition(" and " if " and " in after else " AND ")
    if first.lower() == "between" and between:
        return f"{path} BETWEEN {value(low)} AND {value(high)}"
    raise BadItemRequest(
        f"--sk {text!r} is no condition on {attribute.name}. Write '>= X', '= X', 'begins_with X' or 'between X and Y'."
    )


def _beginning(text: str, attribute: Attribute) -> str:
    """`2026`, `(2026)` or `(day, 2026)`."""
    if attribute.type == "N":
        raise BadItemRequest(f"{attribute.name} is a number, and numbers begin with nothing: write >= or between.")
    if not (text.startswith("(") and text.endswith(")")):
        return text
    inner = text[1:-1]
    name, comma, prefix = inner.partition(",")
    return prefix if comma and name.strip() == attribute.name else inner


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Read:
    """Which items are read: those of a partition with `key`, all without."""

    key: tuple[str, ...] = ()
    sort: str | None = None
    where: str | None = None
    index: str | None = None
    columns: tuple[str, ...] = ()
    reverse: bool = False
    consistent: bool = False


@dataclass(frozen=True, slots=True)
class ReadRequest:
    operation: str
    request: Request = field(default_factory=dict)

    @property
    def is_scan(self) -> bool:
        return self.operation == "Scan"


def read_request(table: Table, read: Read) -> ReadRequest:
    """A Query with a key, a Scan without. Raises BadItemRequest."""
    key, owner = _key_of(table, read)
    translator = Translator(())
    request: Request = {"TableName": table.name}
    if read.index is not None:
        request["IndexName"] = read.index
    given = parse_key(read.key, key, owner)
    if given or read.sort:
        request["KeyConditionExpression"] = _key_condition(key, owner, given, read.sort, translator)
    if read.where is not None:
        request["FilterExpression"] = render(parse_condition(read.where, translator))
    if read.columns:
        paths = (translator.name(name) for name in dict.fromkeys(read.columns))
        request["ProjectionExpression"] = ", ".join(paths)
    if read.reverse:
        if not given:
            raise BadItemRequest(f"A scan has no order: --reverse needs {key.hash[0].name}=….")
        request["ScanIndexForward"] = False
    if read.consistent:
        if read.index is not None and table.index(read.index) in table.global_indexes:
            raise BadItemRequest(f"{read.index} is a global index, which DynamoDB does not read consistently.")
        request["ConsistentRead"] = True
    return ReadRequest("Query" if given else "Scan", {**request, **placeholders(translator)})


def _key_of(table: Table, read: Read) -> tuple[Key, str]:
    if read.index is None:
        return table.key, table.name
    index = table.index(read.index)
    if index is None:
        names = ", ".join(one.name for one in table.indexes) or "none"
        raise BadItemRequest(f"{table.name} has no index {read.index}; it has {names}.")
    return index.key, f"{table.name}.{read.index}"


def _key_condition(key: Key, owner: str, given: Item, sort: str | None, translator: Translator) -> str:
    missing = [one.name for one in key.hash if one.name not in given]
    if missing:
        raise BadItemRequest(f"A query of {owner} needs {' '.join(f'{name}=…' for name in missing)}.")
    terms = [f"{translator.name(name)} = {translator.value(value).name}" for name, value in given.items()]
    free = [one for one in key.range if one.name not in given]
    later = [one.name for one in key.range[len(key.range) - len(free) :] if one.name in given]
    if later:
        raise BadItemRequest(f"{', '.join(later)} can be given only after {free[0].name}.")
    if sort is not None:
        if not free:
            what = "has no sort key" if not key.range else "has its sort key given by = already"
            raise BadItemRequest(f"{owner} {what}: leave --sk out.")
        terms.append(sort_condition(sort, free[0], translator))
    return " AND ".join(terms)


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def update_request(table: Table, key: Item, sets: Sequence[str], removes: Sequence[str], where: str | None) -> Request:
    """UpdateItem of an item that is there: `sets` are assignments, `removes` paths, as in PartiQL's UPDATE."""
    clauses = [f"SET {_with_plain_names(one)}" for one in sets] + [
        f"REMOVE {_with_plain_names(one)}" for one in removes
    ]
    translator = Translator(())
    try:
        statement = parse(f"UPDATE t {' '.join(clauses)}").statement
        if not isinstance(statement, Update) or statement.where is not None or statement.returning is not None:
            raise ValidationException("Only assignments stand here; a condition is given with --where")
        tree = update_tree(statement, translator)
    except ValidationException as error:
        raise BadItemRequest(
            f"The change {' '.join(clauses)[:200]!r} cannot be read: {error.message}. "
            'Write for example: --set "status = \'paid\'" --set "total = total + 1" --remove note.'
        ) from None
    sections: dict[str, list[syntax.Action]] = {}
    for section in tree.sections:
        sections.setdefault(section.keyword, []).extend(section.actions)
    whole = syntax.UpdateTree(tuple(syntax.Section(word, tuple(actions)) for word, actions in sections.items()))
    conditions = [f"attribute_exists({translator.name(table.key.hash[0].name)})"]
    if where is not None:
        conditions.append(f"({render(parse_condition(where, translator))})")
    return {
        "TableName": table.name,
        "Key": key,
        "UpdateExpression": render(whole),
        "ConditionExpression": " AND ".join(conditions),
        **placeholders(translator),
    }
