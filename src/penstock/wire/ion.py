"""Amazon Ion as text: what DynamoDB's exports have in it, read and written.

    $ion_1_0 {Item:{id:"a",total:12.50,tags:$dynamodb_SS::["x","y"],raw:{{AAE=}}}}

1. Reading takes time in proportion to the text, whatever it is. Values nest `DEPTH` deep at the most.
2. What DynamoDB writes, `read_values` reads, and so does every reader of Ion what `item_text` writes:
   `item_of(read(item_text(item))) == item`.
3. All types of Ion's text are read except those that no item can hold: S-expressions, timestamps, CLOBs and local
   symbol tables are refused by name, as is binary Ion.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from penstock.errors import PenstockError
from penstock.wire.limits import NESTING

DEPTH: Final = NESTING + 8
"""Of structures in each other: an item's own nesting, and what is around it."""

MOST_ANNOTATIONS: Final = 100
"""Of one value; DynamoDB writes one."""

BINARY_MARK: Final = b"\xe0\x01\x00\xea"
"""How binary Ion begins."""

_VERSION: Final = "$ion_1_0"
_SETS: Final = {"$dynamodb_SS": "SS", "$dynamodb_NS": "NS", "$dynamodb_BS": "BS"}


class IonError(PenstockError):
    """The text is not Ion, or has what no item can hold; `place` is the character."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(f"{reason} (character {place + 1})")
        self.reason = reason
        self.place = place


class Incomplete(IonError):
    """The text ends inside a value: more of it may make it whole."""


class Number(str):
    """A number as it is written, in DynamoDB's form: `12.50`, `6E2`."""

    __slots__ = ()


class Symbol(str):
    """A symbol that is a value, not a name."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Annotated:
    """A value with the annotations before it, such as `$dynamodb_SS::[…]`."""

    annotations: tuple[str, ...]
    value: Any


class Unfit(NamedTuple):
    """A value of a type that no item can hold: whole, and refused by whoever uses it."""

    what: str


# ── reading ──────────────────────────────────────────────────────────────────────────────────────

_BLANK = re.compile(r"[ \t\n\r\f\v]*")
_LINE_COMMENT = re.compile(r"[^\n\r]*")
_PLAIN = re.compile(r'"([^"\\\x00-\x1f]*)"')
_QUOTED = re.compile(r'"((?:[^"\\\n\r]|\\(?:\r\n|.))*+)"', re.DOTALL)
_LONG = re.compile(r"'''((?:[^'\\]|'(?!'')|\\.)*+)'''", re.DOTALL)
_QUOTED_SYMBOL = re.compile(r"'((?:[^'\\\n\r]|\\.)*+)'", re.DOTALL)
_LINE_OF_STRING = re.compile(r"(?:[^\\\n\r]|\\(?:\r\n|.|\Z))*+", re.DOTALL)
_SYMBOL = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WORD = re.compile(r"[-+0-9A-Za-z_.:$]+")
_NUMBER = re.compile(r"(-?)(0|[1-9](?:_?[0-9])*+)(?:(\.)((?:[0-9](?:_?[0-9])*+)?))?(?:([dDeE])([+-]?[0-9]+))?")
_INTEGER = re.compile(r"(-?)0(?:[xX]([0-9a-fA-F]++(?:_[0-9a-fA-F]++)*+)|[bB]([01]++(?:_[01]++)*+))")
_TIMESTAMP = re.compile(r"[0-9]{4}(?:T|-[0-9]{2})")
_BASE64 = re.compile(r"[A-Za-z0-9+/= \t\n\r\f\v]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_NULL = re.compile(r"null\.(null|bool|int|float|decimal|timestamp|symbol|string|clob|blob|list|sexp|struct)")
_LONGEST_INTEGER: Final = 200
"""Digits of a hexadecimal or binary integer: any number that an item can hold has fewer."""

_ESCAPES: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "v": "\v", '"': '"', "'": "'",
    "?": "?", "\\": "\\", "/": "/", "\n": "", "\r": "", "\r\n": "",
}  # fmt: skip
_KEYWORDS: Final = {"true": True, "false": False, "null": None}
_NO_FINITE: Final = frozenset({"nan", "+inf", "-inf"})


class Text:
    """A text of Ion, read value by value. `is_whole`: nothing comes after it."""

    def __init__(self, text: str, *, is_whole: bool = True) -> None:
        self._text = text
        self._is_whole = is_whole
        self.place = 0
        """Where the next value begins; what was read before it is done with."""

    def __iter__(self) -> Iterator[Any]:
        """The values at the top. Raises Incomplete where the text ends inside one, and IonError."""
        while True:
            place = self._skip(self.place)
            if place >= len(self._text):
                self.place = place
                return
            value, place = self._value(place, 0)
            self.place = place
            if not (isinstance(value, Symbol) and value == _VERSION):
                yield value

    def _fail(self, reason: str, place: int) -> IonError:
        return IonError(reason, place)

    def _ended(self, place: int) -> IonError:
        return Incomplete("the text ends inside a value", place)

    def _skip(self, place: int) -> int:
        """Past blanks and comments."""
        text = self._text
        while True:
            place = _BLANK.match(text, place).end()  # type: ignore[union-attr]
            if not text.startswith("/", place):
                return place
            if text.startswith("//", place):
                place = _LINE_COMMENT.match(text, place).end()  # type: ignore[union-attr]
                self._refuse_cut(place, place)
            elif text.startswith("/*", place):
                end = text.find("*/", place + 2)
                if end < 0:
                    raise self._ended(place)
                place = end + 2
            else:
                self._refuse_cut(place, place + 1)
                return place

    def _value(self, place: int, depth: int) -> tuple[Any, int]:
        """value = {annotation "::"} (struct | list | string | blob | number | symbol)."""
        annotations: list[str] = []
        while True:
            value, place = self._plain_value(place, depth)
            if not isinstance(value, Symbol):
                break
            after = self._skip(place)
            if not self._text.startswith("::", after):
                if self._text[after : after + 2] in ("", ":"):
                    self._refuse_cut(place, after + 1)
                break
            annotations.append(value)
            if len(annotations) > MOST_ANNOTATIONS:
                raise self._fail(f"a value has more than {MOST_ANNOTATIONS} annotations", place)
            place = self._skip(after + 2)
        if "$ion_symbol_table" in annotations:
            raise self._fail("a local symbol table is not supported: write the names of symbols as they are", place)
        return (Annotated(tuple(annotations), value) if annotations else value), place

    def _plain_value(self, place: int, depth: int) -> tuple[Any, int]:
        text = self._text
        if place >= len(text):
            raise self._ended(place)
        first = text[place]
        if first == "{":
            return self._blob(place) if text.startswith("{{", place) else self._struct(place, depth)
        if first == "[":
            return self._list(place, depth)
        if first == '"':
            return self._string(place)
        if first == "'":
            return self._long_string(place) if text.startswith("'''", place) else self._quoted_symbol(place)
        if first == "(":
            raise self._fail("an S-expression is no value of an item", place)
        return self._word(place)

    def _struct(self, place: int, depth: int) -> tuple[dict[str, Any], int]:
        """struct = "{" [name ":" value {"," name ":" value} [","]] "}"."""
        self._check_depth(place, depth)
        found: dict[str, Any] = {}
        place = self._skip(place + 1)
        while not self._text.startswith("}", place):
            name, place = self._name(place)
            place = self._expect(":", self._skip(place))
            found[name], place = self._value(self._skip(place), depth + 1)
            place = self._next(place, "}")
        return found, place + 1

    def _list(self, place: int, depth: int) -> tuple[list[Any], int]:
        """list = "[" [value {"," value} [","]] "]"."""
        self._check_depth(place, depth)
        found: list[Any] = []
        place = self._skip(place + 1)
        while not self._text.startswith("]", place):
            value, place = self._value(place, depth + 1)
            found.append(value)
            place = self._next(place, "]")
        return found, place + 1

    def _check_depth(self, place: int, depth: int) -> None:
        if depth >= DEPTH:
            raise self._fail(f"values are nested more than {DEPTH} deep", place)

    def _next(self, place: int, end: str) -> int:
        """Where the next member begins, or the end of what it is a member of."""
        place = self._skip(place)
        if self._text.startswith(",", place):
            return self._skip(place + 1)
        if self._text.startswith(end, place):
            return place
        return self._expect(end, place) - 1

    def _expect(self, mark: str, place: int) -> int:
        if self._text.startswith(mark, place):
            return place + 1
        if place >= len(self._text):
            raise self._ended(place)
        raise self._fail(f"{mark!r} is expected, not {self._text[place]!r}", place)

    def _name(self, place: int) -> tuple[str, int]:
        """The name of a struct's member: a symbol or a string."""
        text = self._text
        if place >= len(text):
            raise self._ended(place)
        if text[place] == '"':
            return self._string(place)
        if text[place] == "'":
            found, place = self._long_string(place) if text.startswith("'''", place) else self._quoted_symbol(place)
            return str(found), place
        match = _SYMBOL.match(text, place)
        if match is None:
            raise self._fail(f"a name is expected, not {text[place]!r}", place)
        self._refuse_symbol_id(match.group(), place)
        return match.group(), match.end()

    def _string(self, place: int) -> tuple[str, int]:
        match = _PLAIN.match(self._text, place)
        if match is not None:
            return match.group(1), match.end()
        match = _QUOTED.match(self._text, place)
        if match is None:
            raise self._unended(place, '"')
        return self._unescape(match.group(1), place), match.end()

    def _long_string(self, place: int) -> tuple[str, int]:
        """Pieces of '''…''' one after the other."""
        pieces: list[str] = []
        end = place
        while self._text.startswith("'''", place):
            match = _LONG.match(self._text, place)
            if match is None:
                raise self._ended(place)
            pieces.append(self._unescape(match.group(1), place))
            end = match.end()
            place = self._skip(end)
        if place >= len(self._text) - 2 and not self._is_whole:
            raise self._ended(place)  # another piece may follow
        return "".join(pieces), end

    def _quoted_symbol(self, place: int) -> tuple[Symbol, int]:
        match = _QUOTED_SYMBOL.match(self._text, place)
        if match is None:
            raise self._unended(place, "'")
        if match.end() == len(self._text) and not self._is_whole:
            raise self._ended(place)
        return Symbol(self._unescape(match.group(1), place)), match.end()

    def _unended(self, place: int, mark: str) -> IonError:
        """A string that has no end: because the text ends first, or because a line does."""
        match = _LINE_OF_STRING.match(self._text, place + 1)
        assert match is not None
        if match.end() < len(self._text) or self._is_whole:
            return self._fail(f"a string has no closing {mark}", place)
        return self._ended(place)

    def _unescape(self, raw: str, place: int) -> str:
        if "\\" in raw:
            raw = _ESCAPE.sub(lambda match: self._escaped(match.group(1), place), raw)
            if any("\ud800" <= one <= "\udfff" for one in raw):
                raw = self._paired(raw, place)
        return raw

    def _escaped(self, body: str, place: int) -> str:
        if body[0] in "uUx" and len(body) > 1:
            code = int(body[1:], 16)
            if code > 0x10FFFF:
                raise self._fail(f"\\{body} is no character", place)
            return chr(code)
        if body not in _ESCAPES:
            raise self._fail(f"\\{body} is no escape", place)
        return _ESCAPES[body]

    def _paired(self, text: str, place: int) -> str:
        """Two escapes of UTF-16 are one character."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._fail("half of a character of UTF-16 stands alone", place) from None

    def _blob(self, place: int) -> tuple[bytes | Unfit, int]:
        """blob = "{{" base64 "}}"."""
        start = _BLANK.match(self._text, place + 2).end()  # type: ignore[union-attr]  # "//" is base64 here
        if self._text.startswith(('"', "'"), start):
            raise self._fail("a CLOB is no value of an item", place)
        match = _BASE64.match(self._text, place + 2)
        assert match is not None
        end = match.end()
        if not self._text.startswith("}}", end):
            if end >= len(self._text) - 1:
                raise self._ended(place)
            raise self._fail("a blob is base64 between {{ and }}", end)
        try:
            return a2b_base64("".join(match.group().split()), strict_mode=True), end + 2
        except Base64Error:
            raise self._fail("a blob is not base64", place) from None

    def _word(self, place: int) -> tuple[Any, int]:
        """A number, a symbol, true, false, null."""
        text = self._text
        match = _SYMBOL.match(text, place)
        if match is not None:
            if match.group() == "null":
                self._refuse_cut(place, _WORD.match(text, place).end())  # type: ignore[union-attr]  # null.int may follow
            typed = _NULL.match(text, place)
            end = typed.end() if typed is not None else match.end()
            self._refuse_cut(place, end)
            if typed is not None or match.group() in _KEYWORDS:
                return (None if typed is not None else _KEYWORDS[match.group()]), end
            self._refuse_symbol_id(match.group(), place)
            if match.group() in _NO_FINITE:
                return Unfit("a number that is not finite"), end
            return Symbol(match.group()), end
        word = _WORD.match(text, place)
        if word is None:
            raise self._fail(f"{text[place]!r} begins no value", place)
        self._refuse_cut(place, word.end())
        return self._number(word.group(), place), word.end()

    def _refuse_cut(self, place: int, end: int) -> None:
        """What reaches to the end of a text that goes on may be longer than it looks."""
        if end >= len(self._text) and not self._is_whole:
            raise self._ended(place)

    def _number(self, word: str, place: int) -> Number | Unfit:
        match = _NUMBER.fullmatch(word)
        if match is not None:
            sign, whole, _, fraction, _, exponent = match.groups()
            digits = whole.replace("_", "") + (f".{fraction.replace('_', '')}" if fraction else "")
            return Number(f"{sign}{digits}" + (f"E{exponent}" if exponent else ""))
        match = _INTEGER.fullmatch(word)
        if match is not None:
            sign, hexadecimal, binary = match.groups()
            digits = (hexadecimal or binary).replace("_", "")
            if len(digits) > _LONGEST_INTEGER:
                raise self._fail("an integer has too many digits", place)
            return Number(sign + str(int(digits, 16 if hexadecimal else 2)))
        if word in _NO_FINITE:
            return Unfit("a number that is not finite")
        if _TIMESTAMP.match(word):
            return Unfit("a timestamp")
        raise self._fail(f"{word[:40]!r} is no value", place)

    def _refuse_symbol_id(self, symbol: str, place: int) -> None:
        if symbol[0] == "$" and symbol[1:].isdigit():
            raise self._fail(f"{symbol} is the number of a symbol: write its name", place)


def read_values(text: str) -> list[Any]:
    """All values of a text."""
    return list(Text(text))


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def item_of(struct: Mapping[str, Any]) -> dict[str, Any]:
    """The item, in DynamoDB's JSON, that a struct of Ion means. Raises IonError for what no item can hold."""
    return {name: value_of(value) for name, value in struct.items()}


def value_of(value: Any) -> dict[str, Any]:
    """One value in DynamoDB's JSON: a string is an S, any number an N, a blob a B."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case Number():
            return {"N": str(value)}
        case Symbol():
            raise IonError(f"the symbol {value[:40]!r} is no value of an item: write a string", 0)
        case str():
            return {"S": value}
        case bytes():
            return {"B": b2a_base64(value, newline=False).decode()}
        case list():
            return {"L": [value_of(one) for one in value]}
        case dict():
            return {"M": item_of(value)}
        case Annotated(annotations, inner):
            return _set_of(annotations, inner)
        case Unfit(what):
            raise IonError(f"{what} is no value of an item", 0)
    raise AssertionError(f"{type(value)} is read from no text")


def _set_of(annotations: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A set, by its annotation; other annotations say nothing."""
    kinds = [_SETS[one] for one in annotations if one in _SETS]
    if not kinds:
        return value_of(value)
    kind, member = kinds[0], kinds[0][0]
    if len(kinds) > 1 or not isinstance(value, list):
        raise IonError(f"$dynamodb_{kind} stands before a list", 0)
    members = [value_of(one) for one in value]
    if any(member not in one for one in members):
        raise IonError(f"a member of a set $dynamodb_{kind} has another type", 0)
    return {kind: [one[member] for one in members]}


# ── writing ──────────────────────────────────────────────────────────────────────────────────────

_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_TO_ESCAPE_IN_SYMBOL = re.compile(r"['\\\x00-\x1f\x7f-\x9f]")
_SYMBOL_ID = re.compile(r"\$[0-9]+")
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_RESERVED: Final = frozenset({"true", "false", "null", "nan"})


def line(members: Mapping[str, Any], *, outer: str | None = None) -> str:
    """A line of a data file: `$ion_1_0 {Item:{…}}`; `outer` puts a struct of that name around it."""
    text = "{" + ",".join(f"{name_text(name)}:{value}" for name, value in members.items()) + "}"
    return f"{_VERSION} {text if outer is None else '{' + outer + ':' + text + '}'}"


def item_text(item: Mapping[str, Any]) -> str:
    """An item in DynamoDB's JSON as a struct of Ion."""
    return "{" + ",".join(f"{name_text(name)}:{value_text(value)}" for name, value in item.items()) + "}"


def value_text(value: Mapping[str, Any]) -> str:
    """One value of DynamoDB's JSON."""
    ((kind, data),) = value.items()
    match kind:
        case "S":
            return string_text(data)
        case "N":
            return number_text(data)
        case "B":
            return f"{{{{{data}}}}}"
        case "BOOL":
            return "true" if data else "false"
        case "NULL":
            return "null"
        case "L":
            return f"[{','.join(map(value_text, data))}]"
        case "M":
            return item_text(data)
    write = {"SS": string_text, "NS": number_text, "BS": lambda one: f"{{{{{one}}}}}"}[kind]
    return f"$dynamodb_{kind}::[{','.join(map(write, data))}]"


def name_text(name: str) -> str:
    """A name as a symbol, with quotes where it needs them."""
    if _SYMBOL.fullmatch(name) and name not in _RESERVED and not _SYMBOL_ID.fullmatch(name):
        return name
    return "'" + _TO_ESCAPE_IN_SYMBOL.sub(_escape, name) + "'"


def string_text(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(_escape, text) + '"'


def number_text(text: str) -> str:
    """A decimal: `103.`, `0.5`, `6d2`."""
    if "E" in text or "e" in text:
        return text.replace("E", "d").replace("e", "d").replace("d+", "d")
    return text if "." in text else f"{text}."


def _escape(match: re.Match[str]) -> str:
    one = match.group()
    return _SHORT.get(one) or f"\\x{ord(one):02x}"
