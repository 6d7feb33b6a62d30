"""Statements as trees: one frozen class a case."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expressions.partiql.tokens import Place

# ── expressions ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Path:
    """`a."b"[3]` is ("a", "b", 3)."""

    parts: tuple[str | int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Number:
    """As it is written, a sign before it included."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Null:
    place: Place


@dataclass(frozen=True, slots=True)
class Missing:
    place: Place


@dataclass(frozen=True, slots=True)
class Parameter:
    """The `number`-th question mark, from 0."""

    number: int
    place: Place


@dataclass(frozen=True, slots=True)
class Sequence:
    """[a list]."""

    members: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Bag:
    """<<a set>>."""

    members: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Struct:
    """{'a': map}."""

    members: tuple[tuple[Node, Node], ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """A function; its name is in small letters."""

    name: str
    arguments: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Binary:
    """A comparison (=, <>, <, <=, >, >=) or arithmetic (+, -, *, /, %, ||) or LIKE."""

    operator: str
    left: Node
    right: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Between:
    operand: Node
    low: Node
    high: Node
    place: Place


@dataclass(frozen=True, slots=True)
class In:
    operand: Node
    candidates: Node
    place: Place


@dataclass(frozen=True, slots=True)
class Is:
    """`operand IS type`; the type is in small letters, its words joined by one underscore."""

    operand: Node
    type: str
    place: Place


@dataclass(frozen=True, slots=True)
class Not:
    term: Node
    place: Place


@dataclass(frozen=True, slots=True)
class And:
    """Two terms or more."""

    terms: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Or:
    """Two terms or more."""

    terms: tuple[Node, ...]
    place: Place


# ── statements ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Source:
    """What stands after FROM, INTO or UPDATE: a table, or a table and its index."""

    parts: tuple[str | int, ...]
    aliased: bool = False

    @property
    def table(self) -> str:
        return str(self.parts[0])

    @property
    def index(self) -> str | None:
        return str(self.parts[1]) if len(self.parts) > 1 else None


@dataclass(frozen=True, slots=True)
class OrderTerm:
    path: Node
    descending: bool


@dataclass(frozen=True, slots=True)
class Select:
    """`projection` is None for `*`; `unsupported` is the first clause that PartiQL has and DynamoDB has not."""

    projection: tuple[Node, ...] | None
    source: Source
    where: Node | None
    order: tuple[OrderTerm, ...] = ()
    unsupported: str | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """`value` is None where there is no VALUE before it: a form of PartiQL's that DynamoDB has not."""

    source: Source
    value: Node | None


@dataclass(frozen=True, slots=True)
class SetClause:
    path: Path
    value: Node


@dataclass(frozen=True, slots=True)
class RemoveClause:
    path: Path


@dataclass(frozen=True, slots=True)
class Update:
    """`returning` is for example "ALL OLD"."""

    source: Source
    clauses: tuple[SetClause | RemoveClause, ...]
    where: Node | None
    returning: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    source: Source
    where: Node | None
    returning: str | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS(SELECT …): a condition check, in transactions only."""

    select: Select


Statement = Select | Insert | Update | Delete | Exists

Node = (
    Path
    | Text
    | Number
    | Boolean
    | Null
    | Missing
    | Parameter
    | Sequence
    | Bag
    | Struct
    | Call
    | Binary
    | Between
    | In
    | Is
    | Not
    | And
    | Or
    | Select
    | Insert
    | Update
    | Delete
)


def place_of(node: object) -> str:
    """Where a node stands, as DynamoDB shows it."""
    return str(getattr(node, "place", "1:1:1"))
