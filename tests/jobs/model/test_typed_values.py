"""Typed values: what is stored is plain JSON, and comes back equal and of the same type (typed_values.py)."""

from __future__ import annotations

import enum
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.jobs.model.job import BadJob
from penstock.jobs.model.json_text import NotJson, from_json, to_json
from penstock.jobs.model.typed_values import converter_of, returned_type

pydantic = pytest.importorskip("pydantic")
BERLIN = ZoneInfo("Europe/Berlin")
T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1


class Corner(enum.Enum):
    """Its values are no JSON: it is stored by name."""

    LEFT = (0, 0)


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Item:
    sku: str
    price: Decimal
    color: Color | None = None


@dataclass
class Order:
    id: UUID
    items: list[Item]
    placed_at: datetime
    notes: dict[date, set[str]] = field(default_factory=dict)
    photo: bytes = b""


@dataclass
class Page(Generic[T]):
    rows: list[T]
    next: int | None = None


@dataclass
class Tree:
    at: date
    children: list[Tree] = field(default_factory=list)


@dataclass
class Card:
    kind: Literal["card"]
    number: int


@dataclass
class Transfer:
    kind: Literal["transfer"]
    number: int


class Point(NamedTuple):
    at: datetime
    height: float = 0.0


class Row(TypedDict):
    name: str
    paid: NotRequired[Decimal]


class Parcel(pydantic.BaseModel):  # type: ignore[name-defined,misc]
    id: UUID
    sent_at: datetime
    sizes: tuple[int, int]
    ref: Annotated[str, pydantic.Field(alias="reference")]


ORDER_ID = UUID("00000000-0000-0000-0000-00000000002a")
Cents = NewType("Cents", Decimal)

CASES: list[tuple[Any, Any, Any]] = [
    (datetime, datetime(2026, 11, 18, 6, 30, tzinfo=UTC), "2026-11-18T06:30:00+00:00"),
    (datetime, datetime(2026, 11, 18, 6, 30, 0, 7), "2026-11-18T06:30:00.000007"),
    (datetime, datetime(2026, 7, 1, 9, tzinfo=BERLIN), "2026-07-01T09:00:00+02:00[Europe/Berlin]"),
    (datetime, datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))), "2026-01-01T00:00:00+05:45"),
    (date, date(2026, 2, 28), "2026-02-28"),
    (time, time(6, 30), "06:30:00"),
    (time, time(6, 30, tzinfo=BERLIN), "06:30:00[Europe/Berlin]"),
    (timedelta, timedelta(days=3, hours=4, microseconds=5), "P3DT4H0M0.000005S"),
    (timedelta, timedelta(seconds=-1), "-P0DT0H0M1S"),
    (Decimal, Decimal("0.10"), "0.10"),
    (UUID, ORDER_ID, str(ORDER_ID)),
    (bytes, b"\x00\xff", "AP8="),
    (Path, Path("a/b"), "a/b"),
    (Color, Color.RED, "red"),
    (Size, Size.SMALL, 1),
    (Corner, Corner.LEFT, "LEFT"),
    (Right, Right.READ | Right.WRITE, 3),
    (tuple[int, str], (1, "a"), [1, "a"]),
    (tuple[Decimal, ...], (Decimal("1"), Decimal("2")), ["1", "2"]),
    (tuple, (1, 2), [1, 2]),
    (set[str], {"b", "a"}, ["a", "b"]),
    (frozenset[Color], frozenset(Color), ["blue", "red"]),
    (dict[int, Color], {7: Color.RED}, {"7": "red"}),
    (dict[UUID, int], {ORDER_ID: 1}, {str(ORDER_ID): 1}),
    (Optional[date], None, None),  # noqa: UP045
    (Union[date, None], date(2026, 1, 1), "2026-01-01"),  # noqa: UP007
    (date | int, 7, 7),
    (Card | Transfer, Transfer("transfer", 3), {"kind": "transfer", "number": 3}),
    (list[Card] | list[Transfer], [Transfer("transfer", 3)], [{"kind": "transfer", "number": 3}]),
    (Item, Item("x", Decimal("9.90")), {"sku": "x", "price": "9.90", "color": None}),
    (Page[Item], Page([Item("x", Decimal(1))]), {"rows": [{"sku": "x", "price": "1", "color": None}], "next": None}),
    (
        Tree,
        Tree(date(2026, 1, 1), [Tree(date(2026, 1, 2))]),
        {"at": "2026-01-01", "children": [{"at": "2026-01-02", "children": []}]},
    ),
    (Point, Point(datetime(2026, 1, 1), 2.5), ["2026-01-01T00:00:00", 2.5]),
    (Row, {"name": "a", "paid": Decimal("1.5")}, {"name": "a", "paid": "1.5"}),
    (Annotated[Decimal, "cents"], Decimal(3), "3"),
    (Cents, Decimal(3), "3"),
    (
        Order,
        Order(ORDER_ID, [Item("x", Decimal("1.0"), Color.BLUE)], datetime(2026, 1, 1), {date(2026, 1, 1): {"a"}}, b"x"),
        {
            "id": str(ORDER_ID),
            "items": [{"sku": "x", "price": "1.0", "color": "blue"}],
            "placed_at": "2026-01-01T00:00:00",
            "notes": {"2026-01-01": ["a"]},
            "photo": "eA==",
        },
    ),
    (
        list[Parcel],
        [Parcel(id=ORDER_ID, sent_at=datetime(2026, 1, 1, tzinfo=UTC), sizes=(1, 2), reference="r")],
        [{"id": str(ORDER_ID), "sent_at": "2026-01-01T00:00:00Z", "sizes": [1, 2], "reference": "r"}],
    ),
]


def stored(annotation: Any, value: Any) -> str:
    converter = converter_of(annotation)
    assert converter is not None
    return to_json(converter.to_plain(value, "args.x"), "args.x")


def read(annotation: Any, text: str) -> Any:
    converter = converter_of(annotation)
    assert converter is not None
    return converter.from_plain(from_json(text), "args.x")


@pytest.mark.parametrize(("annotation", "value", "plain"), CASES, ids=[str(case[0])[:40] for case in CASES])
def test_a_value_is_stored_as_plain_json_and_comes_back(annotation: Any, value: Any, plain: Any) -> None:
    text = stored(annotation, value)
    assert from_json(text) == plain
    back = read(annotation, text)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        int,
        float,
        bool,
        None,
        Any,
        dict,
        list,
        dict[str, Any],
        list[int],
        int | None,
        Literal["a"],
        str | int,
        object,
    ],
)
def test_what_json_has_needs_no_converter(annotation: Any) -> None:
    assert converter_of(annotation) is None


@settings(max_examples=50, deadline=None)
@given(st.timedeltas())
def test_every_duration_comes_back(value: timedelta) -> None:
    assert read(timedelta, stored(timedelta, value)) == value


@settings(max_examples=50, deadline=None)
@given(
    st.datetimes(timezones=st.sampled_from([None, UTC, BERLIN, ZoneInfo("America/New_York")]), allow_imaginary=False)
)
def test_every_moment_comes_back(value: datetime) -> None:
    if value.fold and value.tzinfo is None:
        value = value.replace(fold=0)
    back = read(datetime, stored(datetime, value))
    assert (back, back.tzinfo, back.utcoffset()) == (value, value.tzinfo, value.utcoffset())


@settings(max_examples=50, deadline=None)
@given(st.decimals(allow_nan=False), st.uuids(), st.binary(max_size=100), st.dates(), st.times())
def test_every_leaf_comes_back(number: Decimal, key: UUID, data: bytes, day: date, at: time) -> None:
    value = (number, key, data, day, at.replace(fold=0))
    annotation = tuple[Decimal, UUID, bytes, date, time]
    back = read(annotation, stored(annotation, value))
    assert back == value
    assert str(back[0]) == str(number)


def test_a_refusal_names_the_path() -> None:
    order = Order(ORDER_ID, [Item("x", Decimal(1)), Item("y", 2.5)], datetime(2026, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(NotJson, match=r"^args\.x\.items\[1\]\.price is a float, where a Decimal is annotated"):
        stored(Order, order)


def test_a_subclass_would_come_back_as_another_type() -> None:
    class Special(Card):
        pass

    with pytest.raises(NotJson, match="is a Special, where a Card is annotated"):
        stored(Card, Special("card", 1))
    with pytest.raises(NotJson, match="is a datetime, where a date is annotated"):
        stored(date, datetime(2026, 1, 1))


def test_types_that_their_json_does_not_tell_apart_are_refused() -> None:
    with pytest.raises(NotJson, match="would come back as date"):
        stored(date | str, "2026-01-01")
    assert read(date | str, stored(date | str, "hello")) == "hello"


def test_missing_fields_take_their_defaults_and_unknown_ones_are_refused() -> None:
    older = {"id": str(ORDER_ID), "items": [], "placed_at": "2026-01-01T00:00:00"}
    assert read(Order, to_json(older, "x")) == Order(ORDER_ID, [], datetime(2026, 1, 1))
    with pytest.raises(NotJson, match="has the field 'discount', which Order does not have"):
        read(Order, to_json({**older, "discount": 1}, "x"))
    with pytest.raises(NotJson, match=r"args\.x has no items, which Order needs"):
        read(Order, to_json({"id": str(ORDER_ID), "placed_at": "2026-01-01T00:00:00"}, "x"))


def test_a_named_tuple_that_grew_takes_its_defaults() -> None:
    assert read(Point, '["2026-01-01T00:00:00"]') == Point(datetime(2026, 1, 1))


@pytest.mark.parametrize(
    ("annotation", "text", "reason"),
    [
        (datetime, '"soon"', "is a text that is no datetime"),
        (datetime, "7", "is a int, where a datetime is annotated"),
        (Decimal, '"x"', "is a text that is no Decimal"),
        (bytes, '"*"', "is a text that is no bytes"),
        (Color, '"green"', "is no Color"),
        (tuple[int, int], "[1]", "is a list of 1, where a tuple of 2"),
        (Item, "[]", "is a list, where a Item"),
        (Parcel, "{}", "is refused by Parcel: Field required"),
    ],
)
def test_what_is_stored_otherwise_is_refused(annotation: Any, text: str, reason: str) -> None:
    with pytest.raises(NotJson, match=reason):
        read(annotation, text)


def test_a_value_that_holds_itself_is_refused() -> None:
    tree = Tree(date(2026, 1, 1))
    tree.children.append(tree)
    with pytest.raises(NotJson, match="nested too deeply, or holds itself"):
        stored(Tree, tree)


def test_a_dataclass_whose_json_does_not_hold_all_of_it_is_refused() -> None:
    @dataclass
    class Counter:
        start: int
        count: int = field(init=False, default=0)

    assert read(Counter, stored(Counter, Counter(1))) == Counter(1)
    used = Counter(1)
    used.count = 5
    with pytest.raises(NotJson, match="would come back as another Counter"):
        stored(Counter, used)


def test_a_model_whose_json_does_not_hold_all_of_it_is_refused() -> None:
    class Hidden(pydantic.BaseModel):  # type: ignore[name-defined,misc]
        name: str
        token: str = pydantic.Field("", exclude=True)

    assert read(Hidden, stored(Hidden, Hidden(name="a"))) == Hidden(name="a")
    with pytest.raises(NotJson, match="would come back as another Hidden"):
        stored(Hidden, Hidden(name="a", token="x"))


def test_an_init_var_and_keys_that_are_no_text_are_refused_early() -> None:
    @dataclass
    class Seeded:
        seed: InitVar[int]

    with pytest.raises(BadJob, match=r"Seeded\.seed is an InitVar"):
        converter_of(Seeded)
    with pytest.raises(BadJob, match="The keys of a dict are text"):
        converter_of(dict[tuple[int, int], str])


def test_the_fold_of_an_hour_that_is_repeated_comes_back() -> None:
    second = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    back = read(datetime, stored(datetime, second))
    assert (back.fold, back.utcoffset()) == (1, timedelta(hours=1))
    with pytest.raises(NotJson, match="has a fold"):
        stored(datetime, datetime(2026, 10, 25, 2, 30, fold=1))


def test_the_type_of_a_step_is_what_its_function_returns() -> None:
    def load() -> Item: ...

    found = returned_type(load)
    assert found is not None and found.name == "Item"
    assert returned_type(lambda: 1) is None
