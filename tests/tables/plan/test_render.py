"""A plan as it is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from table_strategies import tables

from penstock.tables.definitions.definition import Index, Maximum, Table, Throughput, VectorIndex
from penstock.tables.plan.changes import (
    Blocks,
    Destroys,
    Fills,
    Quick,
    Refused,
    SetSse,
    SetTags,
    UpdateIndexThroughput,
    about,
    cost_of,
)
from penstock.tables.plan.plan import diff, plan_of, plan_table
from penstock.tables.plan.render import plan_json, render_lines, render_text

USERS = Table("users", "id:S")
WITH_INDEX = Table("users", "id:S", indexes=[Index("by-date", "companyId:S", "createdAt:S")])


def test_the_plan_names_the_cost_before_the_question() -> None:
    plan = plan_of(
        [
            plan_table("construction-expenses-staging-companies", None, USERS),
            plan_table("construction-expenses-staging-company-expenses", USERS, WITH_INDEX, 160_000),
            plan_table("construction-expenses-staging-invitations", USERS, USERS),
        ]
    )
    assert render_text(plan).splitlines() == [
        "  + construction-expenses-staging-companies          key id (S)",
        "                                                     on demand",
        "  ~ construction-expenses-staging-company-expenses   + index by-date (companyId, createdAt)   "
        "fills in the background, about 40 s",
        "Plan: 1 to create, 1 to change.",
    ]


def test_columns_stand_under_each_other() -> None:
    plan = plan_of(
        [
            plan_table(
                "jobs", USERS, Table("users", "id:S", indexes=[Index("by_due", "due_at:N")], ttl="ttl"), 160_000
            ),
            plan_table("accounts", USERS, Table("users", "key:S"), 5),
            plan_table("old", USERS, None, 1_200),
        ]
    )
    assert render_text(plan).splitlines() == [
        "  ~ jobs       + index by_due (due_at)        fills in the background, about 40 s",
        "               + ttl ttl                      items whose time has passed are deleted from then on",
        "-/+ accounts   replace: primary key changes   use `penstock tables rekey`, which keeps the data",
        "  - old                                       destroys the table and its 1,200 items",
        "Plan: 1 to change, 1 to delete, 1 refused.",
    ]


def test_nothing_to_do_is_said() -> None:
    plan = plan_of([plan_table("users", USERS, USERS)])
    assert plan.is_empty
    assert render_text(plan) == "Nothing to do: 1 table as defined."


def test_a_protected_table_is_not_deleted() -> None:
    plan = plan_of([plan_table("users", Table("users", "id:S", deletion_protection=True), None)])
    assert plan.counts["refused"] == 1
    assert "set deletion_protection=False first" in render_text(plan)


def test_an_index_of_another_key_says_that_queries_will_fail() -> None:
    changed = Table("users", "id:S", indexes=[Index("by-date", "companyId:S")])
    text = render_text(plan_of([plan_table("users", WITH_INDEX, changed)]))
    assert "- index by-date" in text
    assert "`penstock tables change-index` leaves no gap" in text


def test_a_vector_index_of_another_shape_is_not_for_change_index() -> None:
    was, wanted = (
        Table("papers", "id:S", vector_indexes=[VectorIndex("near", "e", dimensions=3, distance=distance)])
        for distance in ("cosine", "euclidean")
    )
    text = render_text(plan_of([plan_table("papers", wanted, was)]))
    assert "a new one under another name leaves no gap" in text
    assert "change-index" not in text


def test_pieces_have_styles() -> None:
    (first, second) = render_lines(plan_of([plan_table("users", USERS, WITH_INDEX)]))
    assert [piece.style for piece in first] == ["change", "create", "cost"]
    assert [piece.style for piece in second] == ["plain"]


def test_a_program_reads_the_same() -> None:
    plan = plan_of([plan_table("users", USERS, WITH_INDEX, 160_000), plan_table("same", USERS, USERS)])
    assert plan_json(plan) == {
        "tables": [
            {
                "table": "users",
                "fate": "change",
                "items": 160_000,
                "changes": [
                    {
                        "change": "AddIndex",
                        "text": "+ index by-date (companyId, createdAt)",
                        "index": "by-date",
                        "cost": {"kind": "fills", "seconds": 40.0, "text": "fills in the background, about 40 s"},
                    }
                ],
            },
            {"table": "same", "fate": "keep", "items": 0, "changes": []},
        ],
        "counts": {"create": 0, "change": 1, "delete": 0, "refused": 0, "keep": 1},
    }


@given(tables(), tables())
def test_every_plan_can_be_shown(live: Table, wanted: Table) -> None:
    plan = plan_of([plan_table("things", live, wanted, 10)])
    assert len(render_text(plan).splitlines()) == max(1, len(diff(live, wanted)) + 1)
    assert len(plan_json(plan)["tables"][0]["changes"]) == len(diff(live, wanted))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "a few seconds"),
        (40, "about 40 s"),
        (180, "about 3 min"),
        (7200, "about 2 h"),
        (300_000, "about 3 days"),
    ],
)
def test_times_are_said_as_one_would(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_an_index_fills_at_what_it_can_write() -> None:
    slow = Index("slow", "a:S", throughput=Throughput(1, 10))
    (change,) = diff(
        Table("t", "id:S", billing=Throughput(1, 10)), Table("t", "id:S", billing=Throughput(1, 10), indexes=[slow])
    )
    assert cost_of(change, 1_000) == Fills(100)


def test_each_kind_of_cost() -> None:
    assert isinstance(cost_of(SetTags({"a": "b"})), Quick)
    assert isinstance(cost_of(SetSse(True)), Blocks)
    assert isinstance(cost_of(UpdateIndexThroughput("x", Throughput(1, 1), Throughput(2, 2))), Blocks)
    assert isinstance(cost_of(diff(USERS, None)[0]), Destroys)
    assert isinstance(cost_of(diff(USERS, Table("users", "x:S"))[0]), Refused)


def test_a_new_table_is_shown_in_full() -> None:
    full = Table(
        "orders",
        ("id:S", "at:N"),
        indexes=[
            Index("by-amount", "id:S", "amount:N", local=True, projection="KEYS_ONLY"),
            Index("by-mail", "mail:S", projection=["name", "phone"], on_demand_max=Maximum(5, None)),
            Index("by-place", ("country:S", "city:S"), "street:B"),
        ],
        ttl="ends",
        stream="NEW_IMAGE",
        pitr=7,
        tags={"team": "a", "cost": "b"},
        on_demand_max=Maximum(100, 50),
        warm=Throughput(20_000, 8_000),
        table_class="STANDARD_INFREQUENT_ACCESS",
        deletion_protection=True,
        sse="alias/mine",
    )
    assert render_text(plan_of([plan_table("orders", None, full)])).splitlines() == [
        "  + orders   key id (S), sort key at (N)",
        "             local index by-amount: id (S), sort key amount (N), keys only",
        "             index by-mail: mail (S), with name, phone, at most 5 read",
        "             index by-place: country (S), city (S), sort key street (B), all attributes",
        "             on demand, at most 100 read, 50 write, warm for 20,000 read, 8,000 write",
        "             ttl ends",
        "             stream NEW_IMAGE",
        "             point-in-time recovery, 7 days",
        "             table class STANDARD_INFREQUENT_ACCESS",
        "             encryption with key alias/mine",
        "             deletion protection",
        "             tags cost=b, team=a",
        "Plan: 1 to create.",
    ]
    (change,) = plan_json(plan_of([plan_table("orders", None, full)]))["tables"][0]["changes"]
    assert change["definition"]["TimeToLiveDescription"]["AttributeName"] == "ends"


def test_a_new_provisioned_table_shows_its_units() -> None:
    units = Table("t", "id:S", billing=Throughput(5, 10), indexes=[Index("by-x", "x:S", throughput=Throughput(1, 2))])
    text = render_text(plan_of([plan_table("t", None, units)]))
    assert "index by-x: x (S), all attributes, 1 read, 2 write\n" in text and "5 read, 10 write\n" in text
