"""SearchVectors: scores, orders, filters, projections, and the words of refusals."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from vector_tables import found, keys, numbers, put, search, vector, vector_index, vector_table

from penstock.engine import Engine
from penstock.engine.catalog import row_keys
from penstock.engine.operations import vector_search
from penstock.engine.vectors import matrix
from penstock.errors import DynamoDBError, ResourceNotFoundException, SerializationException, ValidationException

FIXTURE = {"a": (1, 0, 0), "b": (0, 1, 0), "c": (-1, 0, 0), "d": (0.6, 0.8, 0)}
FUNCTIONS = ("COSINE", "EUCLIDEAN", "DOT_PRODUCT")


def fround(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


@pytest.fixture
def filled(engine: Engine) -> Engine:
    engine.execute("CreateTable", vector_table("things", *(vector_index(one, function=one) for one in FUNCTIONS)))
    for pk, values in FIXTURE.items():
        put(engine, "things", pk, *values, label={"S": f"item-{pk}"})
    return engine


@pytest.fixture
def chosen(engine: Engine) -> Engine:
    """A plain index, and one with a HASH and an inline filter."""
    schema = vector_index("schema", hash_="tenant", filters=["category"])
    engine.execute("CreateTable", vector_table("things", vector_index("plain"), schema))
    put(engine, "things", "a", 1, 0, 0, tenant={"S": "t1"}, category={"S": "c1"})
    put(engine, "things", "b", 0, 1, 0, tenant={"S": "t1"}, category={"S": "c2"})
    put(engine, "things", "no filter", 0, 0, 1, tenant={"S": "t1"})
    put(engine, "things", "other", 1, 0, 0, tenant={"S": "t2"}, category={"S": "c1"})
    put(engine, "things", "no tenant", 1, 0, 0, category={"S": "c1"})
    return engine


@pytest.mark.parametrize(
    ("function", "scores"),
    [
        ("COSINE", {"a": 0, "d": fround(0.4), "b": 1, "c": 2}),
        ("EUCLIDEAN", {"a": 0, "d": fround(math.sqrt(0.8)), "b": fround(math.sqrt(2)), "c": 2}),
        ("DOT_PRODUCT", {"a": 1, "d": fround(0.6), "b": 0, "c": -1}),
    ],
)
def test_scores_are_rounded_to_32_bits_and_the_nearest_come_first(
    filled: Engine, function: str, scores: dict[str, float]
) -> None:
    results = search(filled, "things", 1, 0, 0, index=function)["SearchResults"]
    assert keys(results) == list(scores)
    for one, expected in zip(results, scores.values(), strict=True):
        assert one["Score"] == pytest.approx(expected, abs=1e-6)
        assert one["Score"] == fround(one["Score"])


@pytest.mark.parametrize("function", ["EUCLIDEAN", "DOT_PRODUCT"])
def test_a_score_beyond_32_bits_is_the_largest_number_and_not_null(engine: Engine, function: str) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index(function=function)))
    put(engine, "things", "far", "-3e38", 0, 0)
    (one,) = search(engine, "things", "3e38", 0, 0)["SearchResults"]
    assert one["Score"] == math.copysign(2.0**128 - 2.0**104, 1 if function == "EUCLIDEAN" else -1)


def test_top_k_bounds_the_answer_and_there_are_no_pages(filled: Engine) -> None:
    assert found(filled, "things", 1, 0, 0, index="COSINE", top=2) == ["a", "d"]
    answer = search(filled, "things", 1, 0, 0, index="COSINE", top=100)
    assert answer.keys() == {"SearchResults"} and len(answer["SearchResults"]) == 4


def test_equal_scores_are_in_the_order_of_keys(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index()))
    for pk in ("m", "z", "b", "a"):
        put(engine, "things", pk, 1, 1, 0)
    put(engine, "things", "nearer", 1, 0, 0)
    first = found(engine, "things", 1, 0, 0, top=5)
    assert first[0] == "nearer"
    assert found(engine, "things", 1, 0, 0, top=3) == first[:3]
    assert set(first) == {"nearer", "m", "z", "b", "a"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_of_many_equal_vectors_only_the_items_that_are_answered_are_read(
    engine: Engine, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger may store one vector a million times, beside items of 400 KB."""
    engine.execute("CreateTable", vector_table("same", vector_index(function=function)))
    for start in range(0, 1250, 25):
        puts = [
            {"PutRequest": {"Item": {"pk": {"S": f"k{at:05}"}, "embedding": vector(1, 2, 3)}}}
            for at in range(start, start + 25)
        ]
        engine.execute("BatchWriteItem", {"RequestItems": {"same": puts}})
    engine.execute("PutItem", {"TableName": "same", "Item": {"pk": {"S": "far"}, "embedding": vector(-3, 2, -1)}})
    sizes: list[int] = []
    read = vector_search._read

    def note(context: Any, table: Any, index: Any, keys: list[bytes]) -> Any:
        sizes.append(len(keys))
        return read(context, table, index, keys)

    monkeypatch.setattr(vector_search, "_read", note)
    everything = sorted((row_keys.text_keys(f"k{at:05}", "")[0], f"k{at:05}") for at in range(1250))
    assert found(engine, "same", 1, 2, 3, top=3) == [pk for _, pk in everything[:3]]
    assert sizes == [3]


def test_the_vector_is_left_out_unless_it_is_asked_for(filled: Engine) -> None:
    (one,) = search(filled, "things", 1, 0, 0, index="COSINE", top=1)["SearchResults"]
    assert one["Item"] == {"pk": {"S": "a"}, "label": {"S": "item-a"}}
    (one,) = search(filled, "things", 1, 0, 0, index="COSINE", top=1, ProjectionExpression="pk, embedding, nothing")[
        "SearchResults"
    ]
    assert one["Item"] == {"pk": {"S": "a"}, "embedding": vector("1.0", "0.0", "0.0")}


def test_the_table_keeps_numbers_as_sent_and_the_index_32_bits(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index()))
    precise = ("0.1", "16777217", "1.000000059604644775390625")
    put(engine, "things", "f32", *precise)
    got = engine.execute("GetItem", {"TableName": "things", "Key": {"pk": {"S": "f32"}}})
    assert got["Item"]["embedding"] == vector(*precise)
    (one,) = search(engine, "things", *precise, ProjectionExpression="embedding")["SearchResults"]
    assert one["Item"]["embedding"] == vector("0.1", "16777216.0", "1.0")


@pytest.mark.parametrize(
    ("projection", "include", "names"),
    [
        ("ALL", (), {"pk", "kind", "title", "rest"}),
        ("KEYS_ONLY", (), {"pk", "kind"}),
        ("INCLUDE", ("title",), {"pk", "kind", "title"}),
    ],
)
def test_an_index_answers_what_it_projects(
    engine: Engine, projection: str, include: tuple[str, ...], names: set[str]
) -> None:
    index = vector_index(projection=projection, include=include, filters=["kind"])
    engine.execute("CreateTable", vector_table("things", index))
    put(engine, "things", "a", 1, 0, 0, kind={"S": "k"}, title={"S": "t"}, rest={"S": "r"})
    (one,) = search(engine, "things", 1, 0, 0)["SearchResults"]
    assert one["Item"].keys() == names
    (one,) = search(engine, "things", 1, 0, 0, ProjectionExpression="pk, title, rest")["SearchResults"]
    assert one["Item"].keys() == names & {"pk", "title", "rest"}


def _where(text: str, **values: str) -> dict[str, Any]:
    return {
        "SearchConditionExpression": text,
        "ExpressionAttributeValues": {f":{name}": {"S": value} for name, value in values.items()},
    }


def test_a_search_sees_one_partition_and_filters_inside_it(chosen: Engine) -> None:
    where = _where("tenant = :t", t="t1")
    assert found(chosen, "things", 1, 0, 0, index="schema", **where) == ["a", "b", "no filter"]
    where = _where("category = :c AND :t = tenant", t="t1", c="c2")
    assert found(chosen, "things", 1, 0, 0, index="schema", **where) == ["b"]
    assert found(chosen, "things", 1, 0, 0, index="schema", **_where("tenant = :t", t="nobody")) == []
    assert set(found(chosen, "things", 1, 0, 0, index="plain")) == {"a", "b", "no filter", "other", "no tenant"}


def test_numbers_are_compared_as_numbers_in_a_filter(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index(filters=["year"]), kinds={"year": "N"}))
    put(engine, "things", "a", 1, 0, 0, year={"N": "2026"})
    put(engine, "things", "b", 1, 0, 0, year={"N": "2025"})
    values = {"ExpressionAttributeValues": {":y": {"N": "2026.0"}}}
    assert found(engine, "things", 1, 0, 0, SearchConditionExpression="#y = :y", **values, **_NAMES) == ["a"]


_NAMES = {"ExpressionAttributeNames": {"#y": "year"}}


REFUSED = [
    (
        {"TopK": 101},
        "Provided TopK value '101' is out of valid range. The value must be between 1 and 100 inclusive",
    ),
    ({"IndexName": "schema"}, "SearchConditionExpression must be provided when SearchSchema has a HASH key"),
    (
        {"IndexName": "schema", **_where("tenant < :t", t="t9")},
        "Invalid SearchConditionExpression: Invalid comparator used in SearchConditionExpression",
    ),
    (
        {"IndexName": "schema", **_where("tenant = :t AND category < :c", t="t1", c="c9")},
        "Invalid SearchConditionExpression: Invalid comparator used in SearchConditionExpression",
    ),
    (
        {"IndexName": "schema", **_where("tenant = :t AND tenant = :t", t="t1")},
        "Invalid SearchConditionExpression: SearchConditionExpression must only contain one condition per attribute",
    ),
    (
        {"IndexName": "schema", **_where("tenant.part = :t", t="t1")},
        "Invalid SearchConditionExpression: SearchConditionExpression cannot have conditions on nested attributes",
    ),
    (
        {"SearchVector": numbers(1, 0)},
        "Input search vector dimension 2 does not match vector index dimension 3",
    ),
    (
        _where("tenant = :t", t="t1"),
        "SearchConditionExpression must not contain any attributes that is not in SearchSchema. "
        "Invalid attribute: tenant",
    ),
    (
        {
            "IndexName": "schema",
            "SearchConditionExpression": "tenant = :t",
            "ExpressionAttributeValues": {":t": {"N": "1"}},
        },
        "Type of 'tenant' attribute in SearchConditionExpression (N) does not match type in search schema (S)",
    ),
    *(
        (
            {"SearchVector": wrong},
            "Search vector contains invalid values. All values in the search vector must be a 32-bit floating-point "
            "number attribute",
        )
        for wrong in ([{"L": numbers(1, 0, 0)}], [{"S": "1"}] * 3, numbers("1e39", 0, 0), numbers("x", 0, 0))
    ),
    ({"IndexName": "nowhere"}, "The table does not have the specified index: nowhere"),
]


@pytest.mark.parametrize(("more", "message"), REFUSED)
def test_a_wrong_search_is_refused_in_dynamodbs_words(chosen: Engine, more: dict[str, Any], message: str) -> None:
    request = {"TableName": "things", "IndexName": "plain", "SearchVector": numbers(1, 0, 0), "TopK": 1}
    with pytest.raises(ValidationException) as caught:
        chosen.execute("SearchVectors", request | more)
    assert caught.value.message == message


def test_the_requests_shape_is_read_strictly(engine: Engine) -> None:
    valid = {"TableName": "absent", "IndexName": "vix", "SearchVector": numbers(1), "TopK": 1}
    expected = {"IndexName": "a string", "TableName": "a string", "SearchVector": "a sequence", "TopK": "i32"}
    for member, kind in expected.items():
        with pytest.raises(
            SerializationException, match=rf"^invalid type: null, expected {kind} at line 1 column \d+$"
        ):
            engine.execute("SearchVectors", valid | {member: None})
    without = {name: value for name, value in valid.items() if name != "TableName"} | {"IndexName": "ab"}
    with pytest.raises(ValidationException, match=r"^missing field `TableName` at line 1 column \d+$"):
        engine.execute("SearchVectors", without)
    with pytest.raises(ValidationException, match="greater than or equal to 1"):
        engine.execute("SearchVectors", valid | {"TopK": 0})
    with pytest.raises(ResourceNotFoundException) as caught:
        engine.execute("SearchVectors", valid)
    assert caught.value.message == "Requested resource not found"


@pytest.mark.parametrize(
    ("operation", "request_", "message"),
    [
        ("Scan", {"TableName": "things", "IndexName": "plain"}, "Scan operation not supported on this index type"),
        (
            "Query",
            {
                "TableName": "things",
                "IndexName": "plain",
                "KeyConditionExpression": "pk = :p",
                "ExpressionAttributeValues": {":p": {"S": "a"}},
            },
            "Query operation not supported on this index type.",
        ),
        (
            "ExecuteStatement",
            {"Statement": 'SELECT * FROM "things"."plain"'},
            "Scan operation not supported on this index type",
        ),
    ],
)
def test_other_reads_of_a_vector_index_are_refused(
    chosen: Engine, operation: str, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationException) as caught:
        chosen.execute(operation, request_)
    assert caught.value.message == message


def test_the_capacity_of_a_search_is_bytes_alone(filled: Engine) -> None:
    told = [
        search(filled, "things", 1, 0, 0, index="COSINE", ReturnConsumedCapacity=mode).get("ConsumedCapacity")
        for mode in ("TOTAL", "INDEXES", "NONE")
    ]
    assert told[0] == told[1] and told[2] is None
    assert told[0].keys() == {"VectorSearchRequestBytes"} and told[0]["VectorSearchRequestBytes"] > 0


def test_an_item_without_a_direction_is_at_right_angles_to_all(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index()))
    put(engine, "things", "zero", 0, 0, 0)
    put(engine, "things", "same", 2, 0, 0)
    assert [one["Score"] for one in search(engine, "things", 1, 0, 0)["SearchResults"]] == [0.0, 1.0]
    assert [one["Score"] for one in search(engine, "things", 0, 0, 0)["SearchResults"]] == [1.0, 1.0]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("numpy", [True, False])
def test_a_search_finds_exactly_the_nearest(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, function: str, numpy: bool
) -> None:
    """Against every score computed one by one; many are near to each other, some huge or tiny."""
    if not numpy:
        monkeypatch.setattr(matrix, "np", None)
    chance = random.Random(f"{function}{numpy}")
    engine.execute("CreateTable", vector_table("things", vector_index(function=function, dimensions=5)))
    rows: dict[str, list[float]] = {}
    for number in range(120):
        scale = chance.choice([1, 1, 1, 1e-30, 1e18])
        rows[f"k{number:03}"] = [fround(chance.gauss(0, 1) * scale) for _ in range(5)]
    rows["twin"] = rows["k000"]
    for pk, values in rows.items():
        put(engine, "things", pk, *values)
    for _ in range(20):
        query = [fround(chance.gauss(0, 1)) for _ in range(5)]
        scores = {pk: _score(function, values, query) for pk, values in rows.items()}
        got = search(engine, "things", *query, top=7)["SearchResults"]
        assert [one["Score"] for one in got] == sorted(scores.values(), reverse=function == "DOT_PRODUCT")[:7]
        assert all(scores[one["Item"]["pk"]["S"]] == one["Score"] for one in got)


def _score(function: str, one: list[float], other: list[float]) -> float:
    if function == "EUCLIDEAN":
        return fround(math.sqrt(math.fsum((a - b) * (a - b) for a, b in zip(one, other, strict=True))))
    dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
    if function == "DOT_PRODUCT":
        return fround(dot)
    lengths = [math.sqrt(math.fsum(a * a for a in vector)) for vector in (one, other)]
    return fround(1.0 - max(-1.0, min(1.0, dot / lengths[0] / lengths[1])))


def test_an_answer_has_16_mb_at_the_most(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index()))
    for number in range(50):
        put(engine, "things", f"k{number:02}", 1, 0, 0, text={"S": "x" * 390_000})
    got = search(engine, "things", 1, 0, 0, top=100)["SearchResults"]
    assert 40 <= len(got) < 50


def test_errors_of_a_search_leave_it_working(filled: Engine) -> None:
    with pytest.raises(DynamoDBError):
        search(filled, "things", 1, index="COSINE")
    assert found(filled, "things", 1, 0, 0, index="COSINE", top=1) == ["a"]
