"""Time and money of a whole plan: sums, upper bounds, and what is not known."""

from __future__ import annotations

import pytest

from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import Index, Naming, Table, Throughput
from penstock.tables.plan.estimate import GB, Estimate, estimate
from penstock.tables.plan.survey import Live, Survey, survey_table

PLAIN = Table("t", "id:S")
INDEXED = Table("t", "id:S", indexes=[Index("by-x", "x:S")])


def of(*tables: tuple[Table | None, Table], items: int = 0, size: int = 0) -> Estimate:
    surveys = []
    for at, (live, wanted) in enumerate(tables):
        facts = Facts(f"t{at}", "ACTIVE", items, size, "arn")
        surveys.append(survey_table(f"t{at}", wanted, None if live is None else Live(live, facts)))
    return estimate(Survey(tuple(surveys), Naming()))


def test_an_index_costs_its_writes_once_and_its_storage_every_month() -> None:
    # Items of 1.5 KB: two write units each.
    found = of((PLAIN, INDEXED), items=4_000_000, size=4_000_000 * 1536)
    assert found.seconds == 1000
    assert found.dollars("once") == pytest.approx(8 * 0.625)
    assert float(found.dollars("monthly")) == pytest.approx(4_000_000 * 1536 / GB * 0.25)
    assert found.lines == (
        "Time: about 17 min. Tables change side by side.",
        "Money: at most $5.00 once, at most $1.43 more a month (AWS list prices, us-east-1, 2024-11-01).",
        "Money that is not known: t0: later writes, each of which is also one of the new index.",
    )


def test_tables_change_side_by_side_and_a_tables_changes_in_turn() -> None:
    two = Table("t", "id:S", indexes=[Index("by-x", "x:S"), Index("by-y", "y:S")])
    assert of((PLAIN, INDEXED), (PLAIN, two), (PLAIN, INDEXED), items=400_000).seconds == 200


def test_provisioned_capacity_is_a_sum_a_month() -> None:
    units = Table("t", "id:S", billing=Throughput(10, 10), indexes=[Index("by-x", "x:S")])
    month = 730 * (10 * 0.00013 + 10 * 0.00065)
    assert float(of((None, units)).dollars("monthly")) == pytest.approx(2 * month)
    assert float(of((INDEXED, units)).dollars("monthly")) == pytest.approx(2 * month)
    assert float(of((units, INDEXED)).dollars("monthly")) == pytest.approx(-2 * month)
    assert "$11.39 less a month" in of((units, INDEXED)).lines[1]
    fewer = units.replace(billing=Throughput(5, 5))
    assert float(of((units, fewer)).dollars("monthly")) == pytest.approx(-month / 2)
    dropped = units.replace(indexes=())
    assert float(of((units, dropped)).dollars("monthly")) == pytest.approx(-month)


def test_recovery_costs_what_the_table_holds() -> None:
    on = PLAIN.replace(pitr=35)
    assert of((PLAIN, on), size=10 * GB).dollars("monthly") == 2
    assert of((on, PLAIN.replace(pitr=0)), size=10 * GB).dollars("monthly") == -2
    assert of((on, PLAIN.replace(pitr=7)), size=10 * GB).dollars("monthly") == 0


def test_what_is_not_known_is_said() -> None:
    units = Table("t", "id:S", billing=Throughput(1, 1))
    found = of((units, PLAIN.replace(sse=True, warm=Throughput(40_000, 40_000))))
    assert found.unknown == (
        "t0: requests, which are billed from then on",
        "t0: warm throughput, which has a price of its own",
        "t0: requests to KMS",
    )
    assert found.waits[0] == "t0: ~ capacity: 1 read, 1 write → on demand"
    assert "and DynamoDB's own time for t0: ~ capacity" in found.lines[0]


def test_what_is_the_same_of_several_tables_is_said_once() -> None:
    units = Table("t", "id:S", billing=Throughput(5, 5))
    time, _, unknown = of((PLAIN, units), (PLAIN, units), (PLAIN, PLAIN.replace(sse=True))).lines
    assert "DynamoDB's own time for t0, t1: ~ capacity: on demand → 5 read, 5 write; t2: ~ enc" in time
    assert unknown.endswith("known: t0, t1: requests, which are billed no more; t2: requests to KMS.")


def test_what_costs_nothing_says_nothing_more() -> None:
    assert of((None, INDEXED), (PLAIN, INDEXED), items=10, size=1000).lines == ()
    assert of((PLAIN, Table("t", "other:S")), items=10**9, size=10**12).lines == (), "it is refused"


def test_a_program_gets_every_amount() -> None:
    form = of((PLAIN, INDEXED), items=1_000_000, size=GB).form()
    assert [(one["when"], one["what"]) for one in form["amounts"]] == [
        ("once", "writes of the index"),
        ("monthly", "storage"),
    ]
    assert form["dollars_monthly"] == 0.25 and form["prices"]["region"] == "us-east-1"
