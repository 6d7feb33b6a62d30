"""The differ, pair by pair: a table before, a table after, and the changes between."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tables.definitions.definition import ON_DEMAND, Index, Maximum, Table, Throughput
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    ClearStream,
    ClearTtl,
    CreateTable,
    DeleteTable,
    DropIndex,
    RemoveTags,
    ReplaceTable,
    SetDeletionProtection,
    SetIndexMaximum,
    SetIndexWarm,
    SetMaximum,
    SetPitr,
    SetSse,
    SetStream,
    SetTableClass,
    SetTags,
    SetTtl,
    SetWarm,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
)
from penstock.tables.plan.plan import OTHER_KEY, OTHER_LOCAL_INDEXES, diff

EMAIL = Index("email-index", "email:S")
PHONE = Index("phone-index", "phone:S")
NEAR = Index("near-index", "id:S", "at:S", local=True)
FIVE, NINE = Throughput(5, 5), Throughput(9, 9)
KEY_ARN = "arn:aws:kms:us-east-1:123456789012:key/1234abcd"


def table(**members: Any) -> Table:
    return Table(members.pop("name", "users"), members.pop("key", "id:S"), **members)


def with_units(index: Index, units: Throughput) -> Index:
    return Index(index.name, key=index.key, throughput=units)


PAIRS: list[tuple[str, dict[str, Any], dict[str, Any], tuple[Change, ...]]] = [
    ("nothing", {}, {}, ()),
    ("an index is added", {}, {"indexes": [EMAIL]}, (AddIndex(EMAIL),)),
    ("an index is dropped", {"indexes": [EMAIL]}, {}, (DropIndex(EMAIL),)),
    (
        "two are swapped: the drop is first",
        {"indexes": [EMAIL]},
        {"indexes": [PHONE]},
        (DropIndex(EMAIL), AddIndex(PHONE)),
    ),
    (
        "an index gets another key",
        {"indexes": [EMAIL]},
        {"indexes": [Index("email-index", "email:S", "at:S")]},
        (DropIndex(EMAIL, replaced=True), AddIndex(Index("email-index", "email:S", "at:S"), replaces=True)),
    ),
    (
        "an index gets another key type",
        {"indexes": [EMAIL]},
        {"indexes": [Index("email-index", "email:N")]},
        (DropIndex(EMAIL, replaced=True), AddIndex(Index("email-index", "email:N"), replaces=True)),
    ),
    (
        "an index gets another projection",
        {"indexes": [EMAIL]},
        {"indexes": [Index("email-index", "email:S", projection="KEYS_ONLY")]},
        (
            DropIndex(EMAIL, replaced=True),
            AddIndex(Index("email-index", "email:S", projection="KEYS_ONLY"), replaces=True),
        ),
    ),
    (
        "the order of attributes in an index key matters",
        {"indexes": [Index("two", ("a:S", "b:S"))]},
        {"indexes": [Index("two", ("b:S", "a:S"))]},
        (
            DropIndex(Index("two", ("a:S", "b:S")), replaced=True),
            AddIndex(Index("two", ("b:S", "a:S")), replaces=True),
        ),
    ),
    (
        "the order of projected attributes does not",
        {"indexes": [Index("two", "a:S", projection=["x", "y"])]},
        {"indexes": [Index("two", "a:S", projection=["y", "x"])]},
        (),
    ),
    ("TTL on", {}, {"ttl": "ttl"}, (SetTtl("ttl"),)),
    ("TTL off", {"ttl": "ttl"}, {}, (ClearTtl("ttl"),)),
    (
        "TTL on another attribute: off, on",
        {"ttl": "ttl"},
        {"ttl": "expiresAt"},
        (ClearTtl("ttl", replaced=True), SetTtl("expiresAt", replaces="ttl")),
    ),
    ("a stream on", {}, {"stream": "NEW_IMAGE"}, (SetStream("NEW_IMAGE"),)),
    ("a stream off", {"stream": "NEW_IMAGE"}, {}, (ClearStream("NEW_IMAGE"),)),
    (
        "another view: off, on",
        {"stream": "NEW_IMAGE"},
        {"stream": "KEYS_ONLY"},
        (ClearStream("NEW_IMAGE", replaced=True), SetStream("KEYS_ONLY", replaces="NEW_IMAGE")),
    ),
    ("recovery on", {"pitr": False}, {"pitr": True}, (SetPitr(35, 0),)),
    ("recovery off", {"pitr": 7}, {"pitr": False}, (SetPitr(0, 7),)),
    ("recovery of other days", {"pitr": True}, {"pitr": 7}, (SetPitr(7, 35),)),
    ("recovery that nobody asks for stays", {"pitr": True}, {}, ()),
    ("tags are set", {"tags": {"a": "1"}}, {"tags": {"a": "2", "b": "3"}}, (SetTags({"a": "2", "b": "3"}),)),
    ("only those that differ", {"tags": {"a": "1"}}, {"tags": {"a": "1", "b": "3"}}, (SetTags({"b": "3"}),)),
    ("tags are removed", {"tags": {"a": "1", "b": "2"}}, {"tags": {"a": "1"}}, (RemoveTags(("b",)),)),
    ("tags that nobody speaks of stay", {"tags": {"a": "1"}}, {}, ()),
    (
        "the tags of our own making stay",
        {"tags": {"ManagedBy": "penstock", "CreatedAt": "2025", "Environment": "dev", "b": "2"}},
        {"tags": {}},
        (RemoveTags(("b",)),),
    ),
    ("protection on", {"deletion_protection": False}, {"deletion_protection": True}, (SetDeletionProtection(True),)),
    ("protection off", {"deletion_protection": True}, {"deletion_protection": False}, (SetDeletionProtection(False),)),
    ("protection that nobody speaks of stays", {"deletion_protection": True}, {}, ()),
    (
        "protection goes up before an index goes",
        {"indexes": [EMAIL], "pitr": False},
        {"deletion_protection": True, "pitr": True},
        (SetDeletionProtection(True), SetPitr(35, 0), DropIndex(EMAIL)),
    ),
    (
        "and down after all else",
        {"deletion_protection": True, "pitr": True},
        {"deletion_protection": False, "pitr": False, "indexes": [EMAIL]},
        (AddIndex(EMAIL), SetPitr(0, 35), SetDeletionProtection(False)),
    ),
    (
        "another class",
        {},
        {"table_class": "STANDARD_INFREQUENT_ACCESS"},
        (SetTableClass("STANDARD_INFREQUENT_ACCESS"),),
    ),
    ("the class that a table has anyway", {}, {"table_class": "STANDARD"}, ()),
    ("encryption on", {"sse": False}, {"sse": True}, (SetSse(True),)),
    ("encryption with a key of one's own", {"sse": True}, {"sse": KEY_ARN}, (SetSse(KEY_ARN),)),
    ("the same key by its id", {"sse": KEY_ARN}, {"sse": "1234abcd"}, ()),
    ("a key's ARN is all one sees of an AWS-managed one", {"sse": KEY_ARN}, {"sse": True}, ()),
    ("an alias cannot be compared with an ARN", {"sse": KEY_ARN}, {"sse": "alias/jobs"}, ()),
    ("encryption off", {"sse": KEY_ARN}, {"sse": False}, (SetSse(False),)),
    ("on demand to provisioned", {}, {"billing": FIVE}, (UpdateBilling(FIVE, ON_DEMAND),)),
    (
        "with units for every index that stays",
        {"indexes": [EMAIL, PHONE]},
        {"billing": FIVE, "indexes": [with_units(EMAIL, NINE)]},
        (DropIndex(PHONE), UpdateBilling(FIVE, ON_DEMAND, (("email-index", NINE),))),
    ),
    (
        "and before an index that comes",
        {},
        {"billing": FIVE, "indexes": [EMAIL]},
        (UpdateBilling(FIVE, ON_DEMAND), AddIndex(with_units(EMAIL, FIVE))),
    ),
    (
        "provisioned to on demand",
        {"billing": FIVE, "indexes": [EMAIL]},
        {"indexes": [EMAIL]},
        (UpdateBilling(ON_DEMAND, FIVE),),
    ),
    ("other units", {"billing": FIVE}, {"billing": NINE}, (UpdateThroughput(NINE, FIVE),)),
    (
        "other units of an index",
        {"billing": FIVE, "indexes": [EMAIL]},
        {"billing": FIVE, "indexes": [with_units(EMAIL, NINE)]},
        (UpdateIndexThroughput("email-index", NINE, FIVE),),
    ),
    ("a maximum", {}, {"on_demand_max": Maximum(5)}, (SetMaximum(Maximum(5)),)),
    ("no maximum any more", {"on_demand_max": Maximum(5, 6)}, {"on_demand_max": Maximum()}, (SetMaximum(Maximum()),)),
    ("no maximum where there is none", {}, {"on_demand_max": Maximum()}, ()),
    ("a maximum that nobody speaks of stays", {"on_demand_max": Maximum(5, 6)}, {}, ()),
    (
        "a maximum is set anew after provisioned times",
        {"billing": FIVE},
        {"on_demand_max": Maximum(5)},
        (UpdateBilling(ON_DEMAND, FIVE), SetMaximum(Maximum(5))),
    ),
    (
        "a maximum of an index",
        {"indexes": [EMAIL]},
        {"indexes": [Index("email-index", "email:S", on_demand_max=Maximum(5))]},
        (SetIndexMaximum("email-index", Maximum(5)),),
    ),
    ("warmer", {}, {"warm": Throughput(13_000, 4_000)}, (SetWarm(Throughput(13_000, 4_000)),)),
    ("as warm as any new table", {}, {"warm": Throughput(12_000, 4_000)}, ()),
    (
        "warm throughput that has grown by itself",
        {"warm": Throughput(90_000, 90_000)},
        {"warm": Throughput(13_000, 5_000)},
        (),
    ),
    (
        "it never falls",
        {"warm": Throughput(90_000, 4_000)},
        {"warm": Throughput(13_000, 5_000)},
        (SetWarm(Throughput(90_000, 5_000)),),
    ),
    (
        "a warmer index",
        {"indexes": [EMAIL]},
        {"indexes": [Index("email-index", "email:S", warm=Throughput(20_000, 4_000))]},
        (SetIndexWarm("email-index", Throughput(20_000, 4_000)),),
    ),
]


@pytest.mark.parametrize(("before", "after", "changes"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS])
def test_pairs(before: dict[str, Any], after: dict[str, Any], changes: tuple[Change, ...]) -> None:
    assert diff(table(**before), table(**after)) == changes


def test_a_missing_table_is_made_whole() -> None:
    wanted = table(indexes=[EMAIL], ttl="ttl")
    assert diff(None, wanted) == (CreateTable(wanted),)
    assert diff(None, None) == ()


def test_a_table_that_is_not_wanted_is_deleted() -> None:
    assert diff(table(), None) == (DeleteTable(table()),)


@pytest.mark.parametrize("key", ["other:S", "id:N", ("id:S", "at:S")])
def test_another_primary_key_is_another_table(key: Any) -> None:
    live, wanted = table(indexes=[EMAIL]), table(key=key)
    assert diff(live, wanted) == (ReplaceTable(live, wanted, OTHER_KEY),)


def test_another_local_index_is_another_table() -> None:
    live, wanted = table(key=("id:S", "n:N")), table(key=("id:S", "n:N"), indexes=[NEAR], ttl="ttl")
    assert diff(live, wanted) == (ReplaceTable(live, wanted, OTHER_LOCAL_INDEXES),)
    assert diff(wanted, live) == (ReplaceTable(wanted, live, OTHER_LOCAL_INDEXES),)
    assert diff(wanted, wanted) == ()


def test_twenty_indexes_make_room_before_twenty_others_come() -> None:
    old = [Index(f"old-{n:02}", f"a{n}:S") for n in range(20)]
    new = [Index(f"new-{n:02}", f"b{n}:S") for n in range(20)]
    kinds = [type(change) for change in diff(table(indexes=old), table(indexes=new))]
    assert kinds == [DropIndex] * 20 + [AddIndex] * 20
