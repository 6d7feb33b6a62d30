"""SELECT: keys, filters, functions, projections."""

from __future__ import annotations

import pytest

from penstock.errors import TransactionCanceledException

ITEM = {
    "pk": {"S": "it"},
    "ss": {"SS": ["a", "b", "c"]},
    "s": {"S": "str"},
    "n": {"N": "30"},
    "b": {"B": "AQID"},
    "m": {"M": {"sub": {"S": "x"}}},
    "l": {"L": [{"S": "a"}, {"S": "b"}]},
    "nul": {"NULL": True},
    "flag": {"BOOL": True},
    "q": {"S": "it's here"},
    "#odd name": {"S": "odd"},
}


@pytest.fixture
def it(sql):
    sql.db.execute("PutItem", {"TableName": "one", "Item": ITEM})
    return sql


def test_an_item_is_found_by_its_key(it):
    assert it.items("SELECT * FROM \"one\" WHERE pk = 'it'") == [ITEM]
    assert it.items("SELECT * FROM one WHERE 'it' = pk") == [ITEM]
    assert it.items("SELECT * FROM one WHERE pk = ?", {"S": "it"}) == [ITEM]
    assert it.items("SELECT * FROM one WHERE pk = 'other'") == []


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("n > 20", True),
        ("n < 20", False),
        ("n BETWEEN 30 AND 31", True),
        ("n NOT BETWEEN 30 AND 31", False),
        ("s IN ['str', 'x']", True),
        ("s IN ('x', 'str')", True),
        ("s IN ('x')", False),
        ("s NOT IN ('x')", True),
        ("NOT s = 'x'", True),
        ("s <> 'str'", False),
        ("s != 'x'", True),
        ("q = 'it''s here'", True),
        ("\"#odd name\" = 'odd'", True),
        ("m.sub = 'x'", True),
        ("m.\"sub\" <> 'x'", False),
        ("l[1] = 'b'", True),
        ("s = 'x' OR n = 30 AND flag = true", True),
        ("(s = 'x' OR n = 30) AND flag = false", False),
        ("begins_with(s, 'st')", True),
        ("NOT begins_with(\"s\", 'st')", False),
        ("contains(ss, 'a')", True),
        ("contains(s, 'tr')", True),
        ("size(s) = 3", True),
        ("size(ss) > 3", False),
        ("attribute_type(ss, 'SS')", True),
        ("attribute_type(ss, 'S')", False),
        ("attribute_exists(ss)", True),
        ("ATTRIBUTE_EXISTS(nope)", False),
        ("attribute_not_exists(nope)", True),
        ("NOT attribute_exists(nope)", True),
        ("(attribute_exists(nope) OR attribute_exists(ss))", True),
        ("attribute_exists(ss) = true", True),
        ("attribute_exists(ss) = false", False),
        ("attribute_exists(m.sub)", True),
        ("attribute_exists(m.nope)", False),
        ("nul IS NULL", True),
        ("s IS NULL", False),
        ("absent IS NULL", False),
        ("s IS NOT NULL", True),
        ("nul IS NOT NULL", False),
        ("absent IS MISSING", True),
        ("s IS NOT MISSING", True),
        ("flag IS BOOL", True),
        ("s IS STRING", True),
        ("s IS BOOL", False),
        ("m = {'sub': 'x'}", True),
        ("l = ['a', 'b']", True),
        ("l = ['b', 'a']", False),
        ("ss = <<'c', 'b', 'a'>>", True),
        ("nul = null", True),
    ],
)
def test_a_condition_keeps_or_drops_the_item(it, condition, holds):
    assert it.items(f"SELECT * FROM one WHERE pk = 'it' AND {condition}") == ([ITEM] if holds else [])


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "attribute_exists('ss')",
            "Operator or function requires a document path; operator or function: attribute_exists",
        ),
        (
            "attribute_exists()",
            "Incorrect number of operands for operator or function; "
            "operator or function: attribute_exists, number of operands: 0",
        ),
        (
            "attribute_exists(ss, n)",
            "Incorrect number of operands for operator or function; "
            "operator or function: attribute_exists, number of operands: 2",
        ),
        (
            "attribute_type(n, 'X')",
            "Invalid attribute type name found; type: X, valid types: {N,BS,L,B,NULL,M,S,SS,NS,BOOL}",
        ),
        (
            "attribute_type(l, 1)",
            "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N",
        ),
        ("EXISTS(ss)", "Unrecognized function: exists at 1:39:6"),
        ("set_add(ss, <<'x'>>) = ss", "Unrecognized function: set_add at 1:39:7"),
    ],
)
def test_a_function_that_is_used_wrongly_is_refused(it, condition, message):
    assert it.refusal(f"SELECT * FROM one WHERE pk = 'it' AND {condition}") == message


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize(
    "value", [{"BOOL": True}, {"NULL": True}, {"L": []}, {"M": {}}, {"SS": ["a"]}, {"NS": ["1"]}, {"BS": ["AQ=="]}]
)
def test_what_has_no_order_is_refused_before_the_table_is_looked_for(it, operator, value):
    (kind,) = value
    assert it.refusal(f"SELECT pk FROM nil WHERE pk = 'it' AND v {operator} ?", value) == (
        f"Incorrect operand type for operator or function; operator or function: {operator}, operand type: {kind}"
    )
    assert it.items("SELECT pk FROM one WHERE pk = 'it' AND s = ?", value) == []
    assert it.items("SELECT pk FROM one WHERE pk = 'it' AND s <> ?", value) == [{"pk": {"S": "it"}}]


def test_binaries_are_ordered_by_their_bytes(it):
    assert len(it.items("SELECT pk FROM one WHERE pk = 'it' AND b < ?", {"B": "AQIE"})) == 1
    assert it.items("SELECT pk FROM one WHERE pk = 'it' AND b > ?", {"B": "AQIE"}) == []


def test_a_path_is_shown_under_the_name_of_its_last_part(it):
    assert it.items("SELECT m.sub, l[1], s, nope FROM one WHERE pk = 'it'") == [
        {"sub": {"S": "x"}, "l[1]": {"S": "b"}, "s": {"S": "str"}}
    ]
    assert it.items("SELECT l[-0] FROM one WHERE pk = 'it'") == [{"l[0]": {"S": "a"}}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("s, s", "Duplicate identifiers in select clause: s"),
        ("n, m.sub, s, sub", "Duplicate identifiers in select clause: sub"),
        ("l[0], l[0]", "Duplicate identifiers in select clause: l[0]"),
        (
            "m.sub, m",
            "Two document paths overlap with each other; must remove or rewrite one of these paths; "
            "path one: [m, sub], path two: [m]",
        ),
        (
            "m.sub, m[0]",
            "Two document paths conflict with each other; must remove or rewrite one of these paths; "
            "path one: [m, sub], path two: [m, [0]]",
        ),
    ],
)
def test_a_column_is_shown_once(it, columns, message):
    assert it.refusal(f"SELECT {columns} FROM one WHERE pk = 'it'") == message
    assert it.refusal(f"SELECT {columns} FROM nowhere") == message


def test_parts_of_one_attribute_are_columns_of_their_own(it):
    assert it.items("SELECT l[0], l[1], m.sub FROM one WHERE pk = 'it'") == [
        {"l[0]": {"S": "a"}, "l[1]": {"S": "b"}, "sub": {"S": "x"}}
    ]


MISMATCH = "Key attribute's data type should match its data type in table's schema: Key "


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("pk = 1", f"{MISMATCH}pk"),
        ("pk = 1 OR pk = 'a'", f"{MISMATCH}pk"),
        ("pk IN ['a', 1]", f"{MISMATCH}pk"),
        ("pk = 'a' AND sk = 1", f"{MISMATCH}sk"),
        ("pk = 'a' AND sk > 1", f"{MISMATCH}sk"),
        ("pk = 'a' AND sk BETWEEN 1 AND 2", f"{MISMATCH}sk"),
        ("pk = [1]", "Key value must be of type S, N, or B. Key name: pk, Key type: L"),
        ("pk = 'a' AND sk = null", "Key value must be of type S, N, or B. Key name: sk, Key type: NULL"),
    ],
)
def test_a_key_is_asked_for_by_values_of_its_type(sql, condition, message):
    assert sql.refusal(f"SELECT * FROM two WHERE {condition}") == message


def test_a_key_that_names_no_partition_may_be_compared_with_anything(sql):
    assert sql.items("SELECT * FROM two WHERE pk > 1") == []


@pytest.mark.parametrize("statement", ["UPDATE two SET x = 1", "DELETE FROM two", "SELECT * FROM two"])
def test_an_item_is_named_by_values_of_its_keys_types(sql, statement):
    where = "WHERE pk = 'a' AND sk = 1"
    assert sql.refusal(f"{statement} {where}") == f"{MISMATCH}sk"
    (told,) = sql.batch(f"{statement} {where}")["Responses"]
    assert told["Error"]["Message"] == f"{MISMATCH}sk"
    with pytest.raises(TransactionCanceledException) as cancelled:
        sql.transact(f"{statement} {where}")
    (reason,) = cancelled.value.fields["CancellationReasons"]
    assert reason["Message"] == "The provided key element does not match the schema"


def test_a_statement_without_a_key_reads_the_table(it):
    it.put("one", pk={"S": "other"})
    assert it.items("SELECT pk FROM one WHERE attribute_exists(flag)") == [{"pk": {"S": "it"}}]
    assert len(it.items("SELECT * FROM one")) == 2


@pytest.mark.parametrize(
    ("stored", "literals"),
    [
        ("7310000", ["7.31e6", "7.31E6", "7.31e+6", "731e4", "73100000e-1"]),
        ("7.3", [".73e1", "7.3", "07.30"]),
        ("-7.3", ["-.73e1", "-7.3", "- 7.3"]),
    ],
)
def test_a_number_is_found_however_it_is_written(sql, stored, literals):
    sql.put("num", pk={"N": stored})
    for literal in literals:
        assert sql.items(f"SELECT * FROM num WHERE pk = {literal}") == [{"pk": {"N": stored}}], literal


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM one WHERE pk = 'it' -- a note",
        "SELECT * FROM one -- a note\nWHERE pk = 'it'",
        "-- a note\nSELECT * FROM one WHERE pk = 'it'",
        "SELECT/**/* FROM one /* a\nnote */ WHERE pk/* key */= 'it';",
    ],
)
def test_comments_are_passed_over(it, statement):
    it.put("one", pk={"S": "other"})
    assert it.items(statement) == [ITEM]


def test_several_partitions_are_read_one_after_the_other(sql):
    for pk in "abc":
        for sk in "12":
            sql.put("two", pk={"S": pk}, sk={"S": sk}, x={"S": pk + sk})
    assert [item["x"]["S"] for item in sql.items("SELECT * FROM two WHERE pk IN ['c', 'a', 'c']")] == [
        "c1",
        "c2",
        "a1",
        "a2",
    ]
    where = "pk = 'a' AND sk = '1' OR pk = 'a' AND sk = '2' OR pk = 'b' AND begins_with(sk, '2')"
    assert [item["x"]["S"] for item in sql.items(f"SELECT x FROM two WHERE {where}")] == ["a1", "a2", "b2"]


@pytest.mark.parametrize("condition", ["x = '1'", "x <> '1'"])
def test_alternatives_that_overlap_on_the_sort_key_are_refused(sql, condition):
    message = "Overlapping conditions with range keys are not supported in where clause"
    assert sql.refusal(f"SELECT * FROM two WHERE pk = 'a' AND {condition} OR pk = 'a' AND sk = '2'") == message


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ("pk = 'p' AND NOT sk = '1'", ["2", "3"]),
        ("pk = 'p' AND sk <> '1'", ["2", "3"]),
        ("pk = 'p' AND NOT begins_with(sk, 'x')", ["1", "2", "3"]),
        ("pk = 'p' AND NOT sk IN ['1', '3']", ["2"]),
        ("pk = 'p' AND NOT sk > '5'", ["1", "2", "3"]),
        ("pk = 'p' AND NOT (sk = '1')", ["2", "3"]),
    ],
)
def test_an_excluded_sort_key_overlaps_nothing(sql, left, expected):
    for sk in "123":
        sql.put("two", pk={"S": "p"}, sk={"S": sk})
    found = sql.items(f"SELECT * FROM two WHERE {left} OR pk = 'p' AND sk = '2'")
    assert [item["sk"]["S"] for item in found] == expected
    whole = sql.items("SELECT * FROM two WHERE pk = 'p' OR pk = 'p' AND NOT sk = '1'")
    assert [item["sk"]["S"] for item in whole] == ["1", "2", "3"]
