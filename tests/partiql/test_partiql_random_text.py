"""Whatever the statement is: an answer or one of DynamoDB's errors, in time, and no change after an error."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partiql_tables import table

import penstock
from penstock.errors import DynamoDBError
from penstock.expressions.partiql.parser import parse
from penstock.expressions.partiql.tokens import KEYWORDS

WORDS = [
    *sorted(KEYWORDS),
    *("one", "pk", "sk", "a", '"b"', "m.x", "l[0]", "attribute_exists", "begins_with", "set_add", "list_append"),
    *("'text'", "''", "1", "-2.5e3", ".5", "?", "true", "<<", ">>", "<", ">", "<=", "=", "<>", "!=", "||"),
    *("(", ")", "[", "]", "{", "}", ",", ".", ":", ";", "*", "+", "-", "/", "--", "/*", "*/", "'", '"', "#", "\n"),
]
STARTS = [
    "SELECT * FROM one WHERE ",
    "SELECT ",
    "INSERT INTO one VALUE {'pk': 'a', ",
    "UPDATE one SET ",
    "DELETE FROM one WHERE pk = 'a' AND ",
    "FROM one WHERE pk = 'a' ",
    "EXISTS(SELECT * FROM one WHERE ",
    "",
]
statements = st.one_of(
    st.text(max_size=60),
    st.builds(
        lambda start, words: start + " ".join(words),
        st.sampled_from(STARTS),
        st.lists(st.sampled_from(WORDS), max_size=14),
    ),
)
values = st.recursive(
    st.one_of(
        st.builds(lambda text: {"S": text}, st.text(max_size=4)),
        st.builds(lambda text: {"N": text}, st.sampled_from(["1", "-0", "1e5", "x", "1e999999999999", ""])),
        st.sampled_from([{"BOOL": True}, {"NULL": True}, {"SS": ["a"]}, {"NS": []}, {"B": "AQ=="}, {"B": "!"}]),
    ),
    lambda inner: st.one_of(
        st.builds(lambda members: {"L": members}, st.lists(inner, max_size=3)),
        st.builds(lambda members: {"M": members}, st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def db():
    with penstock.connect() as database:
        database.execute("CreateTable", table("one"))
        database.execute("PutItem", {"TableName": "one", "Item": {"pk": {"S": "a"}, "a": {"N": "1"}}})
        yield database


@settings(max_examples=400, deadline=None)
@given(statements, st.lists(values, max_size=3))
def test_any_statement_is_answered_or_refused_as_dynamodb_refuses(db, statement, parameters):
    member = {"Statement": statement, **({"Parameters": parameters} if parameters else {})}
    for operation, request in (
        ("ExecuteStatement", member),
        ("BatchExecuteStatement", {"Statements": [member]}),
        ("ExecuteTransaction", {"TransactStatements": [member]}),
    ):
        before = db.execute("Scan", {"TableName": "one"})["Items"]
        try:
            db.execute(operation, request)
        except DynamoDBError as error:
            assert error.status == 400
            assert db.execute("Scan", {"TableName": "one"})["Items"] == before


@pytest.mark.parametrize(
    "part", ["(", "[", "{'a':", "<<", "NOT ", "a AND ", "a = 1 OR ", "'", '"', "/*", "--\n", "-", "a.", "1 IN (", "''"]
)
def test_time_grows_with_the_length_and_no_faster(part):
    statement = "SELECT * FROM one WHERE " + part * (8000 // len(part))
    times = []
    for _ in range(3):  # the best of them: a collection of what other tests have left is not the parser's
        started = time.thread_time()
        with suppress(DynamoDBError):
            parse(statement)
        times.append(time.thread_time() - started)
    assert min(times) < 0.3
