"""BatchExecuteStatement and ExecuteTransaction."""

from __future__ import annotations

import pytest

from penstock.errors import (
    IdempotentParameterMismatchException,
    ResourceNotFoundException,
    TransactionCanceledException,
    ValidationException,
)

NEEDS_KEY = "Select statements within {} must specify the primary key in the where clause."


def refused(transact, *statements):
    with pytest.raises(ValidationException) as caught:
        transact(*statements)
    return caught.value.message


# ── batches ──────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_reads_item_by_item(sql):
    sql.put("one", pk={"S": "a"}, x={"S": "1"})
    answer = sql.batch("SELECT * FROM one WHERE pk = 'a'", "SELECT * FROM one WHERE pk = 'b'")
    assert answer == {
        "Responses": [{"Item": {"pk": {"S": "a"}, "x": {"S": "1"}}, "TableName": "one"}, {"TableName": "one"}]
    }


def test_a_batch_writes_what_it_can(sql):
    sql.put("one", pk={"S": "dup"}, v={"S": "here"})
    answers = sql.batch(
        "SLECT * FROM one WHERE pk = 'x'",
        "INSERT INTO one VALUE {'pk': 'dup'}",
        "UPDATE one SET x = 1 WHERE pk = 'never' AND v = 'wrong'",
        "INSERT INTO one VALUE {'pk': 'new'}",
        "INSERT INTO nil VALUE {'pk': 'x'}",
        "DELETE FROM one WHERE pk = 'q' RETURNING MODIFIED OLD *",
    )["Responses"]
    malformed = "Statement wasn't well formed, can't be processed: Expected data manipulation"
    returning = (
        "Invalid returning clause: RETURNING MODIFIED OLD *. Only RETURNING ALL OLD * is allowed in DELETE statements."
    )
    failed = "The conditional request failed"
    assert answers == [
        {"Error": {"Code": "ValidationError", "Message": malformed}},
        {
            "Error": {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"},
            "TableName": "one",
        },
        {"Error": {"Code": "ConditionalCheckFailed", "Message": failed}, "TableName": "one"},
        {"TableName": "one"},
        {
            "Error": {"Code": "ResourceNotFound", "Message": "Requested resource not found"},
            "TableName": "nil",
        },
        {"Error": {"Code": "ValidationError", "Message": returning}},
    ]
    assert sql.get("one", pk="new") == {"pk": {"S": "new"}}


def test_a_batch_returns_what_returning_asks_for(sql):
    sql.put("one", pk={"S": "a"}, x={"S": "old"})
    sql.put("one", pk={"S": "b"}, x={"S": "old"})
    assert sql.batch(
        "UPDATE one SET x = 'new' WHERE pk = 'a' RETURNING MODIFIED NEW *",
        "UPDATE one REMOVE x WHERE pk = 'b' RETURNING MODIFIED NEW *",
    )["Responses"] == [{"Item": {"x": {"S": "new"}}, "TableName": "one"}, {"TableName": "one"}]


def test_a_batch_is_of_one_kind_and_names_no_item_twice(sql):
    read, write = "SELECT * FROM one WHERE pk = 'a'", "DELETE FROM one WHERE pk = 'b'"
    assert refused(sql.batch, read, write) == ("Read and write requests together in the same batch is not supported.")
    assert refused(sql.batch, read, read) == "Provided list of item keys contains duplicates"


@pytest.mark.parametrize("where", ["v = 'a'", "pk = 'a' AND attribute_exists(v)", "pk IN ['a']"])
def test_a_batch_reads_by_the_key_only(sql, where):
    (answer,) = sql.batch(f"SELECT * FROM one WHERE {where}")["Responses"]
    assert answer == {"Error": {"Code": "ValidationError", "Message": NEEDS_KEY.format("BatchExecuteStatement")}}


def test_each_member_of_a_batch_is_rated_on_its_own(sql):
    sql.put("one", pk={"S": "a"})
    sql.put("one", pk={"S": "b"})
    consistent = {"Statement": "SELECT * FROM one WHERE pk = 'a'", "ConsistentRead": True}
    answer = sql.batch(consistent, "SELECT * FROM one WHERE pk = 'b'", ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"] == [{"TableName": "one", "CapacityUnits": 1.5}]


def test_a_failed_write_is_paid_for_beside_one_that_succeeded(sql):
    sql.put("one", pk={"S": "big"}, x={"S": "x" * 2900})
    writes = ["INSERT INTO one VALUE {'pk': 'big'}", "INSERT INTO one VALUE {'pk': 'small'}"]
    answer = sql.batch(*writes, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"] == [{"TableName": "one", "CapacityUnits": 4.0}]
    assert "ConsumedCapacity" not in sql.batch(*writes, ReturnConsumedCapacity="TOTAL")


# ── transactions ─────────────────────────────────────────────────────────────────────────────────


def test_a_transaction_writes_all(sql):
    sql.put("one", pk={"S": "u"}, a={"N": "1"})
    sql.put("one", pk={"S": "d"})
    answer = sql.transact(
        "INSERT INTO one VALUE {'pk': 'i'}",
        "UPDATE one SET a = a + 1 WHERE pk = 'u' AND attribute_exists(a)",
        "DELETE FROM one WHERE pk = 'd'",
        ReturnConsumedCapacity="TOTAL",
    )
    assert answer["Responses"] == []
    assert answer["ConsumedCapacity"][0]["CapacityUnits"] == 6.0
    assert sql.get("one", pk="u")["a"] == {"N": "2"}
    assert sql.get("one", pk="i") and not sql.get("one", pk="d")


def test_a_transaction_writes_all_or_nothing(sql):
    sql.put("one", pk={"S": "dup"}, v={"S": "here"})
    with pytest.raises(TransactionCanceledException) as cancelled:
        sql.transact(
            "INSERT INTO one VALUE {'pk': 'dup'}",
            "INSERT INTO one VALUE {'pk': 'new'}",
            {
                "Statement": "DELETE FROM two WHERE pk = 'q' AND sk = 'q' AND v = 'x'",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            },
        )
    error = cancelled.value
    assert error.message.endswith("[DuplicateItem, None, None]")
    assert error.fields["CancellationReasons"][0] == {
        "Code": "DuplicateItem",
        "Message": "Duplicate primary key exists in table",
    }
    assert sql.get("one", pk="new") is None


def test_a_transaction_checks_with_exists(sql):
    sql.put("one", pk={"S": "a"}, free={"S": "x"})
    sql.put("one", pk={"S": "b"})
    check = "EXISTS(SELECT * FROM one WHERE pk = 'a' AND {} IS MISSING)"
    sql.transact(check.format("Awards"), "UPDATE one SET won = 1 WHERE pk = 'b'")
    assert sql.get("one", pk="b")["won"] == {"N": "1"}
    with pytest.raises(TransactionCanceledException) as cancelled:
        sql.transact(check.format("free"), "UPDATE one SET won = 2 WHERE pk = 'b'")
    assert cancelled.value.fields["CancellationReasons"] == [
        {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"},
        {"Code": "None"},
    ]
    assert sql.get("one", pk="b")["won"] == {"N": "1"}


def test_a_transaction_reads_items(sql):
    sql.put("one", pk={"S": "a"}, x={"M": {"y": {"S": "z"}}})
    assert sql.transact("SELECT x.y FROM one WHERE pk = 'a'", "SELECT * FROM one WHERE pk = 'b'") == {
        "Responses": [{"Item": {"y": {"S": "z"}}}, {}]
    }
    both = sql.transact("SELECT * FROM two WHERE (sk = '1') AND pk = 'k' AND pk = 'k'")
    assert both == {"Responses": [{}]}


IN_FIRST = "Validation failed in TransactStatements[0]: "


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM one WHERE", "Statement wasn't well formed, can't be processed: Unexpected term"),
        (
            "UPDATE one SET a = 1 WHERE pk = 'x' RETURNING ALL NEW *",
            "RETURNING clause is not supported in ExecuteTransaction.",
        ),
        ("SELECT * FROM one.\"i\" WHERE pk = 'x'", "Reads on indices are not supported within transactions."),
        ("UPDATE one.\"i\" SET a = 1 WHERE pk = 'x'", "This operation is not supported on an index"),
        ("SELECT * FROM one WHERE pk = 'x' AND a = 1", NEEDS_KEY.format("ExecuteTransaction")),
        ("SELECT * FROM two WHERE pk = 'x'", NEEDS_KEY.format("ExecuteTransaction")),
        ("SELECT * FROM two WHERE pk = 'x' AND sk = '1' AND pk = 'y'", NEEDS_KEY.format("ExecuteTransaction")),
        (
            "EXISTS(SELECT * FROM one WHERE pk = 'x')",
            "EXISTS() must contain a single item read with additional condition",
        ),
        (
            "INSERT INTO one VALUE {'pk': 'x', 'l': [<<'a', 'a'>>]}",
            "One or more parameter values were invalid: Input collection [a, a] contains duplicates.",
        ),
    ],
)
def test_a_statement_that_can_never_run_refuses_the_transaction(sql, statement, message):
    assert refused(sql.transact, statement) == IN_FIRST + message


def test_a_transaction_is_of_one_kind_and_names_no_item_twice(sql):
    read, write = "SELECT * FROM one WHERE pk = 'a'", "DELETE FROM one WHERE pk = 'b'"
    assert refused(sql.transact, read, write) == (
        "ExecuteTransaction API does not support both read and write operations in the same request."
    )
    twice = "Transaction request cannot include multiple operations on one item"
    assert refused(sql.transact, read, read) == twice
    assert refused(sql.transact, write, "UPDATE one SET a = 1 WHERE pk = 'b'") == twice
    with pytest.raises(TransactionCanceledException, match=r"\[None, None, ValidationError\]"):
        sql.transact(read, read, "SELECT * FROM one WHERE pk = 1")
    with pytest.raises(ResourceNotFoundException):
        sql.transact("INSERT INTO nil VALUE {'pk': 'x'}")


def test_a_token_makes_a_transaction_happen_once(sql):
    sql.put("one", pk={"S": "n"}, n={"N": "0"})
    more = {"ClientRequestToken": "token", "ReturnConsumedCapacity": "TOTAL"}
    first = sql.transact("UPDATE one SET n = n + 1 WHERE pk = 'n'", **more)
    again = sql.transact("UPDATE one SET n = n + 1 WHERE pk = 'n'", **more)
    assert sql.get("one", pk="n")["n"] == {"N": "1"}
    assert first["ConsumedCapacity"][0]["WriteCapacityUnits"] == 2.0
    assert again["Responses"] == [] and again["ConsumedCapacity"][0]["ReadCapacityUnits"] == 2.0
    with pytest.raises(IdempotentParameterMismatchException):
        sql.transact("UPDATE one SET n = n + 2 WHERE pk = 'n'", **more)
    put = {"Put": {"TableName": "one", "Item": {"pk": {"S": "t"}}}}
    sql.db.execute("TransactWriteItems", {"TransactItems": [put], "ClientRequestToken": "token"})


@pytest.mark.parametrize(
    ("operation", "request_"),
    [("BatchExecuteStatement", {"Statements": []}), ("ExecuteTransaction", {"TransactStatements": []})],
)
def test_an_empty_list_is_refused(sql, operation, request_):
    with pytest.raises(ValidationException, match="greater than or equal to 1"):
        sql.db.execute(operation, request_)
