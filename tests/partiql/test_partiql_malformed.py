"""Statements that DynamoDB refuses, and the exact words with which it does."""

from __future__ import annotations

import pytest

from penstock.errors import ResourceNotFoundException

MALFORMED = "Statement wasn't well formed, can't be processed: "
NEEDS_KEY = "Where clause does not contain a mandatory equality on all key attributes"
OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"


@pytest.mark.parametrize(
    ("statement", "detail"),
    [
        ('SELECT * FROM "num" WHERE pk = 1 foo', "Unexpected token after expression"),
        ('SELECT * FROM "num" WHERE pk = 1 e5', "Unexpected token after expression"),
        ("INSERT INTO \"num\" VALUE {'pk': 97} foo", "Unexpected token after expression"),
        ('UPDATE "num" SET a = 9 WHERE pk = 97 foo', "Unexpected token after expression"),
        ('DELETE FROM "num" WHERE pk = 97 foo', "Unexpected token after expression"),
        ('SELECT * FROM "num" WHERE pk = 1)', "Unexpected token after expression"),
        ('DELETE FROM "num" WHERE pk = 97 ORDER BY pk', "Unexpected token after expression"),
        ('SELECT * FROM "num" ORDER BY pk WHERE pk = 1', "Unexpected token after expression"),
        ("INSERT INTO \"one\" t VALUE {'pk': 'x'}", "Unexpected token after expression"),
        ("FROM \"one\" SET c = 1 WHERE pk = 'x'", "Unexpected token after expression"),
        ("FROM \"one\" SET c = 1 WHERE pk = 'x' SET d = 2", "Unexpected token after expression"),
        ('SELECT * FROM "num" WHERE pk = 1e2147483648', ""),
        ('SELECT * FROM "num" WHERE pk = 1e99999999999', ""),
        ('SELECT * FROM "num" WHERE pk = 1.5e-2147483647', ""),
        ('SELECT * FROM "num" WHERE pk = 1 # note', ""),
        ('SELECT * FROM "num" WHERE pk = 1 /* note', ""),
        ('SELECT * FROM "num', ""),
        ("SELECT * FROM num WHERE a = 'x", ""),
        ('SELECT * FROM "one" WHERE', "Unexpected term"),
        ('SELECT * FROM "one" WHERE;', "Unexpected term"),
        ('SELECT * FROM "one" WHERE   ', "Unexpected term"),
        ('UPDATE "one" SET a = 1 WHERE', "Unexpected term"),
        ('DELETE FROM "one" WHERE', "Unexpected term"),
        ('SELECT * FROM "one" WHERE NOT', "Unexpected term"),
        ('SELECT * FROM "one" WHERE (', "Unexpected term"),
        ('SELECT * FROM "never-created" WHERE', "Unexpected term"),
        ("SELECT * FROM", "Unexpected term"),
        ("SELECT * FROM \"one\" WHERE pk = 'p' AND", "Missing right-hand side expression of infix operator"),
        ("SELECT * FROM \"one\" WHERE pk = 'p' OR", "Missing right-hand side expression of infix operator"),
        ('SELECT * FROM "one" WHERE ORDER BY pk', "Unexpected keyword"),
        ("INSERT INTO urls (key, secret) VALUES (?, ?)", "Unexpected keyword"),
        ("SELECT * FROM \"one\" WHERE pk = 'a' AND x IS FOO", "Expected type name"),
        ('SELECT * FROM "one" WHERE IS NULL', "Unexpected operator"),
        ('SELECT * FROM "one" WHERE pk = LIKE', "Unexpected operator"),
        ("DELETE FROM", "Expected identifier for simple path"),
        ("DELETE FROM   ", "Expected identifier for simple path"),
        ("DELETE FROM;", "Expected identifier for simple path"),
        ("DELETE FROM WHERE pk = 'a'", "Expected identifier for simple path"),
        ("SLECT * FROM \"one\" WHERE pk = 'a'", "Expected data manipulation"),
        ("UPDATE one-dev SET a = 1 WHERE pk = 'a'", "Expected data manipulation"),
        ('SELECT * FROM "one" WHERE attribute_exists(m.inner)', "Invalid path dot component"),
    ],
)
def test_a_statement_that_cannot_be_read_says_why(sql, statement, detail):
    assert sql.refusal(statement) == MALFORMED + detail


@pytest.mark.parametrize("kind", ["INT4", "INT8", "DOUBLE PRECISION", "CHARACTER VARYING"])
def test_an_expression_is_no_statement(sql, kind):
    assert sql.refusal(f"x IS {kind}") == "Unsupported operation: IsType"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM \"one\" t WHERE pk = 'x'",
        "SELECT * FROM \"one\" AS t WHERE pk = 'x'",
        "UPDATE \"one\" t SET a = 3 WHERE pk = 'x'",
        "DELETE FROM \"one\" t WHERE pk = 'x'",
    ],
)
def test_aliases_are_refused(sql, statement):
    assert sql.refusal(statement) == "Aliasing is not supported"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM num WHERE pk = 1e126", f"{OVERFLOW} under root"),
        ("SELECT * FROM num WHERE pk = 1e-131", f"{UNDERFLOW} under root"),
        (
            "SELECT * FROM num WHERE pk = 123456789012345678901234567890123456789",
            "Attempting to store more than 38 significant digits in a Number under root",
        ),
        ("INSERT INTO num VALUE {'pk': 1e126}", f"{OVERFLOW} under root"),
        ("UPDATE num SET a = 1e-131 WHERE pk = 1", f"{UNDERFLOW} under root"),
        ("INSERT INTO num VALUE {'pk': 1, 'm': {'x': 1e126}}", f"{OVERFLOW} under root.x"),
        ("INSERT INTO num VALUE {'pk': 1, 'l': [1, 1e126]}", f"{OVERFLOW} under root[1]"),
        ("INSERT INTO one VALUE {'pk': 'a', 's': <<>>}", "Empty bags are not supported"),
        (
            "INSERT INTO one VALUE {'pk': 'a', 's': <<1, 'a'>>}",
            "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags",
        ),
        (
            "INSERT INTO one VALUE {'pk': 'a', 's': <<'a', 'a'>>}",
            "One or more parameter values were invalid: Input collection [a, a] contains duplicates.",
        ),
        (
            "UPDATE one SET n = <<2, 2.0>> WHERE pk = 'a'",
            "One or more parameter values were invalid: Input collection [2, 2.0] contains duplicates! under root",
        ),
        (
            "INSERT INTO one VALUE {'pk': 'a', 'ss': set_add(<<'a'>>, <<'b'>>)}",
            "Unsupported data type: set_add under key root at 1:41:7",
        ),
    ],
)
def test_literals_that_dynamodb_cannot_hold_say_where_they_stand(sql, statement, message):
    assert sql.refusal(statement) == message


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM \"\" WHERE pk = 'p'", "Path component cannot be an empty string"),
        ('SELECT * FROM "one"."" WHERE pk = \'p\'', "Path component cannot be an empty string"),
        ('SELECT * FROM "one"."a"."b"', "A path may contain at most 2 components in the FROM clause"),
        ("INSERT INTO \"one\".\"i\" VALUE {'pk': 'q'}", "FROM clause may only contain a single table name"),
        ('UPDATE "one"."i" SET a = 1 WHERE pk = \'q\'', "This operation is not supported on an index"),
        ('DELETE FROM "never"."i" WHERE pk = \'q\'', "This operation is not supported on an index"),
        ("SELECT COUNT(*) FROM one", "Unexpected path component at 1:8:5"),
        ("SELECT COUNT(*) FROM nil", "Unexpected path component at 1:8:5"),
        ("SELECT attribute_exists(ss) FROM one", "Unexpected path component at 1:8:16"),
        ("SELECT pk FROM one LIMIT 5", "Unsupported clause: LIMIT at 1:26:1"),
        ("SELECT l[-1] FROM one", "List index is not within the allowable range; index: [-1] at 1:11:1"),
        ("FROM one SET c = 1", NEEDS_KEY),
        ("FROM one REMOVE a", NEEDS_KEY),
        ("FROM one WHERE a = 1 SET c = 1", NEEDS_KEY),
        ("UPDATE one SET a = 1", NEEDS_KEY),
        ("DELETE FROM one", NEEDS_KEY),
        ("DELETE FROM one WHERE \"name\" = 'alpha'", NEEDS_KEY),
        ("DELETE FROM two WHERE pk = 'a'", NEEDS_KEY),
        ("SELECT * FROM one WHERE pk = ?", "Number of parameters in request and statement don't match."),
        (
            "EXISTS(SELECT * FROM one WHERE pk = 'x' AND a IS MISSING)",
            "EXISTS can only be used in ExecuteTransaction write requests.",
        ),
        *(
            (
                f"DELETE FROM one WHERE pk = 'x' RETURNING {what} *",
                f"Invalid returning clause: RETURNING {what} *. "
                "Only RETURNING ALL OLD * is allowed in DELETE statements.",
            )
            for what in ("MODIFIED OLD", "ALL NEW", "MODIFIED NEW")
        ),
    ],
)
def test_what_the_grammar_allows_and_dynamodb_does_not(sql, statement, message):
    assert sql.refusal(statement) == message


def test_a_table_that_is_not_there_is_not_found(sql):
    for statement in ("SELECT * FROM nil WHERE pk = 'x'", "FROM nil WHERE pk = 'x' SET c = 1"):
        with pytest.raises(ResourceNotFoundException, match="Requested resource not found"):
            sql.run(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM one WHERE " + "(" * 4000,
        "SELECT * FROM one WHERE " + "NOT " * 2000 + "a = 1",
        "UPDATE one SET a = a" + " + 1" * 1900,
        "SELECT * FROM one WHERE a" + " IS NULL" * 900,
        "SELECT * FROM one WHERE a" + " = 1" * 1900,
        "INSERT INTO one VALUE " + "{'a':" * 1500,
        "INSERT INTO one VALUE {'a': " + "[" * 6000,
        "SELECT a" + "[0]" * 2000 + " FROM one",
    ],
)
def test_a_deep_statement_is_refused_like_any_other(sql, statement):
    assert sql.refusal(statement)


def test_a_long_chain_of_conditions_is_not_deep(sql):
    sql.put("one", pk={"S": "a"})
    assert sql.items("SELECT * FROM one WHERE pk = 'a'" + " AND x <> 'y'" * 200) == [{"pk": {"S": "a"}}]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        *(
            (f"SELECT * FROM one WHERE {condition}", f"Unsupported operator in Condition Expression. Operator: {sign}")
            for condition, sign in (
                ("n = 1 + 1", "+"),
                ("n - 1 = 2", "-"),
                ("pk = 'a' AND n * 2 = 4", "*"),
                ("n || 'a' = 'b'", "||"),
                ("n LIKE 'a'", "like"),
            )
        ),
        ("UPDATE one SET n = n * 2 WHERE pk = 'a'", "Unsupported operator in Update Expression. Operator: *"),
        ("UPDATE one SET n = MISSING WHERE pk = 'a'", "MISSING must be compared using IS operator"),
        ("SELECT * FROM one WHERE n = MISSING", "MISSING must be compared using IS operator"),
        ("SELECT * FROM one WHERE pk = 'a' AND n", "The arguments to AND/OR must be Expressions"),
        ("SELECT * FROM one WHERE true OR pk = 'a'", "The arguments to AND/OR must be Expressions"),
        ("SELECT * FROM one WHERE NOT n", "The argument to NOT must be a Type or Expression"),
        ('SELECT * FROM one WHERE n."" = 1', "Path component cannot be an empty string"),
        ('SELECT n."" FROM one', "Path component cannot be an empty string"),
        ("UPDATE one REMOVE \"\" WHERE pk = 'a'", "Path component cannot be an empty string"),
    ],
)
def test_an_expression_that_dynamodb_has_not_is_named(sql, statement, message):
    assert sql.refusal(statement) == message
