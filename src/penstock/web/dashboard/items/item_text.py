"""Items as text: short in a list, whole in an editor, and parsed back from the editor.

1. The text is DynamoDB's JSON, so nothing is lost: a number of 38 digits stays the same number.
2. The text is checked before it is sent: duplicate names, unknown types, values of the wrong type.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from penstock.errors import DynamoDBError
from penstock.wire import values as wire
from penstock.wire.limits import NESTING
from penstock.wire.values import AttributeValue, Item

CELL_CHARACTERS: Final = 72
_HASH_CHARACTERS: Final = 16
_SHOWN_MEMBERS: Final = 20
_LINE_CHARACTERS: Final = 90
_PLAIN_CHARACTERS: Final = 20_000
_SHORT_BASE64: Final = 24
_BASE64_START: Final = 12


class BadItem(ValueError):
    """The text is no item: what is wrong, and where."""


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def item_text(item: Item) -> str:
    """DynamoDB's JSON, attributes by name: a line each, more for a long value."""
    lines = [f"  {json.dumps(name, ensure_ascii=False)}: {_value_text(item[name])}" for name in sorted(item)]
    return "{\n" + ",\n".join(lines) + "\n}"


def _value_text(value: AttributeValue) -> str:
    short = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(short) <= _LINE_CHARACTERS or not {"L", "M", "SS", "NS", "BS"} & value.keys():
        return short
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2).replace("\n", "\n  ")


def plain_text(item: Item) -> str:
    """Indented JSON without types: numbers as they are, bytes as base64, sets as lists. Cut after 20,000 characters."""
    text = _plain_json({"M": item}, "")
    return text if len(text) <= _PLAIN_CHARACTERS else f"{text[:_PLAIN_CHARACTERS]}\n… {len(text):,} characters in all"


def _plain_json(value: AttributeValue, margin: str) -> str:
    ((kind, content),) = value.items()
    inner = f"{margin}  "
    match kind:
        case "N":
            return str(content)
        case "NULL":
            return "null"
        case "M":
            names = sorted(content)
            return _block("{}", [f"{_quoted(name)}: {_plain_json(content[name], inner)}" for name in names], margin)
        case "L":
            return _block("[]", [_plain_json(one, inner) for one in content], margin)
        case "NS":
            return _block("[]", content, margin)
        case "SS" | "BS":
            return _block("[]", [_quoted(one) for one in content], margin)
    return _quoted(content)


def _block(brackets: str, members: list[str], margin: str) -> str:
    lines = ",".join(f"\n{margin}  {member}" for member in members)
    return f"{brackets[0]}{lines}\n{margin}{brackets[1]}" if members else brackets


def _quoted(content: str | bool) -> str:
    return json.dumps(content, ensure_ascii=False)


def key_text(key: Item) -> str:
    """A key on one line, for a URL."""
    return orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()


def cell(value: AttributeValue) -> str:
    """A value for a cell of a list: numbers whole, the rest cut."""
    text = _plain(value)
    return text if len(text) <= CELL_CHARACTERS else f"{text[: CELL_CHARACTERS - 1]}…"


def _plain(value: AttributeValue) -> str:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return str(content)[: CELL_CHARACTERS + 1].replace("\n", "⏎")
        case "N":
            return str(content)
        case "B":
            return _bytes_text(content)
        case "BOOL":
            return "true" if content else "false"
        case "NULL":
            return "null"
        case "L":
            return f"[{_some([_plain(one) for one in content[:_SHOWN_MEMBERS]], len(content))}]"
        case "M":
            members = [f"{name}: {_plain(one)}" for name, one in list(content.items())[:_SHOWN_MEMBERS]]
            return f"{{{_some(members, len(content))}}}"
        case "BS":
            return f"{{{_some([_bytes_text(one) for one in content[:_SHOWN_MEMBERS]], len(content))}}}"
    return f"{{{_some([str(one) for one in content[:_SHOWN_MEMBERS]], len(content))}}}"


def _some(members: list[str], count: int) -> str:
    return ", ".join(members) + (f", … {count:,} in all" if count > len(members) else "")


def _bytes_text(base64: str) -> str:
    """Short bytes whole, as base64: rows with keys of bytes must not look alike."""
    if len(base64) <= _SHORT_BASE64:
        return base64
    return f"{base64[:_BASE64_START]}… {_bytes_of(base64):,} bytes"


def _bytes_of(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


# ── hashes of what a form showed ─────────────────────────────────────────────────────────────────


def seen_of(item: Item) -> dict[str, str]:
    """A hash for each attribute: it shows later which of them have changed."""
    return {name: _hash(value) for name, value in item.items()}


def _hash(value: AttributeValue) -> str:
    checked = wire.check_value(value)  # sets in order, numbers written one way
    text = orjson.dumps(checked, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:_HASH_CHARACTERS]


def seen_text(seen: Mapping[str, str]) -> str:
    """As a hidden field of the form."""
    return orjson.dumps(seen, option=orjson.OPT_SORT_KEYS).decode()


def read_seen(text: str) -> dict[str, str]:
    """The hashes that a form carries. Raises BadItem."""
    try:
        hashes = orjson.loads(text)
    except orjson.JSONDecodeError:
        hashes = None
    if not isinstance(hashes, dict) or not hashes or not all(isinstance(one, str) for one in hashes.values()):
        raise BadItem("the form does not say what was seen")
    return hashes


@dataclass(frozen=True, slots=True)
class AttributeChange:
    """An attribute that differs from what the form showed; `now` is None if it was removed."""

    name: str
    how: Literal["changed", "added", "removed"]
    now: AttributeValue | None


def changes_since(seen: Mapping[str, str], now: Item | None) -> list[AttributeChange]:
    """How the item differs from what the form showed; every attribute is removed if there is no item."""
    now = now or {}
    changes: list[AttributeChange] = []
    for name in sorted({*seen, *now}):
        if name not in now:
            changes.append(AttributeChange(name, "removed", None))
        elif name not in seen:
            changes.append(AttributeChange(name, "added", now[name]))
        elif seen[name] != _hash(now[name]):
            changes.append(AttributeChange(name, "changed", now[name]))
    return changes


# ── parsing ──────────────────────────────────────────────────────────────────────────────────────


def read_item(text: str) -> Item:
    """The item in the text, checked and in canonical form. Raises BadItem."""
    try:
        item = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadItem(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except BadItem:
        raise
    except RecursionError:
        raise BadItem("it is nested too deep") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise BadItem(str(error)) from None
    if not isinstance(item, dict):
        raise BadItem('an item is an object: {"id": {"S": "1"}}')
    for name, value in item.items():
        _check(value, name, 1)
    try:
        return wire.check_item(item)[0]
    except DynamoDBError as error:
        raise BadItem(error.message) from None
    except UnicodeEncodeError:
        raise BadItem("half of a surrogate pair is not valid Unicode") from None


def read_key(text: str) -> Item:
    """A key as `key_text` wrote it. Raises BadItem."""
    return read_item(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        times = Counter(name for name, _ in pairs)
        duplicate = next(name for name, count in times.items() if count > 1)
        raise BadItem(f"{duplicate!r} is there twice")
    return members


def _no_constant(name: str) -> Any:
    raise BadItem(f"{name} is no JSON")


_TEXTS: Final = frozenset({"S", "N", "B"})
_SETS: Final = frozenset({"SS", "NS", "BS"})
_FLAGS: Final = frozenset({"BOOL", "NULL"})


def _check(value: Any, path: str, depth: int) -> None:
    """Checks the JSON types only: `wire.values` and the database check the rest."""
    if not isinstance(value, dict) or len(value) != 1:
        raise BadItem(f'{path}: a value names its type, such as {{"S": "text"}} or {{"N": "1"}}')
    ((kind, content),) = value.items()
    if depth > NESTING:
        raise BadItem(f"{path[:100]}…: it is nested too deep")
    if kind in _TEXTS:
        _expect(isinstance(content, str), path, kind, 'a text, also for numbers: {"N": "1.5"}')
    elif kind in _FLAGS:
        _expect(isinstance(content, bool), path, kind, "true or false")
    elif kind in _SETS:
        fine = isinstance(content, list) and all(isinstance(one, str) for one in content)
        _expect(fine, path, kind, "a list of texts")
    elif kind == "L":
        _expect(isinstance(content, list), path, kind, "a list of values")
        for place, one in enumerate(content):
            _check(one, f"{path}[{place}]", depth + 1)
    elif kind == "M":
        _expect(isinstance(content, dict), path, kind, "an object of values")
        for name, one in content.items():
            _check(one, f"{path}.{name}", depth + 1)
    else:
        raise BadItem(f"{path}: there is no type {kind!r}; there are {', '.join(wire.TYPES)}")


def _expect(fine: bool, path: str, kind: str, what: str) -> None:
    if not fine:
        raise BadItem(f"{path}: what {kind} holds is {what}")
