"""`Attr[T]` and `attr(…)`: an attribute of an item as a class declares it, and as expressions use it.

1. To a type checker `Attr[str]` is a descriptor: `user.email` is a str, and `User.email` is an expression of a str.
2. At run time an instance has its values in its own `__dict__`, and the class has the expression: reading a value costs
   nothing.
3. `User.email` is the `F("email")` of the dict handle: every place that takes one takes the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any, Generic, Literal, TypeVar, overload

from penstock.client.items.expressions import Condition, F, IfMissing, Joined, Sum

T = TypeVar("T")
E = TypeVar("E")

Names = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttrOptions:
    """What `attr(…)` says of one attribute."""

    name: str | None = None
    key: bool = False
    sort: bool = False
    index: tuple[str, ...] = ()
    index_sort: tuple[str, ...] = ()
    ttl: bool = False
    version: bool = False
    rest: bool = False
    null: bool = False
    format: str | None = None
    default: Any = field(default_factory=lambda: MISSING)
    default_factory: Any = field(default_factory=lambda: MISSING)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One change of an update: `User.visits.set(3)`."""

    verb: Literal["set", "remove", "add", "delete"]
    target: F
    value: Any = None


class TypedSum(Sum, Generic[T]):
    """`User.visits + 1`."""

    __slots__ = ()


class TypedJoin(Joined, Generic[T]):
    """`User.history.append([…])`."""

    __slots__ = ()


class TypedIfMissing(IfMissing, Generic[T]):
    """`User.visits.if_missing(0)`."""

    __slots__ = ()

    def __add__(self, other: T) -> TypedSum[T]:
        return TypedSum(self, "+", other)

    def __sub__(self, other: T) -> TypedSum[T]:
        return TypedSum(self, "-", other)


class Expr(F, Generic[T]):
    """An attribute of a class in an expression: `User.email`. `owner` is the class that declared it."""

    __slots__ = ("owner",)

    owner: type

    def __getitem__(self, step: str | int) -> Expr[Any]:
        """What lies below it, by the names that DynamoDB has: `User.address["city"]`, `User.lines[0]`."""
        below: Expr[Any] = Expr(*self.path, step)  # type: ignore[arg-type]
        below.owner = self.owner
        return below

    def __hash__(self) -> int:
        return F.__hash__(self)

    def __eq__(self, other: T | Expr[T]) -> Condition:  # type: ignore[override]
        # None is an attribute that is not there; NULL is what another program may have written for it.
        return (self.missing() | F.__eq__(self, None)) if other is None else F.__eq__(self, other)

    def __ne__(self, other: T | Expr[T]) -> Condition:  # type: ignore[override]
        return (self.exists() & F.__ne__(self, None)) if other is None else F.__ne__(self, other)

    def __lt__(self, other: T | Expr[T]) -> Condition:  # type: ignore[override]
        return F.__lt__(self, other)

    def __le__(self, other: T | Expr[T]) -> Condition:  # type: ignore[override]
        return F.__le__(self, other)

    def __gt__(self, other: T | Expr[T]) -> Condition:  # type: ignore[override]
        return F.__gt__(self, other)

    def __ge__(self, other: T | Expr[T]) -> Condition:  # type: ignore[override]
        return F.__ge__(self, other)

    def between(self, low: T, high: T) -> Condition:
        """low <= it <= high."""
        return F.between(self, low, high)

    def __add__(self, other: T | Expr[T]) -> TypedSum[T]:
        return TypedSum(self, "+", other)

    def __sub__(self, other: T | Expr[T]) -> TypedSum[T]:
        return TypedSum(self, "-", other)

    def append(self: Expr[list[E]], elements: list[E]) -> TypedJoin[list[E]]:  # type: ignore[override]
        """The list with `elements` after it."""
        return TypedJoin(self, list(elements))

    def prepend(self: Expr[list[E]], elements: list[E]) -> TypedJoin[list[E]]:  # type: ignore[override]
        """The list with `elements` before it."""
        return TypedJoin(list(elements), self)

    def if_missing(self, value: T) -> TypedIfMissing[T]:
        """Its value, or `value` where the item has none: for updates."""
        return TypedIfMissing(self, value)

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def set(self, value: T | Expr[T] | TypedSum[T] | TypedJoin[T] | TypedIfMissing[T]) -> Change[T]:
        """Sets it: to a value, or to one that the database computes."""
        return Change("set", self, value)

    def remove(self) -> Change[T]:
        """Removes it from the item."""
        return Change("remove", self)

    def add(self, value: T) -> Change[T]:
        """Adds to a number, or members to a set; a missing one counts as 0, or as empty."""
        return Change("add", self, value)

    def delete(self, members: T) -> Change[T]:
        """Takes members from a set."""
        return Change("delete", self, members)


class Attr(Generic[T]):
    """An attribute of a class that `@penstock.item` makes: `email: Attr[str] = attr(key=True)` (1)."""

    @overload
    def __get__(self, instance: None, owner: type) -> Expr[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> Any:
        raise NotImplementedError  # only in annotations: nobody makes one (2)

    def __set__(self, instance: object, value: T) -> None:
        raise NotImplementedError


@overload
def attr(
    *,
    default: T,
    name: str | None = ...,
    key: bool = ...,
    sort: bool = ...,
    index: Names = ...,
    index_sort: Names = ...,
    ttl: bool = ...,
    version: bool = ...,
    null: bool = ...,
    format: str | None = ...,
) -> Attr[T]: ...
@overload
def attr(
    *,
    default_factory: Callable[[], T],
    name: str | None = ...,
    rest: bool = ...,
    index: Names = ...,
    index_sort: Names = ...,
    null: bool = ...,
    format: str | None = ...,
) -> Attr[T]: ...
@overload
def attr(
    *,
    name: str | None = ...,
    key: bool = ...,
    sort: bool = ...,
    index: Names = ...,
    index_sort: Names = ...,
    ttl: bool = ...,
    version: bool = ...,
    rest: bool = ...,
    null: bool = ...,
    format: str | None = ...,
) -> Attr[Any]: ...
def attr(
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    name: str | None = None,
    key: bool = False,
    sort: bool = False,
    index: Names = (),
    index_sort: Names = (),
    ttl: bool = False,
    version: bool = False,
    rest: bool = False,
    null: bool = False,
    format: str | None = None,
) -> Any:
    """What an attribute is beside its type: a default in a class of `@item`, or in `Annotated[str, attr(key=True)]`.

    `key` and `sort` are the table's key; `index` and `index_sort` name the indexes that it is a key of. `ttl` says when
    the item expires, `version` counts its writes. `rest` keeps the attributes that the class does not have. `name` is
    the attribute's name in DynamoDB. `null` stores None as NULL. `format` is "epoch", "epoch_ms" or a text for
    strftime (of dates), "json", or "base64" (of bytes).
    """
    return AttrOptions(
        name=name,
        key=key,
        sort=sort,
        index=(index,) if isinstance(index, str) else tuple(index),
        index_sort=(index_sort,) if isinstance(index_sort, str) else tuple(index_sort),
        ttl=ttl,
        version=version,
        rest=rest,
        null=null,
        format=format,
        default=default,
        default_factory=default_factory,
    )
