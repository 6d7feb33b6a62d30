"""A table's handle: in memory, on a file and over HTTP alike."""

from __future__ import annotations

import pickle
from decimal import Decimal

import pytest

import penstock
from penstock import F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.keys import TableKey, identity
from penstock.client.items.values import InvalidValue, encode_item
from penstock.errors import ConditionalCheckFailedException, ResourceNotFoundException, ValidationException

KEY = {"company": "c1", "number": 1}


def test_an_item_comes_back_as_it_was_put(expenses):
    item = {
        **KEY,
        "rate": Decimal("0.17"),
        "float": 0.1,
        "big": 10**30,
        "tags": {"a", "b"},
        "sizes": {1, Decimal("2.5")},
        "blob": b"\x00\xff",
        "blobs": {b"a", b"b"},
        "lines": [{"sku": "x", "n": 1}, None, True, ""],
        "empty": {},
    }
    assert expenses.put(item) is None
    assert expenses.get(KEY, consistent=True) == {**item, "float": Decimal("0.1")}


def test_an_item_that_is_not_there_is_none(expenses):
    assert expenses.get(KEY) is None
    assert expenses.delete(KEY) is None
    assert expenses.delete(KEY, return_old=True) is None


def test_a_selection_reads_a_part(expenses):
    expenses.put({**KEY, "size": 1, "lines": [{"sku": "x", "n": 1}]})
    assert expenses.get(KEY, select=["size", F("lines", 0, "sku")]) == {"size": 1, "lines": [{"sku": "x"}]}


def test_the_item_before_is_given_when_asked_for(expenses):
    expenses.put({**KEY, "n": 1})
    assert expenses.put({**KEY, "n": 2}, return_old=True) == {**KEY, "n": 1}
    assert expenses.update(KEY, set={"n": 3}, return_old=True) == {**KEY, "n": 2}
    assert expenses.update(KEY, set={"n": 4}, return_new=True) == {**KEY, "n": 4}
    assert expenses.delete(KEY, return_old=True) == {**KEY, "n": 4}
    with pytest.raises(ValueError, match="not both"):
        expenses.update(KEY, set={"n": 4}, return_old=True, return_new=True)


def test_a_failed_condition_shows_the_item_that_stood_in_the_way(expenses):
    expenses.put({**KEY, "email": "a@example.org"}, if_=F("company").missing())
    with pytest.raises(penstock.ConditionFailed) as failed:
        expenses.put({**KEY, "email": "b@example.org"}, if_=F("company").missing())
    assert failed.value.item == {**KEY, "email": "a@example.org"}
    assert failed.value.table == "expenses"
    assert failed.value.code == "ConditionalCheckFailedException"
    assert isinstance(failed.value, ConditionalCheckFailedException)
    assert not failed.value.retryable
    with pytest.raises(penstock.ConditionFailed) as failed:
        expenses.update({**KEY, "number": 2}, set={"a": 1}, if_=F("email").exists())
    assert failed.value.item is None
    assert failed.value.key == {**KEY, "number": 2}
    with pytest.raises(penstock.ConditionFailed, match=r"expenses {'company': 'c1', 'number': 1}"):
        expenses.delete(KEY, if_=F("email") == "c@example.org")


def test_a_failed_condition_travels_between_processes():
    error = ConditionalCheckFailedException("no", Item=encode_item(KEY))
    error.maybe_ours = True
    failed = pickle.loads(pickle.dumps(ConditionFailed.of(error, "expenses", dict(KEY))))
    assert (failed.item, failed.table, failed.key, failed.message, failed.maybe_ours) == (
        KEY,
        "expenses",
        KEY,
        "no",
        True,
    )


def test_an_update_does_everything_at_once(expenses):
    expenses.put({**KEY, "n": 1, "tags": {"a", "b"}, "list": [1], "old": True, "map": {"x": 1}})
    after = expenses.update(
        KEY,
        set={
            "doubled": F("n") + F("n"),
            "list": F("list").append([2]),
            F("map", "y"): 2,
            "seen": F("seen").if_missing(0) + 1,
        },
        remove=["old", F("map", "x")],
        add={"n": Decimal("1.5")},
        delete={"tags": {"a"}},
        if_=F("old") == True,  # noqa: E712
        return_new=True,
    )
    assert after == {
        **KEY,
        "n": Decimal("2.5"),
        "doubled": 2,
        "list": [1, 2],
        "map": {"y": 2},
        "seen": 1,
        "tags": {"b"},
    }


def test_an_update_of_nothing_makes_the_item(expenses):
    assert expenses.update(KEY, return_new=True) == KEY


def test_expressions_of_dynamodbs_own_are_taken_as_they_are(expenses):
    expenses.put({**KEY, "n": 1}, if_="attribute_not_exists(#c)", names={"#c": "company"})
    with pytest.raises(penstock.ConditionFailed):
        expenses.put(KEY, if_="attribute_not_exists(#c)", names={"#c": "company"})
    after = expenses.update(
        KEY,
        expression="SET #n = #n + :by",
        if_="#n = :was",
        names={"#n": "n"},
        values={":by": 2, ":was": 1},
        return_new=True,
    )
    assert after == {**KEY, "n": 3}
    assert list(expenses.scan(filter="#n > :least", names={"#n": "n"}, values={":least": 2})) == [after]
    whole = expenses.query(
        sort="company = :c AND #n BETWEEN :a AND :b", names={"#n": "number"}, values={":c": "c1", ":a": 0, ":b": 9}
    )
    assert list(whole) == [after]
    with pytest.raises(ValueError, match="not both"):
        expenses.update(KEY, expression="SET a = :a", set={"a": 1})


def test_text_and_python_may_meet_in_one_request(expenses):
    expenses.put({**KEY, "n": 1})
    after = expenses.update(
        KEY, set={"n": 5}, if_="#mine = :v0", names={"#mine": "n"}, values={":v0": 1}, return_new=True
    )
    assert after == {**KEY, "n": 5}


def test_a_query_reads_one_partition_in_order(expenses):
    expenses.batch_write({"company": f"c{n % 2}", "number": n, "even": n % 4 == 0} for n in range(20))
    assert [item["number"] for item in expenses.query(company="c1")] == list(range(1, 20, 2))
    assert [item["number"] for item in expenses.query(company="c1", newest_first=True, limit=3)] == [19, 17, 15]
    assert [item["number"] for item in expenses.query(company="c0", sort=F("number").between(3, 9))] == [4, 6, 8]
    assert [item["number"] for item in expenses.query(company="c0", sort=F("number") > 15)] == [16, 18]
    assert [item["number"] for item in expenses.query(company="c0", number=4)] == [4]
    assert [item["number"] for item in expenses.query(key={"company": "c0"}, filter=F("even") == True, limit=2)] == [  # noqa: E712
        0,
        4,
    ]
    assert list(expenses.query(company="c1", number=1, select=["number"])) == [{"number": 1}]
    assert list(expenses.query(company="none")) == []


def test_a_query_of_an_index_is_told_by_its_name(expenses):
    expenses.put({**KEY, "email": "a@example.org"})
    expenses.put({**KEY, "number": 2, "email": "b@example.org"})
    assert list(expenses.query(index="by-email", email="a@example.org")) == [{**KEY, "email": "a@example.org"}]
    assert len(list(expenses.scan(index="by-email"))) == 2


def test_a_query_needs_a_key(expenses):
    with pytest.raises(ValueError, match="needs the partition key"):
        expenses.query(limit=1)
    with pytest.raises(InvalidValue, match="company: a key attribute must not be empty"):
        expenses.query(company="")
    with pytest.raises(ValueError, match="limit is at least 1"):
        expenses.query(company="c1", limit=0)


def test_dynamodbs_own_errors_come_through(db, expenses):
    with pytest.raises(ResourceNotFoundException):
        db.table("nothing").get({"id": "1"})
    with pytest.raises(ValidationException):
        expenses.get({"company": "c1"})


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"company": "", "number": 1}, "^company: a key attribute must not be empty"),
        ({"company": b"", "number": 1}, "^company: a key attribute must not be empty"),
        ({"company": "c1", "number": None}, "^number: a key attribute is a str, a number or bytes"),
        ({"company": "c1", "number": float("nan")}, "^number: NaN"),
    ],
)
def test_an_impossible_key_is_refused_before_it_is_sent(key, message):
    silent = penstock.Database(Silent()).table("expenses")
    for call in (silent.get, silent.delete, silent.update):
        with pytest.raises(InvalidValue, match=message):
            call(key)


class Silent:
    """A transport that must not be used."""

    name = "silent"

    def execute(self, operation, request):
        raise AssertionError(f"{operation} was sent")

    def close(self):
        pass


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"company": "c1"}, "^number: the key attribute is missing"),
        ({"company": "c1", "number": "1"}, "^number: the key attribute is a number, type N; given type S"),
        ({"company": "", "number": 1}, "^company: a key attribute must not be empty"),
        ({"company": "é" * 1025, "number": 1}, "^company: a key attribute of 2,050 bytes"),
    ],
)
def test_a_declared_key_is_checked_before_it_is_sent(item, message):
    table = penstock.Database(Silent()).table("expenses", key=("company:S", "number:N"))
    with pytest.raises(InvalidValue, match=message):
        table.put(item)
    with pytest.raises(InvalidValue, match=message):
        table.get(item)


def test_a_key_with_too_much_is_refused_where_the_key_is_known():
    table = penstock.Database(Silent()).table("expenses", key=("company:S", "number:N"))
    with pytest.raises(InvalidValue, match=r"^extra: not an attribute of the key, which is company and number"):
        table.get({**KEY, "extra": 1})
    with pytest.raises(TypeError, match="a key is a dict"):
        table.get("c1")


@pytest.mark.parametrize("key", ["id", "id:X", ":S", (), ("a:S", "b:S", "c:S")])
def test_a_key_is_declared_as_name_and_type(key):
    with pytest.raises(ValueError, match="key"):
        TableKey.parse(key)


def test_the_key_is_asked_once(db):
    asked = []
    execute = db.transport.execute

    class Watching(Silent):
        def execute(self, operation, request):
            asked.append(operation)
            return execute(operation, request)

    watched = penstock.Database(Watching())
    assert watched.table("expenses").key.names == ("company", "number")
    assert watched.table("expenses").key.start_names("by-email") == ("company", "number", "email")
    assert asked == ["DescribeTable"]


def test_one_item_has_one_identity():
    one = identity(encode_item({"company": "c1", "number": Decimal("1.0")}))
    assert one == identity(encode_item({"number": 1, "company": "c1"}))
    assert one != identity(encode_item({"number": 2, "company": "c1"}))


@pytest.mark.parametrize("key", ["id:S", ("z:N", "a:B"), ("a:S", "b:N")])
def test_an_items_identity_is_that_of_its_key(key):
    schema = TableKey.parse(key)
    values = {"S": {"S": "text"}, "N": {"N": "1.50"}, "B": {"B": "eA=="}}
    item = {"other": {"S": "x"}, **{one.name: values[one.type] for one in schema.attributes}}
    assert schema.identity_of(item) == identity(schema.key_of(item))
    assert schema == TableKey.parse(key)
