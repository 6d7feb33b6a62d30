"""What updates write, what they show, and how DynamoDB refuses them."""

from __future__ import annotations

import copy

import pytest

from penstock.errors import ValidationException
from penstock.expressions import BoundUpdate, ExpressionError, compile_update


def S(text: str) -> dict:
    return {"S": text}


def N(number: object) -> dict:
    return {"N": str(number)}


def L(*values: dict) -> dict:
    return {"L": list(values)}


def M(**values: dict) -> dict:
    return {"M": values}


def bound(text: str, values: dict | None = None, names: dict | None = None) -> BoundUpdate:
    return compile_update(text).bind(names or {}, values or {})


def updated(text: str, item: dict, values: dict | None = None, names: dict | None = None) -> dict:
    before = copy.deepcopy(item)
    after = bound(text, values, names).apply(item)
    assert item == before, "the item that is given is never changed"
    return after


def refusal(text: str, values: dict | None = None, names: dict | None = None) -> str:
    with pytest.raises(ExpressionError) as refused:
        bound(text, values, names)
    return refused.value.message


def failure(text: str, item: dict, values: dict | None = None, names: dict | None = None) -> str:
    update = bound(text, values, names)
    with pytest.raises(ValidationException) as failed:
        update.apply(item)
    return failed.value.message


# ── what is written ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "item", "expected"),
    [
        ("SET a = :s", {}, {"a": S("x")}),
        ("set a = b, b = a", {"a": N(1), "b": N(2)}, {"a": N(2), "b": N(1)}),
        ("SET a = a + :one", {"a": N(41)}, {"a": N(42)}),
        ("SET a = a - :one", {"a": N("0.5")}, {"a": N("-0.5")}),
        ("SET a = (a - :one)", {"a": N(1)}, {"a": N(0)}),
        ("SET a = (a + :one) - :two", {"a": N(1)}, {"a": N(0)}),
        ("SET a = if_not_exists(a, :one) + :two", {}, {"a": N(3)}),
        ("SET a = if_not_exists(a, :one)", {"a": S("kept")}, {"a": S("kept")}),
        ("SET a = if_not_exists(z.y[3], b)", {"b": N(1)}, {"a": N(1), "b": N(1)}),
        ("SET l = list_append(l, :l)", {"l": L(N(1))}, {"l": L(N(1), S("x"))}),
        ("SET l = list_append(:l, l)", {"l": L(N(1))}, {"l": L(S("x"), N(1))}),
        ("SET l = list_append(if_not_exists(l, :empty), :l)", {}, {"l": L(S("x"))}),
        ("SET l[0] = :s", {"l": L()}, {"l": L(S("x"))}),
        ("SET l[1] = :s", {"l": L(N(0), N(1), N(2))}, {"l": L(N(0), S("x"), N(2))}),
        ("SET l[9] = :s, l[5] = :one", {"l": L(N(0))}, {"l": L(N(0), N(1), S("x"))}),
        ("SET l[0].a = :s", {"l": L(M(a=N(1), b=N(2)))}, {"l": L(M(a=S("x"), b=N(2)))}),
        ("SET m.a.b = :s", {"m": M(a=M(b=N(1), c=N(2)))}, {"m": M(a=M(b=S("x"), c=N(2)))}),
        ("SET m.a = :s, m.b = :one", {"m": M(z=N(0))}, {"m": M(z=N(0), a=S("x"), b=N(1))}),
        ("REMOVE a, b", {"a": N(1), "c": N(2)}, {"c": N(2)}),
        ("REMOVE m.a", {"m": M(a=N(1), b=N(2))}, {"m": M(b=N(2))}),
        ("REMOVE m.z", {"m": M(a=N(1))}, {"m": M(a=N(1))}),
        ("REMOVE l[1]", {"l": L(N(0), N(1), N(2))}, {"l": L(N(0), N(2))}),
        ("REMOVE l[0], l[2]", {"l": L(N(0), N(1), N(2))}, {"l": L(N(1))}),
        ("REMOVE l[7]", {"l": L(N(0))}, {"l": L(N(0))}),
        ("REMOVE l[0] SET l[1] = :s, l[9] = :one", {"l": L(N(0), N(1))}, {"l": L(S("x"), N(1))}),
        ("ADD a :one", {}, {"a": N(1)}),
        ("ADD a :one", {"a": N("99999999999999999999")}, {"a": N("100000000000000000000")}),
        ("ADD a :ss", {}, {"a": {"SS": ["a", "b"]}}),
        ("ADD a :ss", {"a": {"SS": ["b", "c"]}}, {"a": {"SS": ["b", "c", "a"]}}),
        ("ADD m.n :one", {"m": M(n=N(1))}, {"m": M(n=N(2))}),
        ("ADD l[3] :one", {"l": L(N(0))}, {"l": L(N(0), N(1))}),
        ("DELETE a :ss", {"a": {"SS": ["b", "c"]}}, {"a": {"SS": ["c"]}}),
        ("DELETE a :ss", {"a": {"SS": ["a", "b"]}}, {}),
        ("DELETE a :ss", {"b": N(1)}, {"b": N(1)}),
        ("DELETE m.a :ss", {"m": M(a={"SS": ["a"]})}, {"m": M()}),
        ("DELETE m.a :ss", {"m": M()}, {"m": M()}),
        ("ADD n :one SET s = :s REMOVE r DELETE d :ss", {"r": N(1)}, {"n": N(1), "s": S("x")}),
    ],
)
def test_an_update_writes_what_dynamodb_writes(text: str, item: dict, expected: dict) -> None:
    every = {
        ":s": S("x"),
        ":one": N(1),
        ":two": N(2),
        ":l": L(S("x")),
        ":empty": L(),
        ":ss": {"SS": ["a", "b"]},
    }
    values = {name: value for name, value in every.items() if name in compile_update(text).values}
    assert updated(text, item, values) == expected


def test_right_hand_sides_read_the_item_as_it_was() -> None:
    item = {"a": S("k"), "b": M(a=N(1), b=N(2), c=N(3)), "c": L(N(1), N(3))}
    update = bound(
        "set b.c=((c[1])+(b.a)),b.a = a,c[1] = a, c[4] = b.a - b.b, c[2] = b.c add c[8] :b, c[6] :a",
        {":a": N(2), ":b": {"SS": ["a"]}},
    )
    after = update.apply(item)
    assert after == {
        "a": S("k"),
        "b": M(a=S("k"), b=N(2), c=N(4)),
        "c": L(N(1), S("k"), N(3), N(-1), N(2), {"SS": ["a"]}),
    }
    assert update.project(after) == {"b": M(a=S("k"), c=N(4)), "c": L(S("k"), N(3), N(2))}


@pytest.mark.parametrize(
    ("text", "item", "shown"),
    [
        ("SET a = :v", {"a": N(1), "b": N(2)}, {"a": N(1)}),
        ("SET a = :v", {"b": N(2)}, {}),
        ("SET m.a = :v", {"m": M(a=N(1), b=N(2))}, {"m": M(a=N(1))}),
        ("SET m.a.b = :v, m.c = :v", {"m": M(a=M(b=N(1), d=N(2)), c=N(3))}, {"m": M(a=M(b=N(1)), c=N(3))}),
        ("SET l[2] = :v, l[0] = :v", {"l": L(N(0), N(1), N(2))}, {"l": L(N(0), N(2))}),
        ("SET l[1].a = :v", {"l": L(N(0), M(a=N(1), b=N(2)))}, {"l": L(M(a=N(1)))}),
        ("SET m.a = :v", {"m": M(b=N(2))}, {}),
        ("REMOVE a", {"b": N(1)}, {}),
    ],
)
def test_only_what_is_written_is_shown(text: str, item: dict, shown: dict) -> None:
    values = {":v": N(1)} if ":v" in text else {}
    assert bound(text, values).project(item) == shown


def test_it_says_which_attributes_it_writes() -> None:
    update = bound("SET #a.b = :v, c = :v REMOVE d[0]", {":v": N(1)}, {"#a": "x"})
    assert update.attributes == {"x", "c", "d"}
    assert update.nested == {"x", "d"}


def test_what_is_not_written_is_shared() -> None:
    item = {"kept": M(a=L()), "m": M(a=M(), b=N(1))}
    after = updated("SET m.b = :v", item, {":v": N(2)})
    assert after["kept"] is item["kept"]
    assert after["m"]["M"]["a"] is item["m"]["M"]["a"]


# ── what cannot be done to an item ───────────────────────────────────────────────────────────────

BAD_OPERAND = "An operand in the update expression has an incorrect data type"
MISSING = "The provided expression refers to an attribute that does not exist in the item"
BAD_PATH = "The document path provided in the update expression is invalid for update"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("delete d :a", {"SS": ["1"]}),
        ("delete b :a", {"NS": ["1"]}),
        ("delete b.a :a", {"NS": ["1"]}),
        ("delete b.a :a", {"BS": ["YQ=="]}),
        ("delete c :a", {"NS": ["1"]}),
        ("add b :a", {"NS": ["1"]}),
        ("add d :a", {"N": "1"}),
        ("set e = a + :a", {"N": "1"}),
        ("set e = b - :a", {"N": "1"}),
        ("set e = list_append(d, if_not_exists(f, :a))", {"L": []}),
        ("set y.z = nope, e = a + :a", {"N": "1"}),
    ],
)
def test_a_wrong_type_in_the_item(text: str, value: dict) -> None:
    item = {"a": S("k"), "b": M(a={"SS": ["1"]}), "c": N(1), "d": {"NS": ["1"]}}
    assert failure(text, item, {":a": value}) == BAD_OPERAND


@pytest.mark.parametrize(
    "text", ["set c = b", "set e = list_append(b, c)", "set c = b + :n", "set c = if_not_exists(x, y)"]
)
def test_an_attribute_that_is_not_there(text: str) -> None:
    values = {":n": N(1)} if ":n" in text else {}
    assert failure(text, {"a": S("k")}, values) == MISSING


PATHS = ["b.a", "b[1]", "y.a", "y[1]", "c[1]", "d.#1"]


@pytest.mark.parametrize(
    "text",
    [
        *[f"set {path} = :a, x = :a" for path in PATHS],
        *[f"remove {path} set x = :a" for path in PATHS],
        *[f"delete {path} :a set x = :a" for path in PATHS],
        *[f"add {path} :a set x = :a" for path in PATHS],
        "set y.a = nope",
    ],
)
def test_a_path_that_cannot_be_written(text: str) -> None:
    item = {"a": S("k"), "b": S("k"), "c": {"M": {"1": S("a")}}, "d": L(S("a"), S("b"))}
    names = {"#1": "1"} if "#1" in text else {}
    values = {":a": {"SS": ["a"]}} if ":a" in text else {}
    assert failure(text, item, values, names) == BAD_PATH


def test_a_number_that_grows_out_of_range() -> None:
    assert failure("ADD a :v", {"a": N("9" * 38 + "0" * 88)}, {":v": N("9" * 38 + "0" * 88)}).startswith(
        "Number overflow."
    )


# ── what is refused before any item is seen ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "whatever",
        "set a",
        "add a",
        "delete a",
        "set a=set",
        "remove a = b",
        "add a = b",
        "delete a b",
        "delete a if_not_exist(b)",
        "add abort b",
        "remove a b",
        "set a b",
        "set :a = b",
        "add :a b",
        "remove :a",
        "set a = b / c",
        'set a[1] = "eight"',
        "set a[1] = 1",
        "SET a = if_not_exist(a, 100)",
        "SET if_not_exist(a, b) = a",
        "set (a = (b + c))",
        "set a = (b.c).d + e",
        "set a = (b.c)[0] + e",
        "set a = b + c + d",
        "set a = (b + c + d)",
        "set a = list_append(a, b + c)",
        "set a = :b,",
        "set a = :b and b = :c",
    ],
)
def test_syntax_errors(text: str) -> None:
    assert refusal(text).startswith('Syntax error; token: "')


def test_a_syntax_error_shows_its_place() -> None:
    assert refusal("INVALID SYNTAX HERE") == 'Syntax error; token: "INVALID", near: "INVALID SYNTAX"'
    assert refusal("SET a = ") == 'Syntax error; token: "<EOF>", near: "="'
    assert refusal("SET _123 = :v") == 'Syntax error; token: "_", near: "SET _123"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" set #c = :c set abOrt = true ", "Attribute name is a reserved keyword; reserved keyword: abOrt"),
        (" remove Absolute ", "Attribute name is a reserved keyword; reserved keyword: Absolute"),
        ("set #c = if_not_exist(:c) set c = d", "Invalid function name; function: if_not_exist"),
        ("set c = size(d)", "The function is not allowed in an update expression; function: size"),
        ("set a = #c set c = :d", 'The "SET" section can only be used once in an update expression;'),
        ("remove #d set a = b remove e", 'The "REMOVE" section can only be used once in an update expression;'),
        ("add #d :e set a = b add e :f", 'The "ADD" section can only be used once in an update expression;'),
        (
            "delete #d :e set a = b delete #e :f",
            'The "DELETE" section can only be used once in an update expression;',
        ),
        (
            "SET #c = if_not_exists(:c)",
            "An expression attribute name used in the document path is not defined; attribute name: #c",
        ),
        (
            "SET #a = if_not_exists(:c)",
            "An expression attribute value used in expression is not defined; attribute value: :c",
        ),
        (
            "SET a = ((b))",
            "The expression has redundant parentheses;",
        ),
    ],
)
def test_words_functions_sections_and_placeholders(text: str, message: str) -> None:
    assert refusal(text, {":a": S("a"), ":b": S("a")}, {"#a": "a", "#b": "b"}) == message


@pytest.mark.parametrize(
    ("text", "how", "one", "two"),
    [
        ("set d[1] = a, d.b = a, c[1].a = a, #c = if_not_exists(a)", "overlap", "[c, [1], a]", "[c]"),
        ("set #c[3].#d = a, #c[3] = a", "overlap", "[c, [3], [3]]", "[c, [3]]"),
        ("set a = b remove a", "overlap", "[a]", "[a]"),
        ("set a = b, a.b = b", "overlap", "[a]", "[a, b]"),
        ("set #c[3].#d = a, #c.#d[3] = if_not_exists(a)", "conflict", "[c, [3], [3]]", "[c, [3], [3]]"),
        ("remove a.#c set a[1] = #d", "conflict", "[a, c]", "[a, [1]]"),
    ],
)
def test_paths_that_clash(text: str, how: str, one: str, two: str) -> None:
    assert refusal(text, names={"#c": "c", "#d": "[3]"}) == (
        f"Two document paths {how} with each other; must remove or rewrite one of these paths; "
        f"path one: {one}, path two: {two}"
    )


@pytest.mark.parametrize("keyword", ["ADD", "DELETE"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (S("a"), "STRING"),
        ({"NULL": True}, "NULL"),
        ({"BOOL": False}, "BOOLEAN"),
        ({"B": "YQ=="}, "BINARY"),
        (M(), "MAP"),
        (L(), "LIST"),
        (N(1), "NUMBER"),
    ],
)
def test_add_and_delete_take_sets(keyword: str, value: dict, kind: str) -> None:
    text = f"{keyword} a.b :a"
    if keyword == "ADD" and kind == "NUMBER":
        assert updated(text, {"a": M()}, {":a": value}) == {"a": M(b=N(1))}
    else:
        assert refusal(text, {":a": value}) == (
            f"Incorrect operand type for operator or function; operator: {keyword}, operand type: {kind}"
        )


def test_the_last_action_is_looked_at_first() -> None:
    text = "set b = list_append(:a, a), c = if_not_exists(a) add a.b :a"
    assert refusal(text, {":a": S("a")}).endswith("operator: ADD, operand type: STRING")


@pytest.mark.parametrize(
    "operand",
    ["list_append(list_append(a, :l), :l)", "if_not_exists(a, list_append(b, :l))", "list_append(a, :l) + :n"],
)
def test_list_append_is_no_operand(operand: str) -> None:
    assert refusal(f"SET a = {operand}", {":l": L(), ":n": N(1)}) == (
        "The function is not allowed to be used this way in an expression; function: list_append"
    )


@pytest.mark.parametrize("function", ["if_not_exists", "list_append"])
def test_functions_take_two_operands(function: str) -> None:
    assert refusal(f"set a = {function}(c)") == (
        "Incorrect number of operands for operator or function; "
        f"operator or function: {function}, number of operands: 1"
    )


@pytest.mark.parametrize("text", ["set a = if_not_exists(:a, c)", "set a = if_not_exists(if_not_exists(a, b), c)"])
def test_if_not_exists_asks_about_a_path(text: str) -> None:
    assert refusal(text, {":a": S("a")}) == (
        "Operator or function requires a document path; operator or function: if_not_exists"
    )


@pytest.mark.parametrize(
    ("text", "operator", "allowed"),
    [
        ("set a = list_append(:a, a)", "list_append", "L"),
        ("set a = list_append(a, :a)", "list_append", "L"),
        ("set a = a + :a", "+", "N"),
        ("set a = :a + a", "+", "N"),
        ("set a = a - :a", "-", "N"),
        ("set a = :a - a", "-", "N"),
    ],
)
@pytest.mark.parametrize(
    "value",
    [S("a"), N(1), {"B": "YQ=="}, {"BOOL": True}, {"NULL": True}, {"SS": ["a"]}, {"NS": ["1"]}, M(), L()],
)
def test_constants_are_of_the_type_that_is_needed(text: str, operator: str, allowed: str, value: dict) -> None:
    (kind,) = value
    if kind == allowed:
        assert bound(text, {":a": value})
    else:
        assert refusal(text, {":a": value}) == (
            f"Incorrect operand type for operator or function; operator or function: {operator}, operand type: {kind}"
        )


@pytest.mark.parametrize(
    ("text", "creates"),
    [
        ("SET a = :v", True),
        ("ADD a :v", True),
        ("REMOVE a", False),
        ("DELETE a :v", False),
        ("REMOVE a ADD b :v", True),
    ],
)
def test_an_update_that_only_takes_away_creates_no_item(text: str, creates: bool) -> None:
    values = {":v": {"SS": ["x"]}} if ":v" in text else {}
    assert bound(text, values).creates is creates
