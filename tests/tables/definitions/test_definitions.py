"""Definitions: how they are spelled, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.tables.definitions.definition import Attribute, Index, Key, Maximum, Table, Throughput
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.sources import check_unique_names


def problems(*arguments: Any, **members: Any) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        Table(*arguments, **members)
    return [str(one) for one in caught.value.problems]


def test_a_key_is_one_attribute_or_two() -> None:
    assert Table("jobs", "id:S").key == Key((Attribute("id", "S"),))
    assert Table("jobs", ("id:S", "at:N")).key == Key((Attribute("id", "S"),), (Attribute("at", "N"),))


def test_the_type_follows_the_last_colon() -> None:
    assert Table("jobs", "a:b:S").key.names == ("a:b",)
    assert Table("jobs", "company#client#job:S").key.names == ("company#client#job",)


def test_an_index_key_has_up_to_four_attributes_of_each_kind() -> None:
    index = Index("places", ("a:S", "b:S", "c:S", "d:N"), ("e:S", "f:B"))
    assert Table("jobs", "id:S", indexes=[index]).indexes[0].key.names == ("a", "b", "c", "d", "e", "f")
    many = Index("places", ("a:S", "b:S", "c:S", "d:N", "e:S"))
    assert problems("jobs", "id:S", indexes=[many]) == [
        "table 'jobs', index 'places': its partition key has 5 attributes (a, b, c, d, e). Use at most 4."
    ]


def test_spelling_does_not_matter() -> None:
    one, two = Index("one", "a:S", projection=["x", "y"]), Index("two", "b:S")
    here = Table("jobs", "id:S", indexes=[one, two], tags={"a": "1", "b": "2"})
    there = Table(
        "jobs", ("id:S",), indexes=(two, Index("one", ["a:S"], projection=("y", "x"))), tags={"b": "2", "a": "1"}
    )
    assert here == there
    assert hash(here) == hash(there)
    assert pickle.loads(pickle.dumps(here)) == here


def test_true_is_35_days_of_recovery_and_1_is_one() -> None:
    assert [Table("jobs", "id:S", pitr=given).pitr for given in (True, False, 1, 7, None)] == [35, 0, 1, 7, None]


def test_an_index_of_a_provisioned_table_has_its_throughput() -> None:
    table = Table("jobs", "id:S", indexes=[Index("one", "a:S")], billing=Throughput(5, 6))
    assert table.indexes[0].throughput == Throughput(5, 6)


def test_all_problems_are_told_at_once() -> None:
    told = problems("a b", ("x", "y:Q"), indexes=[Index("i", "x:S", projection=[])], ttl="x", stream="ALL", pitr=36)
    assert len(told) == 8
    with pytest.raises(
        DefinitionError, match=r"^8 problems:\n  \S+test_definitions.py:\d+: table 'a b': its name has a character"
    ):
        Table("a b", ("x", "y:Q"), indexes=[Index("i", "x:S", projection=[])], ttl="x", stream="ALL", pitr=36)


_ON_DEMAND = {"key": "id:S"}
_MANY = [Index(f"index-{n}", f"a{n}:S") for n in range(21)]
_LOCAL = [Index(f"index-{n}", "id:S", f"a{n}:S", local=True) for n in range(6)]
_WIDE = [Index(f"index-{n}", "a:S", projection=[f"p{n}-{m}" for m in range(20)]) for n in range(6)]


@pytest.mark.parametrize(
    ("members", "place", "text"),
    [
        ({"name": ""}, "table ''", "its name has 0 characters"),
        ({"name": "x" * 256}, f"table '{'x' * 256}'", "its name has 256 characters"),
        ({"key": ()}, "table 'jobs'", "it has no partition key"),
        ({"key": None}, "table 'jobs'", "key is Key(hash=(None,), range=())"),
        ({"key": "id"}, "table 'jobs'", "key attribute 'id' has no type"),
        ({"key": "id:SS"}, "table 'jobs'", "key attribute 'id' has the type 'SS'"),
        ({"key": ":S"}, "table 'jobs'", "the name of a key attribute has 0 bytes"),
        ({"key": f"{'é' * 128}:S"}, "table 'jobs'", "the name of a key attribute has 256 bytes"),
        ({"key": ("id:S", "id:S")}, "table 'jobs'", "'id' is in its key 2 times"),
        ({"key": ("a:S", "b:S", "c:S")}, "table 'jobs'", "its sort key has 2 attributes (b, c)"),
        ({"indexes": [Index("by-id", "id:N")]}, "table 'jobs'", "attribute 'id' is S in its key and N in index by-id"),
        ({"indexes": _MANY}, "table 'jobs'", "it has 21 global indexes"),
        ({"key": ("id:S", "at:S"), "indexes": _LOCAL}, "table 'jobs'", "it has 6 local indexes"),
        ({"indexes": [Index("one", "a:S"), Index("one", "b:S")]}, "table 'jobs'", "2 of its indexes are called 'one'"),
        ({"indexes": _WIDE}, "table 'jobs'", "its indexes list 120 projected attributes in all"),
        ({"indexes": [Index("i", "a:S")]}, "table 'jobs', index 'i'", "its name has 1 characters"),
        ({"indexes": [Index("one")]}, "table 'jobs', index 'one'", "it has no partition key"),
        ({"indexes": [Index("one", "a:S", "a:S")]}, "table 'jobs', index 'one'", "'a' is in its key 2 times"),
        (
            {"indexes": [Index("one", "a:S", projection="SOME")]},
            "table 'jobs', index 'one'",
            "projection: 'SOME' is no projection",
        ),
        (
            {"indexes": [Index("one", "a:S", projection=[f"p{n}" for n in range(21)])]},
            "table 'jobs', index 'one'",
            "it lists 21 projected attributes",
        ),
        (
            {"indexes": [Index("one", "a:S", projection=["p", "p"])]},
            "table 'jobs', index 'one'",
            "projected attribute 'p' is listed 2 times",
        ),
        (
            {"indexes": [Index("one", "id:S", "a:S", local=True)]},
            "table 'jobs', index 'one'",
            "a local index needs a table with a sort key",
        ),
        (
            {"key": ("id:S", "at:S"), "indexes": [Index("one", "x:S", "a:S", local=True)]},
            "table 'jobs', index 'one'",
            "a local index has another partition key than its table",
        ),
        (
            {"key": ("id:S", "at:S"), "indexes": [Index("one", "id:S", local=True)]},
            "table 'jobs', index 'one'",
            "a local index has no sort key of its own",
        ),
        ({"ttl": "id"}, "table 'jobs'", "its TTL attribute 'id' is a part of its key"),
        ({"ttl": ""}, "table 'jobs'", "the name of its TTL attribute has 0 bytes"),
        (
            {"ttl": "end", "indexes": [Index("one", "end:S")]},
            "table 'jobs'",
            "its TTL attribute 'end' is of type S in an index",
        ),
        ({"billing": "cheap"}, "table 'jobs'", "billing: 'cheap' is no capacity"),
        ({"billing": Throughput(0, 1)}, "table 'jobs'", "its throughput is below 1"),
        (
            {"billing": Throughput(1, 1), "on_demand_max": Maximum(5)},
            "table 'jobs'",
            "it has an on-demand maximum, and its table is provisioned",
        ),
        ({"on_demand_max": Maximum(0)}, "table 'jobs'", "its on-demand maximum is below 1"),
        (
            {"indexes": [Index("one", "a:S", throughput=Throughput(1, 1))]},
            "table 'jobs', index 'one'",
            "it has a throughput, and its table is on demand",
        ),
        ({"stream": "EVERYTHING"}, "table 'jobs'", "stream: 'EVERYTHING' is no stream view"),
        ({"table_class": "CHEAP"}, "table 'jobs'", "table_class: 'CHEAP' is no table class"),
        ({"pitr": 36}, "table 'jobs'", "point-in-time recovery of 36 days"),
        ({"sse": ""}, "table 'jobs'", "its KMS key has no name"),
        ({"tags": {f"k{n}": "" for n in range(51)}}, "table 'jobs'", "it has 51 tags"),
        ({"tags": {"CostCentre": 42}}, "table 'jobs'", "tag 'CostCentre' = 42 is no text"),
        ({"tags": {"aws:x": ""}}, "table 'jobs'", "tag key 'aws:x' is AWS's own"),
        ({"tags": {"x": "v" * 257}}, "table 'jobs'", "the value of tag 'x' is refused"),
    ],
)
def test_what_is_refused(members: dict[str, Any], place: str, text: str) -> None:
    given = {"name": "jobs", "key": "id:S"} | members
    with pytest.raises(DefinitionError) as caught:
        Table(given.pop("name"), given.pop("key"), **given)
    (found,) = caught.value.problems
    assert (found.place, found.text) == (place, text)
    assert found.mend


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("deletion_protection", "no"),
        ("deletion_protection", 0),
        ("pitr", "yes"),
        ("pitr", 1.5),
        ("tags", ["a"]),
        ("tags", []),
        ("tags", "a"),
        ("ttl", 5),
        ("ttl", []),
        ("indexes", "by-x"),
        ("indexes", ["by-x"]),
        ("indexes", None),
        ("indexes", Index("by-x", "x:S")),
        ("sse", 1),
        ("sse", []),
        ("warm", 5),
        ("warm", Throughput("5", 5)),  # type: ignore[arg-type]
        ("on_demand_max", 5),
        ("on_demand_max", Maximum("5")),  # type: ignore[arg-type]
    ],
)
def test_a_member_of_another_type_is_refused_by_its_name(member: str, value: Any) -> None:
    (told,) = problems("jobs", "id:S", **{member: value})
    assert told.startswith(f"table 'jobs': {member} is ")
    assert "Use " in told


@pytest.mark.parametrize(
    ("member", "value"),
    [("projection", 5), ("projection", [5]), ("projection", None), ("local", "no"), ("throughput", 5), ("warm", "hot")],
)
def test_a_member_of_an_index_of_another_type_is_refused_by_its_name(member: str, value: Any) -> None:
    (told,) = problems("jobs", "id:S", indexes=[Index("by-x", "x:S", **{member: value})])
    assert told.startswith(f"table 'jobs', index 'by-x': {member} is ")


@pytest.mark.parametrize(("member", "value"), [("stream", []), ("stream", 5), ("table_class", 5), ("billing", 5)])
def test_a_choice_of_another_type_is_refused(member: str, value: Any) -> None:
    (told,) = problems("jobs", "id:S", **{member: value})
    assert told.startswith(f"table 'jobs': {member}: {value!r} is no ")


def test_indexes_may_come_from_a_generator() -> None:
    assert [one.name for one in Table("jobs", "id:S", indexes=(Index(n, "a:S") for n in ("one", "abc"))).indexes] == [
        "abc",
        "one",
    ]


def test_two_tables_of_one_name_are_refused_together() -> None:
    with pytest.raises(DefinitionError, match="'jobs': it is defined 2 times"):
        check_unique_names([Table("jobs", "id:S"), Table("jobs", "x:S"), Table("others", "x:S")])


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"sse": "AES256"}, "sse is 'AES256'"),
        ({"sse": "KMS"}, "sse is 'KMS'"),
        ({"key": None}, "key is"),
        ({"key": 5}, "key is"),
        ({"key": b"id:S"}, "key is"),
        ({"key": ["a:S", None]}, "key is"),
        ({"key": {"hash": "id:S"}}, "key is"),
        ({"indexes": [Index("by-state", None)]}, "table 'jobs', index 'by-state': key is"),  # type: ignore[arg-type]
        ({"indexes": [Index("by-state", key="x")]}, "table 'jobs', index 'by-state': key is"),  # type: ignore[arg-type]
        ({"billing": Throughput(True, 2)}, "is no capacity"),
        ({"deletion_protection": "no"}, "deletion_protection is 'no'"),
    ],
)
def test_a_member_of_another_kind_is_named_with_its_table(members: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Table(**({"name": "jobs", "key": "id:S"} | members))
    assert told in str(caught.value) and "table 'jobs'" in str(caught.value)
