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


def test_a_parameter_may_stand_wherever_a_value_may(sql):
    sql.run("INSERT INTO two VALUE ?", {"M": {"pk": {"S": "a"}, "sk": {"S": "1"}, "n": {"N": "007"}}})
    where = "pk = ? AND sk BETWEEN ? AND ? AND n IN [?, ?]"
    values = [{"S": "a"}, {"S": "0"}, {"S": "2"}, {"N": "7.0"}, {"N": "8"}]
    assert sql.items(f"SELECT n FROM two WHERE {where}", *values) == [{"n": {"N": "7"}}]
    assert len(sql.items("SELECT * FROM two WHERE pk IN ?", {"L": [{"S": "a"}, {"S": "b"}]})) == 1
