"""Laws of the differ, on any tables whatever. The numbers are those of diff.py."""

from __future__ import annotations

from apply_model import apply_all, created
from hypothesis import given
from table_strategies import tables

from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import AddIndex, DropIndex, ReplaceTable, SetTtl
from penstock.tables.plan.plan import diff

KEYS = ("id:S", "sort:N")


@given(tables())
def test_a_table_does_not_differ_from_itself(table: Table) -> None:
    assert diff(table, table) == ()


@given(tables(), tables())
def test_4_the_changes_turn_any_table_into_any_other(live: Table, wanted: Table) -> None:
    after = apply_all(live, diff(live, wanted))
    assert after is not None
    assert diff(after, wanted) == ()


@given(tables(keys=KEYS, local=False), tables(keys=KEYS, local=False))
def test_4_what_a_definition_says_is_then_so(live: Table, wanted: Table) -> None:
    live = created(live)
    after = apply_all(live, diff(live, wanted))
    assert after is not None
    assert (after.key, after.ttl, after.stream, after.billing) == (
        wanted.key,
        wanted.ttl,
        wanted.stream,
        wanted.billing,
    )
    assert [(one.name, one.shape, one.throughput) for one in after.indexes] == [
        (one.name, one.shape, one.throughput) for one in wanted.indexes
    ]
    for member in ("pitr", "tags", "table_class", "deletion_protection", "sse"):
        before, now, said = (getattr(table, member) for table in (live, after, wanted))
        assert now == (before if said is None else said), member


@given(tables())
def test_a_table_that_is_not_there_is_made_at_once(wanted: Table) -> None:
    after = apply_all(None, diff(None, wanted))
    assert after is not None
    assert diff(after, wanted) == ()


@given(tables(), tables())
def test_2_every_index_is_dropped_before_one_is_made(live: Table, wanted: Table) -> None:
    changes = diff(live, wanted)
    dropped = [at for at, change in enumerate(changes) if isinstance(change, DropIndex)]
    made = [at for at, change in enumerate(changes) if isinstance(change, AddIndex)]
    assert not dropped or not made or max(dropped) < min(made)


@given(tables(), tables())
def test_3_a_replacement_comes_alone(live: Table, wanted: Table) -> None:
    changes = diff(live, wanted)
    assert len(changes) == 1 or not any(isinstance(change, ReplaceTable) for change in changes)


@given(tables(), tables())
def test_nothing_is_changed_twice(live: Table, wanted: Table) -> None:
    changes = diff(live, wanted)
    told = [(type(change), getattr(change, "index", None)) for change in changes]
    assert len(told) == len(set(told))
    assert sum(isinstance(change, SetTtl) for change in changes) <= 1
