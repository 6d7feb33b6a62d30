"""Request bodies, and their errors as sentences.

1. A body is read strictly: text is not a number, a number is not a flag, and an unknown member is an error.
2. Every error is reported with its path: `options.images is from 0 to 500, not 501`. The limits in the sentence are
   those of the API's JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

Schema = Mapping[str, Any]


class StrictModel(BaseModel):
    """The base of request bodies."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ErrorFacts(BaseModel):
    """An error: a word for programs, a sentence for people, and the next step."""

    kind: str
    message: str
    next_step: str
    errors: list[str] = []


class ErrorAnswer(BaseModel):
    """Every answer from 400 on."""

    error: ErrorFacts


def error_sentences(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """All errors of a value that does not fit the model, as sentences."""
    schema = model.model_json_schema()
    return sentences([(one["loc"], one) for one in error.errors(include_url=False)], schema, schema)


def sentences(errors: Sequence[tuple[tuple[str | int, ...], Any]], schema: Schema, document: Schema) -> list[str]:
    """A sentence for each of pydantic's errors; `document` resolves the references in `schema`.

    Unknown members of an object come before errors of its members.
    """
    ordered: list[tuple[tuple[str | int, ...], Any]] = []
    for path, error in errors:
        place = len(ordered)
        if error["type"] == _UNKNOWN:
            place = next((n for n, one in enumerate(ordered) if _comes_after(one, path[:-1])), place)
        ordered.insert(place, (path, error))
    return [_sentence(path, error, schema, document) for path, error in ordered]


_UNKNOWN: Final = "extra_forbidden"
_NUMBER_LIMITS: Final = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_WORDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}
_LONGEST: Final = 100
"""Characters of a path or a value in a sentence."""


def _comes_after(other: tuple[tuple[str | int, ...], Any], parent: tuple[str | int, ...]) -> bool:
    path, error = other
    is_in_parent = path[: len(parent)] == parent
    return is_in_parent and not (error["type"] == _UNKNOWN and path[:-1] == parent)


def _sentence(path: tuple[str | int, ...], error: Any, schema: Schema, document: Schema) -> str:
    place, value = _place(path), error.get("input")
    if error["type"] == _UNKNOWN:
        known = _node(path[:-1], schema, document).get("properties", {})
        return f"{place} is not known; there are {', '.join(known) or 'none'}"
    if error["type"] == "missing":
        return f"{place} is missing"
    node = _node(path, schema, document)
    if error["type"].endswith(("_too_short", "_too_long")):
        low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
        unit = "characters" if isinstance(value, str) else "members"
        return f"{place} has {_range(node.get(low), node.get(high))} {unit}, not {len(value)}"
    if error["type"] in _NUMBER_LIMITS and "minimum" in node and "maximum" in node:
        return f"{place} is from {_range(node['minimum'], node['maximum'])}, not {_text(value)}"
    if "enum" in node or "const" in node:
        return f"{place} is one of {', '.join(map(str, node.get('enum', [node.get('const')])))}, not {_text(value)}"
    if error["type"].endswith(("_type", "_parsing", "_from_float")) and node.get("type") in _WORDS:
        return f"{place} is {_WORDS[node['type']]}, not {_text(value)}"
    return f"{place}: {error['msg']}"


def _node(path: Sequence[str | int], schema: Schema, document: Schema) -> Schema:
    """The part of a JSON Schema that describes what is at the path; an empty one where there is none."""
    node = _resolve(schema, document)
    for part in path:
        inner = node.get("items", {}) if isinstance(part, int) else node.get("properties", {}).get(part, {})
        node = _resolve(inner, document)
    return node


def _resolve(node: Schema, document: Schema) -> Schema:
    choices = [one for one in node.get("anyOf", ()) if one.get("type") != "null"]
    if len(choices) == 1:  # something or null
        node = choices[0]
    if "$ref" not in node:
        return node
    found: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return _resolve(found, document)


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {number_text(low)}"
    return f"at most {number_text(high)}" if low is None else f"{number_text(low)} to {number_text(high)}"


def number_text(number: float | None) -> str:
    """500 for 500.0, which is what FastAPI makes of a schema's limits."""
    return str(int(number) if isinstance(number, float) and number.is_integer() else number)


def _place(path: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    return text[:_LONGEST] or "the body"


def _text(value: object) -> str:
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
