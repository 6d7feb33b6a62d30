"""Parameters are looked at before the statement is, in the order of the document."""

from __future__ import annotations

import pytest

from penstock.errors import ValidationException

NEST = "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
UNCONVERTIBLE = "The parameter cannot be converted to a numeric value"
UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
POSITIONS = [
    "SELECT * FROM two WHERE pk = 'p' AND n = ?",
    "INSERT INTO two VALUE {'pk': 'p', 'sk': 's', 'n': ?}",
    "UPDATE two SET n = ? WHERE pk = 'p' AND sk = 's'",
    "SELECT * FROM two WHERE pk = ?",
    "this is no statement",
]


@pytest.mark.parametrize("statement", POSITIONS)
@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        *(
            ({"N": text}, f"{UNCONVERTIBLE}: {text}")
            for text in ("1e99999999999", "-1e99999999999", "1e-99999999999", "1e2147483648", "1e-2147483648", "abc")
        ),
        ({"N": "1e2147483647"}, UNDERFLOW),
        ({"N": ""}, UNCONVERTIBLE),
        ({"L": [{"N": "1"}, {"N": "1e99999999999"}]}, f"{UNCONVERTIBLE}: 1e99999999999"),
        ({"NS": ["1", "1e99999999999"]}, f"{UNCONVERTIBLE}: 1e99999999999"),
        (
            {"SS": ["a", "a"]},
            "One or more parameter values were invalid: Input collection [a, a] contains duplicates.",
        ),
    ],
)
def test_a_parameter_that_is_no_value_is_refused_first(sql, statement, parameter, message):
    assert sql.refusal(statement, parameter) == message
    with pytest.raises(ValidationException) as refused:
        sql.transact({"Statement": statement, "Parameters": [parameter]})
    assert refused.value.message == message
    (answer,) = sql.batch({"Statement": statement, "Parameters": [parameter]})["Responses"]
    assert answer == {"Error": {"Code": "ValidationError", "Message": message}}


def deep(levels, leaf):
    for _ in range(levels):
        leaf = {"M": {"n": leaf}}
    return leaf


@pytest.mark.parametrize("levels", [40, 100])
def test_the_first_problem_in_the_document_is_reported(sql, levels):
    too_deep, bad = deep(levels, {"S": "leaf"}), {"N": "abc"}
    pair = "SELECT * FROM two WHERE pk = 'p' AND x = ? AND y = ?"
    single = "SELECT * FROM two WHERE pk = 'p' AND x = ?"
    assert sql.refusal(pair, too_deep, bad) == NEST
    assert sql.refusal(pair, bad, too_deep) == f"{UNCONVERTIBLE}: abc"
    assert sql.refusal(single, {"M": {"d": too_deep, "bad": bad}}) == NEST
    assert sql.refusal(single, {"M": {"bad": bad, "d": too_deep}}) == f"{UNCONVERTIBLE}: abc"
    assert sql.refusal(single, deep(levels, bad)) == NEST
    assert sql.refusal(pair, too_deep, {"N": "1e126"}) == NEST


def test_a_parameter_may_be_an_attribute_or_an_operand(sql):
    sql.run("INSERT INTO two VALUE {'pk': ?, 'sk': '1', 'n': ?}", {"S": "a"}, {"N": "007"})
    where = "pk = ? AND sk BETWEEN ? AND ? AND n IN [?, ?]"
    values = [{"S": "a"}, {"S": "0"}, {"S": "2"}, {"N": "7.0"}, {"N": "8"}]
    assert sql.items(f"SELECT n FROM two WHERE {where}", *values) == [{"n": {"N": "7"}}]
    assert len(sql.items("SELECT * FROM two WHERE pk IN (?, ?)", {"S": "a"}, {"S": "b"})) == 1


@pytest.mark.parametrize(
    ("statement", "under"),
    [
        ("UPDATE two SET x = [?] WHERE pk = 'a' AND sk = '1'", "root[0]"),
        ("UPDATE two SET x = list_append(x, [1, ?]) WHERE pk = 'a' AND sk = '1'", "root[1]"),
        ("INSERT INTO two VALUE {'pk': 'a', 'sk': '1', 'm': {'k': ?}}", "root.k"),
        ("INSERT INTO two VALUE {'pk': 'a', 'sk': '1', 'm': {'k': [1, {'x': ?}]}}", "root.k[1].x"),
        ("SELECT * FROM two WHERE pk = 'a' AND x = [?]", "root[0]"),
        ("SELECT * FROM two WHERE pk = 'a' AND x IN [[?]]", "root[0]"),
        ("SELECT * FROM nowhere WHERE pk = {'a': ?}", "root.a"),
    ],
)
def test_a_parameter_stands_in_no_list_and_no_tuple(sql, statement, under):
    at = f"1:{statement.index('?') + 1}:1"
    assert sql.refusal(statement, {"S": "v"}) == f"Unsupported data type: Parameter under key {under} at {at}"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE two SET x = <<?>> WHERE pk = 'a' AND sk = '1'",
        "UPDATE two SET x = set_add(x, <<'a', ?>>) WHERE pk = 'a' AND sk = '1'",
        "SELECT * FROM two WHERE pk = 'a' AND x = <<?, 'b'>>",
    ],
)
def test_a_parameter_stands_in_no_set(sql, statement):
    assert sql.refusal(statement, {"S": "v"}) == (
        "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags"
    )


@pytest.mark.parametrize("candidates", ["?", "[]", "x"])
def test_in_needs_a_list_of_at_least_one_candidate(sql, candidates):
    values = [{"L": [{"S": "a"}]}] if candidates == "?" else []
    for attribute in ("pk", "n"):
        assert sql.refusal(f"SELECT * FROM two WHERE {attribute} IN {candidates}", *values) == (
            "IN operator must have a left hand argument of type Variable Reference and right hand argument of type "
            "Seq with at least one member"
        )
