"""INSERT, UPDATE, DELETE and what they return."""

from __future__ import annotations

import pytest

from penstock.errors import ConditionalCheckFailedException, DuplicateItemException, ValidationException


def test_an_insert_holds_every_kind_of_value(sql):
    statement = (
        "INSERT INTO \"one\" value {'pk':'a', 'n':1, 'exp':-1.5e-3, 'zero':-0, 'm':{'x':'v', 'y':[4, true, null]}, "
        "'l':[1,'s'], 'ns':<<1,34,4.5>>, 'ss':<<'a','b'>>, 'p':?, 'in':?}"
    )
    assert sql.run(statement, {"B": "aGk="}, {"L": [{"S": "q"}]}) == {"Items": []}
    assert sql.get("one", pk="a") == {
        "pk": {"S": "a"},
        "n": {"N": "1"},
        "exp": {"N": "-0.0015"},
        "zero": {"N": "0"},
        "m": {"M": {"x": {"S": "v"}, "y": {"L": [{"N": "4"}, {"BOOL": True}, {"NULL": True}]}}},
        "l": {"L": [{"N": "1"}, {"S": "s"}]},
        "ns": {"NS": ["1", "4.5", "34"]},
        "ss": {"SS": ["a", "b"]},
        "p": {"B": "aGk="},
        "in": {"L": [{"S": "q"}]},
    }


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{'pk':'a', 'x':1, 'x':2}", "Duplicate keys in tuple. Key: x under root at 1:42:3"),
        ("{'pk':'a', 'pk':'b'}", "Duplicate keys in tuple. Key: pk under root at 1:35:4"),
        ("{'pk':'a', 'm':{'k':1, 'k':2}}", "Duplicate keys in tuple. Key: k under root at 1:39:1"),
        ("{'pk':'a', 'm':{'n':[{'k':1, 'k':2}]}}", "Duplicate keys in tuple. Key: k under root.n[0] at 1:45:1"),
        ("{x:1}", "Tuple keys must be of type String. Actual type: VariableReference under root at 1:25:1"),
        ("{'pk':'a', 'm':{1:2}}", "Tuple keys must be of type String. Actual type: INT under root at 1:40:1"),
        ("{'pk':'a', 'x':y}", "Unsupported data type: y under key root at 1:39:1"),
        ("{'pk':'a', 'x':[y]}", "Unsupported data type: VariableReference under key root[0] at 1:40:1"),
        ("{'pk':'a', 'x':1 + 2}", "Unsupported data type: + under key root at 1:41:1"),
        *(
            (
                value,
                "Unsupported format in item expression. Please use struct format {...} to express item values for "
                f"insert statement. at 1:24:{length}",
            )
            for value, length in (("1", 1), ("'a'", 3), ("[1]", 1), ("<<{'pk':'a'}>>", 2))
        ),
    ],
)
def test_an_insert_takes_a_tuple_of_values_each_once(sql, value, message):
    assert sql.refusal(f"INSERT INTO  one VALUE {value}") == message
    assert sql.get("one", pk="a") is None


def test_an_insert_takes_no_parameter_for_its_item_and_needs_the_word_value(sql):
    assert sql.refusal("INSERT INTO one VALUE ?", {"M": {"pk": {"S": "a"}}}).endswith("insert statement. at 1:23:1")
    assert sql.refusal("INSERT INTO one {'pk':'a'}") == "Unsupported operation: InsertOp"


def test_a_tuple_has_each_key_once_wherever_it_stands(sql):
    twice = "Duplicate keys in tuple. Key: a under root at 1:{}:1"
    assert sql.refusal("UPDATE one SET x = {'a':1, 'a':2} WHERE pk = 'p'") == twice.format(20)
    assert sql.refusal("SELECT * FROM one WHERE x = {'a':1, 'a':1}") == twice.format(29)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE one SET x = pk.a WHERE pk = 'p'",
        "UPDATE one SET x = 1 WHERE pk = 'p' AND pk.a = 1",
        "UPDATE one SET x = if_not_exists(pk[0], 1) WHERE pk = 'p'",
        "DELETE FROM one WHERE pk = 'p' AND (x = 1 OR attribute_exists(pk.a))",
        "SELECT pk.a FROM one WHERE pk = 'p'",
        "SELECT * FROM one WHERE x = 1 OR pk[0] = 2",
    ],
)
def test_no_statement_looks_into_a_key(sql, statement):
    assert sql.refusal(statement) == (
        "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk"
    )


def test_an_insert_never_replaces(sql):
    sql.run("INSERT INTO one VALUE {'pk': 'a', 'x': 'first'}")
    with pytest.raises(DuplicateItemException, match="Duplicate primary key exists in table"):
        sql.run("INSERT INTO one VALUE {'pk': 'a', 'x': 'second'}")
    assert sql.get("one", pk="a")["x"] == {"S": "first"}
    sql.run("DELETE FROM one WHERE pk = 'a'")
    sql.run("INSERT INTO one VALUE {'pk': 'a', 'x': 'third'}")
    assert sql.get("one", pk="a")["x"] == {"S": "third"}


def test_an_insert_without_its_key_is_refused(sql):
    assert sql.refusal("INSERT INTO two VALUE {'pk': 'a'}") == (
        "One or more parameter values were invalid: Missing the key sk in the item"
    )


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("SET a = 2", {"a": {"N": "2"}}),
        ("SET a=a-1", {"a": {"N": "0"}}),
        ("SET a = a + 100 SET c = 'new', d = ['x']", {"a": {"N": "101"}, "c": {"S": "new"}, "d": {"L": [{"S": "x"}]}}),
        ("REMOVE a", {"a": None}),
        ("SET c = b REMOVE a, b", {"a": None, "b": None, "c": {"S": "bee"}}),
        ("SET m.y = 'z'", {"m": {"M": {"x": {"S": "v"}, "y": {"S": "z"}}}}),
        ("REMOVE l[0]", {"l": {"L": [{"S": "q"}]}}),
        ("SET l[5] = 'r'", {"l": {"L": [{"S": "p"}, {"S": "q"}, {"S": "r"}]}}),
        ("SET l = list_append(l, ['r'])", {"l": {"L": [{"S": "p"}, {"S": "q"}, {"S": "r"}]}}),
        ("SET l = LIST_APPEND([], l)", {"l": {"L": [{"S": "p"}, {"S": "q"}]}}),
        ("SET ss = set_add(ss, <<'z'>>)", {"ss": {"SS": ["s", "t", "z"]}}),
        ("SET ss = SET_ADD(ss, <<'s'>>)", {"ss": {"SS": ["s", "t"]}}),
        ("SET fresh = set_add(fresh, <<1>>)", {"fresh": {"NS": ["1"]}}),
        ("SET ss = set_delete(ss, <<'s'>>)", {"ss": {"SS": ["t"]}}),
        ("SET ss = set_delete(ss, <<'s', 't'>>)", {"ss": None}),
        ("SET none = set_delete(none, <<'s'>>)", {"none": None}),
    ],
)
@pytest.mark.parametrize("form", ["UPDATE \"one\" {clauses} WHERE pk = 'k'", "from one where pk = 'k' {clauses}"])
def test_an_update_changes_what_it_names(sql, clauses, expected, form):
    item = {
        "pk": {"S": "k"},
        "a": {"N": "1"},
        "b": {"S": "bee"},
        "m": {"M": {"x": {"S": "v"}}},
        "l": {"L": [{"S": "p"}, {"S": "q"}]},
        "ss": {"SS": ["s", "t"]},
    }
    sql.db.execute("PutItem", {"TableName": "one", "Item": item})
    assert sql.run(form.format(clauses=clauses)) == {"Items": []}
    wanted = {name: value for name, value in (item | expected).items() if value is not None}
    assert sql.get("one", pk="k") == wanted


def test_an_update_never_makes_an_item(sql):
    for statement in (
        "UPDATE one SET a = 1 WHERE pk = 'ghost'",
        "UPDATE one SET a = 1 WHERE pk = 'ghost' AND attribute_not_exists(pk)",
        "FROM one WHERE pk = 'ghost' SET a = 1",
        "UPDATE one SET ss = set_add(ss, <<'x'>>) WHERE pk = 'ghost'",
    ):
        with pytest.raises(ConditionalCheckFailedException, match="The conditional request failed"):
            sql.run(statement)
    assert sql.get("one", pk="ghost") is None


@pytest.mark.parametrize("verb", ["UPDATE one SET z = 1", "DELETE FROM one"])
def test_what_stands_beside_the_key_is_a_condition(sql, verb):
    sql.put("one", pk={"S": "k"}, a={"N": "5"}, v={"SS": ["a", "b"]})
    with pytest.raises(ConditionalCheckFailedException) as failed:
        sql.run(f"{verb} WHERE pk = 'k' AND a = 6", ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert failed.value.fields["Item"]["a"] == {"N": "5"}
    with pytest.raises(ConditionalCheckFailedException):
        sql.run(f"{verb} WHERE pk = 'k' AND pk = 'other'")
    assert "z" not in sql.get("one", pk="k")
    sql.run(f"{verb} WHERE (pk = 'k' AND a = 5) AND attribute_exists(v) AND v = ?", {"SS": ["b", "a"]})
    assert sql.get("one", pk="k") is None or "z" in sql.get("one", pk="k")


def test_deleting_what_is_not_there_does_nothing(sql):
    assert sql.run("DELETE FROM one WHERE pk = 'ghost' AND a = 6") == {"Items": []}
    assert sql.run("DELETE FROM one WHERE pk = 'ghost' RETURNING ALL OLD *") == {"Items": []}


def test_a_delete_returns_what_was_there(sql):
    sql.put("one", pk={"S": "k"}, a={"N": "5"})
    assert sql.items("DELETE FROM one WHERE pk = 'k' RETURNING ALL OLD *") == [{"pk": {"S": "k"}, "a": {"N": "5"}}]


TAGS = {"L": [{"S": "a"}, {"S": "b"}, {"S": "c"}]}


@pytest.mark.parametrize(
    ("clauses", "returning", "expected"),
    [
        ("SET a = 2", "ALL OLD", [{"pk": {"S": "k"}, "a": {"N": "1"}, "t": TAGS}]),
        ("SET a = 2", "ALL NEW", [{"pk": {"S": "k"}, "a": {"N": "2"}, "t": TAGS}]),
        ("SET a = 2", "MODIFIED OLD", [{"a": {"N": "1"}}]),
        ("SET a = 2", "MODIFIED NEW", [{"a": {"N": "2"}}]),
        ("SET fresh = 2", "MODIFIED OLD", []),
        ("SET fresh = 2", "MODIFIED NEW", [{"fresh": {"N": "2"}}]),
        ("REMOVE a", "MODIFIED OLD", [{"a": {"N": "1"}}]),
        ("REMOVE a", "MODIFIED NEW", []),
        ("SET t[2] = 'y', t[0] = 'x'", "MODIFIED NEW", [{"t": {"L": [{"S": "x"}, {"S": "y"}]}}]),
        ("SET t[2] = 'y', t[0] = 'x'", "MODIFIED OLD", [{"t": {"L": [{"S": "a"}, {"S": "c"}]}}]),
        ("SET t[5] = 'd'", "MODIFIED NEW", []),
        ("SET t[3] = 'd'", "MODIFIED NEW", [{"t": {"L": [{"S": "d"}]}}]),
        ("SET t[3] = 'd'", "MODIFIED OLD", []),
        ("REMOVE t[1]", "MODIFIED NEW", [{"t": {"L": [{"S": "c"}]}}]),
        ("REMOVE t[2]", "MODIFIED NEW", []),
        ("REMOVE t[2]", "MODIFIED OLD", [{"t": {"L": [{"S": "c"}]}}]),
    ],
)
def test_an_update_returns_what_is_asked_for(sql, clauses, returning, expected):
    sql.put("one", pk={"S": "k"}, a={"N": "1"}, t=TAGS)
    assert sql.items(f"UPDATE one {clauses} WHERE pk = 'k' RETURNING {returning} *") == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("set_add(ss, <<'x'>>)", "The first argument to SET_ADD must equal the assignment value at 1:20:7"),
        ("set_delete(<<'a'>>, <<'b'>>)", "The first argument to SET_DELETE must equal the assignment value at 1:20:10"),
        ("set_add(t, 'x')", "The second argument to SET_ADD must be a value with type SET at 1:28:1"),
        ("set_add(t, ['x'])", "The second argument to SET_ADD must be a value with type SET at 1:28:1"),
        ("set_add(t)", "SET_ADD must have exactly two arguments at 1:20:7"),
        ("set_add(t, <<'x'>>, <<'y'>>)", "SET_ADD must have exactly two arguments at 1:20:7"),
        ("set_add(t, <<1>>)", "An operand in the update expression has an incorrect data type"),
        ("set_delete(t, <<1>>)", "An operand in the update expression has an incorrect data type"),
        ("set_add(t, <<>>)", "Empty bags are not supported"),
        ("list_append(nope, [1])", "The provided expression refers to an attribute that does not exist in the item"),
        ("frob(t)", "Unrecognized function: frob at 1:20:4"),
    ],
)
def test_an_update_that_cannot_be_made_is_refused(sql, value, message):
    sql.put("one", pk={"S": "k"}, t={"SS": ["a"]}, ss={"SS": ["a"]})
    assert sql.refusal(f"UPDATE one SET t = {value} WHERE pk = 'k'") == message
    assert sql.get("one", pk="k")["t"] == {"SS": ["a"]}


def test_a_place_is_counted_by_line_and_with_quotes(sql):
    assert sql.refusal("UPDATE one\nSET \"tags\" = set_add(\"tags\", 'x')\nWHERE pk = 'k'") == (
        "The second argument to SET_ADD must be a value with type SET at 2:22:6"
    )


def test_a_path_whose_parent_is_missing_cannot_be_set(sql):
    sql.put("one", pk={"S": "k"})
    assert sql.refusal("UPDATE one SET l[0] = 'x' WHERE pk = 'k'") == (
        "The document path provided in the update expression is invalid for update"
    )


def test_a_key_cannot_be_set(sql):
    sql.put("one", pk={"S": "k"})
    with pytest.raises(ValidationException, match="This attribute is part of the key"):
        sql.run("UPDATE one SET pk = 'x' WHERE pk = 'k'")


def test_an_item_stays_within_its_size(sql):
    big = {"S": "x" * 409_600}
    assert sql.refusal("INSERT INTO one VALUE {'pk': 'k', 'x': ?}", big) == (
        "Item size has exceeded the maximum allowed size"
    )
    sql.put("one", pk={"S": "k"})
    assert sql.refusal("UPDATE one SET x = ? WHERE pk = 'k'", big) == (
        "Item size to update has exceeded the maximum allowed size"
    )
