"""HCL, as much of it as tables need: blocks, texts, numbers, booleans, lists, maps and references.

body       = { attribute | block } .
attribute  = NAME "=" expression .
block      = NAME { TEXT } "{" body "}" .
expression = TEXT | NUMBER | "true" | "false" | list | map | reference .
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError


class HclError(PenstockError):
    """A text that is not HCL, or more of it than is read here; `line` is where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Reference:
    """`data.aws_kms_key.jobs.arn`."""

    path: str


@dataclass(slots=True)
class Block:
    """`type "label" … { … }`; a whole file is a block without a type."""

    type: str = ""
    labels: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def all(self, kind: str) -> list[Block]:
        return [one for one in self.blocks if one.type == kind]

    def one(self, kind: str) -> Block | None:
        return next(iter(self.all(kind)), None)


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def render(body: Block) -> str:
    """The text of a file, formatted as `terraform fmt` does."""
    return "\n\n".join("\n".join(_block_lines(one, "")) for one in body.blocks) + "\n"


def _block_lines(block: Block, indent: str) -> Iterator[str]:
    labels = "".join(f" {quote(one)}" for one in block.labels)
    yield f"{indent}{block.type}{labels} {{"
    inner = indent + "  "
    yield from _attribute_lines(block.attributes, inner)
    for at, one in enumerate(block.blocks):
        if at or block.attributes:
            yield ""
        yield from _block_lines(one, inner)
    yield f"{indent}}}"


def _attribute_lines(attributes: dict[str, Any], indent: str) -> Iterator[str]:
    """Neighbours have their signs in one column; a map of several lines stands apart."""
    flat = {name: value for name, value in attributes.items() if not isinstance(value, dict)}
    width = max(map(len, flat), default=0)
    yield from (f"{indent}{name.ljust(width)} = {_expression(value)}" for name, value in flat.items())
    for name, value in attributes.items():
        if isinstance(value, dict):
            if flat:
                yield ""
            yield from _map_lines(name, value, indent)


def _map_lines(name: str, value: dict[str, Any], indent: str) -> Iterator[str]:
    if not value:
        yield f"{indent}{name} = {{}}"
        return
    keys = {key: quote(key) for key in value}
    width = max(map(len, keys.values()))
    yield f"{indent}{name} = {{"
    yield from (f"{indent}  {keys[key].ljust(width)} = {_expression(one)}" for key, one in value.items())
    yield f"{indent}}}"


def _expression(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return quote(value)
        case Reference(path):
            return path
        case list() | tuple():
            return f"[{', '.join(_expression(one) for one in value)}]"
        case _:
            raise TypeError(f"HCL has no {type(value).__name__} here")


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {found[1]: text for text, found in _ESCAPES.items()}


def quote(text: str) -> str:
    """A text in quotes; what would start a template in it is doubled."""
    escaped = "".join(_ESCAPES.get(one, one) for one in text)
    return '"' + re.sub(r"([$%])\{", r"\1\1{", escaped) + '"'


# ── reading ──────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(
    r"""(?P<space>[\s,]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<name>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)
      | (?P<mark>[{}\[\]=:])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


class _Tokens:
    """The tokens of a text, looked at one by one."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._at = 0

    @property
    def next(self) -> _Token:
        return self._tokens[self._at]

    def take(self, *kinds: str) -> _Token:
        token = self.next
        if kinds and token.kind not in kinds and token.text not in kinds:
            raise HclError(token.line, f"{token.text or 'the end'!r} where {' or '.join(kinds)} was expected")
        self._at += 1
        return token

    def has(self, text: str) -> bool:
        return self.next.kind == "mark" and self.next.text == text


def parse(text: str) -> Block:
    """The blocks and attributes of a file. Raises HclError."""
    tokens = _Tokens(text)
    body = Block()
    _body(tokens, body)
    tokens.take("end")
    return body


def _split(text: str) -> Iterable[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise HclError(line, f"{text[at]!r} is not understood")
        if found.lastgroup != "space":
            yield _Token(found.lastgroup or "", found.group(), line)
        line += found.group().count("\n")
        at = found.end()
    yield _Token("end", "", line)


def _body(tokens: _Tokens, block: Block) -> None:
    """body = { attribute | block }."""
    while tokens.next.kind == "name":
        name = tokens.take("name")
        if tokens.has("="):
            tokens.take("=")
            block.attributes[name.text] = _read_expression(tokens)
        else:
            block.blocks.append(_block(tokens, name.text))


def _block(tokens: _Tokens, kind: str) -> Block:
    """block = NAME { TEXT } "{" body "}"."""
    labels = []
    while tokens.next.kind == "text":
        labels.append(unquote(tokens.take("text")))
    block = Block(kind, tuple(labels))
    tokens.take("{")
    _body(tokens, block)
    tokens.take("}")
    return block


def _read_expression(tokens: _Tokens) -> Any:
    """expression = TEXT | NUMBER | "true" | "false" | list | map | reference."""
    token = tokens.take("text", "number", "name", "[", "{")
    match token.kind, token.text:
        case "text", _:
            return unquote(token)
        case "number", text:
            return float(text) if "." in text else int(text)
        case "name", "true" | "false":
            return token.text == "true"
        case "name", path:
            return Reference(path)
        case _, "[":
            return _list(tokens)
        case _:
            return _map(tokens)


def _list(tokens: _Tokens) -> list[Any]:
    found = []
    while not tokens.has("]"):
        found.append(_read_expression(tokens))
    tokens.take("]")
    return found


def _map(tokens: _Tokens) -> dict[str, Any]:
    found = {}
    while not tokens.has("}"):
        key = tokens.take("text", "name")
        tokens.take("=", ":")
        found[unquote(key) if key.kind == "text" else key.text] = _read_expression(tokens)
    tokens.take("}")
    return found


def unquote(token: _Token) -> str:
    inner = token.text[1:-1]
    if re.search(r"(?<![$%])[$%]\{", inner):
        raise HclError(token.line, "templates in texts are not read here")
    plain = re.sub(r"([$%])\1\{", r"\1{", inner)
    return re.sub(r"\\(.)", lambda found: _UNESCAPES.get(found.group(1), found.group()), plain)
