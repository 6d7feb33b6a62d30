"""Whatever ranges a SELECT reads, it finds the items for which its WHERE holds, each once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partiql_tables import table

import penstock
from penstock.errors import ValidationException
from penstock.expressions.partiql.parser import parse
from penstock.expressions.partiql.translation import Translator

LETTERS = st.sampled_from("abc")
terms = st.one_of(
    st.builds(lambda v: f"pk = '{v}'", LETTERS),
    st.builds(lambda v, w: f"pk IN ['{v}', '{w}']", LETTERS, LETTERS),
    st.builds(lambda op, v: f"sk {op} '{v}'", st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]), LETTERS),
    st.builds(lambda v, w: f"sk BETWEEN '{min(v, w)}' AND '{max(v, w)}'", LETTERS, LETTERS),
    st.builds(lambda v: f"begins_with(sk, '{v}')", LETTERS),
    st.builds(lambda v: f"x = '{v}'", LETTERS),
    st.builds(lambda v: f"'{v}' <= x", LETTERS),
)
wheres = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.builds(lambda one, two: f"{one} AND {two}", inner, inner),
        st.builds(lambda one, two: f"{one} OR {two}", inner, inner),
        st.builds(lambda one, two: f"({one} OR {two})", inner, inner),
        st.builds(lambda one: f"NOT ({one})", inner),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def db():
    with penstock.connect() as database:
        request = table("two", sort="S")
        request["AttributeDefinitions"].append({"AttributeName": "x", "AttributeType": "S"})
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": "swapped",
                "KeySchema": [
                    {"AttributeName": "sk", "KeyType": "HASH"},
                    {"AttributeName": "x", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ]
        database.execute("CreateTable", request)
        for pk in "abc":
            for sk in ("a", "ab", "b", "c", "ca"):
                item = {"pk": {"S": pk}, "sk": {"S": sk}, "x": {"S": "abc"[(ord(pk) + len(sk)) % 3]}}
                database.execute("PutItem", {"TableName": "two", "Item": item})
        yield database


@settings(max_examples=300, deadline=None)
@given(wheres, st.sampled_from(['"two"', '"two"."swapped"']), st.integers(1, 20))
def test_a_select_finds_what_its_where_holds_for(db, where, source, limit):
    statement = f"SELECT * FROM {source} WHERE {where}"
    holds = Translator([]).predicate(parse(statement).statement.where)
    wanted = [item for item in db.execute("Scan", {"TableName": "two"})["Items"] if holds(item)]
    found, token = [], {}
    while True:
        try:
            answer = db.execute("ExecuteStatement", {"Statement": statement, "Limit": limit, **token})
        except ValidationException as error:
            assert "Overlapping conditions" in error.message
            return
        found += answer["Items"]
        if "NextToken" not in answer:
            break
        token = {"NextToken": answer["NextToken"]}
    order = sorted(wanted, key=repr)
    assert sorted(found, key=repr) == order
