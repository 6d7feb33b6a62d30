"""ORDER BY, Limit and NextToken."""

from __future__ import annotations

import pytest

from penstock.errors import ValidationException


@pytest.fixture
def rows(sql):
    for pk in "op":
        for sk in "123":
            sql.put("two", pk={"S": pk}, sk={"S": sk})
    return sql


def found(items):
    return [f"{item['pk']['S']}{item['sk']['S']}" for item in items]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("pk = 'o' ORDER BY sk DESC", ["o3", "o2", "o1"]),
        ("pk = 'o' ORDER BY sk", ["o1", "o2", "o3"]),
        ("pk = 'o' ORDER BY sk ASC", ["o1", "o2", "o3"]),
        # Where only the partition key is named, DynamoDB reads each partition from its end.
        ("pk = 'o' ORDER BY pk ASC", ["o3", "o2", "o1"]),
        ("pk IN ['o', 'p'] ORDER BY pk DESC, sk ASC", ["p1", "p2", "p3", "o1", "o2", "o3"]),
    ],
)
def test_order_by_the_key(rows, where, expected):
    assert found(rows.items(f"SELECT * FROM two WHERE {where}")) == expected


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("ORDER BY sk", "Must have WHERE clause in the statement when using ORDER BY clause."),
        (
            "WHERE pk = 'o' ORDER BY Total DESC",
            "Attribute Total in ORDER BY clause must be part of the primary key",
        ),
        (
            "WHERE pk > 'a' ORDER BY sk",
            "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause.",
        ),
        (
            "WHERE pk IN ['o', 'p'] ORDER BY sk DESC",
            "Must have hash key in ORDER BY clause when more than one hash key condition specified in WHERE clause.",
        ),
    ],
)
def test_an_order_that_no_key_has_is_refused(rows, tail, message):
    assert rows.refusal(f"SELECT sk FROM two {tail}") == message


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM two",
        "SELECT pk, sk FROM two WHERE pk = 'o'",
        "SELECT * FROM two WHERE pk IN ['o', 'p'] ORDER BY pk DESC",
        "SELECT * FROM two WHERE pk IN ['o', 'p'] AND sk <> '2'",
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_pages_follow_on_and_hold_everything_once(rows, statement, limit):
    pages, token = [], {}
    for _ in range(20):
        answer = rows.run(statement, Limit=limit, **token)
        assert len(answer["Items"]) <= limit
        pages += found(answer["Items"])
        if "NextToken" not in answer:
            break
        token = {"NextToken": answer["NextToken"]}
    assert pages == found(rows.items(statement))


def test_limit_counts_what_is_read(rows):
    answer = rows.run("SELECT * FROM two WHERE pk = 'o' AND sk <> '1'", Limit=1)
    assert answer["Items"] == []
    assert "NextToken" in answer
    keyed = rows.run("SELECT * FROM two WHERE pk = 'o' AND sk > '1'", Limit=1)
    assert found(keyed["Items"]) == ["o2"]


def test_a_token_is_good_for_its_own_statement_only(rows):
    token = rows.run("SELECT * FROM two WHERE pk = ?", {"S": "o"}, Limit=1)["NextToken"]
    mismatch = "NextToken does not match request"
    assert rows.refusal("SELECT * FROM two WHERE pk = ?", {"S": "p"}, NextToken=token) == mismatch
    assert rows.refusal("SELECT * FROM two", NextToken=token) == mismatch
    for bad in ("garbage", "AAAA", "W10=", token[:-8], "é"):
        assert rows.refusal("SELECT * FROM two WHERE pk = ?", {"S": "o"}, NextToken=bad) == "Invalid NextToken"


def test_a_limit_of_nothing_is_refused(rows):
    with pytest.raises(ValidationException, match="greater than or equal to 1"):
        rows.run("SELECT * FROM two", Limit=0)


def test_a_page_ends_at_one_megabyte(sql):
    for number in range(5):
        sql.put("two", pk={"S": "big"}, sk={"S": str(number)}, x={"S": "x" * 300_000})
    answer = sql.run("SELECT sk FROM two WHERE pk = 'big'")
    assert len(answer["Items"]) == 4
    assert answer["LastEvaluatedKey"] == {"pk": {"S": "big"}, "sk": {"S": "3"}}
    rest = sql.run("SELECT sk FROM two WHERE pk = 'big'", NextToken=answer["NextToken"])
    assert len(rest["Items"]) == 1


def test_what_is_read_is_charged(rows):
    def units(statement, **more):
        return rows.run(statement, ReturnConsumedCapacity="TOTAL", **more)["ConsumedCapacity"]["CapacityUnits"]

    assert units("SELECT * FROM two WHERE pk = 'o' AND sk = '1'") == 0.5
    assert units("SELECT * FROM two WHERE pk = 'o' AND sk = '1'", ConsistentRead=True) == 1.0
    assert units("SELECT sk FROM two WHERE absent = 'x'") == 0.5
    assert units("INSERT INTO two VALUE {'pk': 'n', 'sk': '1'}") == 1.0
    assert units("DELETE FROM two WHERE pk = 'n' AND sk = '1'") == 1.0
