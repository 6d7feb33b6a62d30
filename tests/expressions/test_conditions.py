"""What conditions say of items."""

from __future__ import annotations

import pytest

from penstock.expressions import compile_condition

ITEM = {
    "s": {"S": "hello"},
    "t": {"S": "world"},
    "u": {"S": "h€llo𝄞"},
    "n": {"N": "10"},
    "d": {"N": "9.5"},
    "big": {"N": "12345678901234567890123456789012345678"},
    "b": {"B": "aGVsbG8="},
    "yes": {"BOOL": True},
    "nil": {"NULL": True},
    "ss": {"SS": ["a", "b", "c"]},
    "ns": {"NS": ["1", "2"]},
    "bs": {"BS": ["YQ=="]},
    "l": {"L": [{"N": "1"}, {"S": "x"}, {"L": [{"N": "2"}]}, {"SS": ["p", "q"]}]},
    "m": {"M": {"x": {"N": "1"}, "in": {"M": {"y": {"S": "deep"}}}}},
    "blank": {"S": ""},
}
NAMES = {"#in": "in"}


def holds(text: str, **values: dict) -> bool:
    bound = compile_condition(text).bind(NAMES, {f":{name}": value for name, value in values.items()})
    return bound(ITEM)


def S(text: str) -> dict:
    return {"S": text}


def N(number: object) -> dict:
    return {"N": str(number)}


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("s = :v", S("hello"), True),
        ("s = :v", S("Hello"), False),
        ("s = :v", N(1), False),
        ("s <> :v", N(1), True),
        ("s <> :v", S("hello"), False),
        ("n = :v", N(10), True),
        ("n > d AND n = :v", N(10), True),
        ("n > :v", N(9), True),
        ("n < :v", N("10.000000000000000000000000001"), True),
        ("d >= :v", N("9.5"), True),
        ("big < :v", N("12345678901234567890123456789012345679"), True),
        ("big < :v", N("12345678901234567890123456789012345678"), False),
        ("n < :v", S("9"), False),
        ("NOT n < :v", S("9"), True),
        ("s < :v", S("hello!"), True),
        ("s > :v", S("€"), False),
        ("b > :v", {"B": "aGVsbA=="}, True),
        ("b = :v", {"B": "aGVsbG8="}, True),
        ("yes = :v", {"BOOL": True}, True),
        ("yes = :v", {"BOOL": False}, False),
        ("nil = :v", {"NULL": True}, True),
        ("ss = :v", {"SS": ["c", "a", "b"]}, True),
        ("ss = :v", {"SS": ["a", "b"]}, False),
        ("ns = :v", {"NS": ["2", "1"]}, True),
        ("l[3] = :v", {"SS": ["q", "p"]}, True),
        ("m = :v", {"M": {"in": {"M": {"y": S("deep")}}, "x": N(1)}}, True),
        ("m.#in.y = :v", S("deep"), True),
        ("m.#in.y = :v", S("other"), False),
        ("l[2][0] = :v", N(2), True),
        ("l[9] = :v", N(2), False),
        ("s.x = :v", N(2), False),
        ("l.x = :v", N(2), False),
        ("m[0] = :v", N(2), False),
        ("nope = :v", N(2), False),
        ("nope <> :v", N(2), True),
        ("nope < :v", N(2), False),
        ("NOT nope < :v", N(2), True),
        (":v = s", S("hello"), True),
        (":v > n", N(11), True),
        ("n BETWEEN :v AND n2", N(1), False),
        ("d BETWEEN :v AND n", N(1), True),
        ("n BETWEEN d AND :v", N(10), True),
        ("n IN (:v, s)", N(10), True),
        ("n IN (:v, d)", N(11), False),
        ("nope IN (:v)", N(11), False),
        ("ss IN (:v)", {"SS": ["b", "a", "c"]}, True),
        (":v IN (n, d)", N("9.5"), True),
        ("attribute_type(s, :v)", S("S"), True),
        ("attribute_type(s, :v)", S("N"), False),
        ("attribute_type(nope, :v)", S("S"), False),
        ("attribute_type(:v, :v)", S("S"), True),
        ("attribute_type(:v, :v)", S("N"), False),
        ("attribute_type(nil, :v)", S("NULL"), True),
        ("begins_with(s, :v)", S("hel"), True),
        ("begins_with(s, :v)", S(""), True),
        ("begins_with(s, :v)", S("ello"), False),
        ("begins_with(b, :v)", {"B": "aGVs"}, True),
        ("begins_with(n, :v)", S("1"), False),
        ("begins_with(nope, :v)", S("1"), False),
        ("begins_with(:v, s)", S("hello world"), True),
        ("contains(s, :v)", S("ell"), True),
        ("contains(s, :v)", S("x"), False),
        ("contains(s, :v)", N(1), False),
        ("contains(ss, :v)", S("a"), True),
        ("contains(ss, :v)", N(1), False),
        ("contains(ns, :v)", N(2), True),
        ("contains(bs, :v)", {"B": "YQ=="}, True),
        ("contains(b, :v)", {"B": "bGw="}, True),
        ("contains(l, :v)", S("x"), True),
        ("contains(l, :v)", {"SS": ["q", "p"]}, True),
        ("contains(l, :v)", {"L": [N(2)]}, True),
        ("contains(l, :v)", N(2), False),
        ("contains(m, :v)", S("x"), False),
        ("contains(n, :v)", N(1), False),
        ("contains(nope, :v)", S("x"), False),
        ("contains(:v, t)", S("hello world"), True),
    ],
)
def test_a_condition_holds_as_it_does_in_dynamodb(text: str, value: dict, expected: bool) -> None:
    assert holds(text, v=value) is expected


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("s", 5),
        ("u", 7),
        ("b", 5),
        ("ss", 3),
        ("ns", 2),
        ("bs", 1),
        ("l", 4),
        ("m", 2),
        ("m.#in", 1),
        ("blank", 0),
    ],
)
def test_size_counts_characters_bytes_or_elements(text: str, size: int) -> None:
    assert holds(f"size({text}) = :v", v=N(size))
    assert not holds(f"size({text}) > :v", v=N(size))


@pytest.mark.parametrize("text", ["n", "yes", "nil", "nope"])
def test_what_has_no_size_compares_with_nothing(text: str) -> None:
    assert not holds(f"size({text}) >= :v", v=N(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attribute_exists(s)", True),
        ("attribute_exists(nope)", False),
        ("attribute_exists(m.#in.y)", True),
        ("attribute_exists(m.nope)", False),
        ("attribute_exists(l[3])", True),
        ("attribute_exists(l[4])", False),
        ("attribute_exists(blank)", True),
        ("attribute_not_exists(s)", False),
        ("attribute_not_exists(l[4])", True),
        ("attribute_not_exists(s.x)", True),
        ("s = s2 OR attribute_exists(s)", True),
        ("attribute_exists(s) AND attribute_exists(nope)", False),
        ("attribute_exists(nope) AND attribute_exists(nope) OR attribute_exists(s)", True),
        ("attribute_exists(nope) AND (attribute_exists(nope) OR attribute_exists(s))", False),
        ("NOT attribute_exists(nope) AND attribute_exists(s)", True),
        ("NOT (attribute_exists(nope) OR attribute_exists(s))", False),
        ("NOT NOT attribute_exists(s)", True),
        ("not attribute_exists(s) oR NoT attribute_exists(nope) anD attribute_exists(t)", True),
        ("attribute_exists(s) AND attribute_exists(t) AND attribute_exists(n)", True),
        ("attribute_exists(x) OR attribute_exists(y) OR attribute_exists(n)", True),
        ("attribute_exists(x) OR attribute_exists(y) OR attribute_exists(z)", False),
    ],
)
def test_logic(text: str, expected: bool) -> None:
    assert holds(text) is expected


def test_it_says_which_attributes_it_reads() -> None:
    condition = compile_condition("#a.b = :v AND size(c) > d[0] OR contains(e, :w)")
    assert condition.attributes({"#a": "x"}) == ("x", "c", "d", "e")
    assert condition.nested_attributes({"#a": "x"}) == {"x", "d"}
    assert condition.names == {"#a"}
    assert condition.values == {":v", ":w"}


def test_a_text_is_compiled_once() -> None:
    assert compile_condition("a = :v") is compile_condition("a = :v")
