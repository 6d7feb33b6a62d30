"""One table made, changed and waited for, by a program that must have it so before it goes on.

The same conversations as `apply` has, without a plan to show: what is under way is waited for, what is done already is
not done again, a throttled control plane is asked again.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.client.database import Database
from penstock.tables.apply.failures import TableFailed
from penstock.tables.apply.side_by_side import MAX_WAIT_SECONDS, Pace, run_together
from penstock.tables.apply.table_changer import TableWork
from penstock.tables.apply.table_poller import Progress
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import Change, CreateTable, DeleteTable
from penstock.tables.plan.inspect import Live, inspect, required
from penstock.tables.plan.plan import TablePlan
from penstock.tables.plan.survey import Surveyed, surveyed

Tell = Callable[[str], object]
"""Told in words what is waited for."""


def _silent(text: str) -> None:
    del text


def make(db: Database, table: Table, name: str, tell: Tell = _silent) -> None:
    """Makes the table of a definition with all its settings, and waits for it. One that is there is left as it is."""
    live = inspect(db, name, settings=False)
    changes = (CreateTable(table),) if live is None else ()
    _work(db, Surveyed(name, table, live, TablePlan(name, changes)), tell)


def change(db: Database, name: str, what: Change, tell: Tell = _silent) -> None:
    """One change of a table, waited for."""
    live = required(db, name, settings=False)
    _work(db, Surveyed(name, None, live, TablePlan(name, (what,))), tell)


def settle(db: Database, name: str, tell: Tell = _silent, *, seconds: float = MAX_WAIT_SECONDS) -> None:
    """Waits until the table and its indexes are ACTIVE; raises TableFailed after so many seconds."""
    live = required(db, name, settings=False)
    _work(db, Surveyed(name, None, live, TablePlan(name)), tell, seconds)


def delete(db: Database, name: str, tell: Tell = _silent) -> None:
    """Deletes the table and waits until it is gone; one that is not there is."""
    live = inspect(db, name, settings=False)
    if live is not None:
        _work(db, Surveyed(name, None, live, TablePlan(name, (DeleteTable(live.table),))), tell)


def put_right(db: Database, name: str, wanted: Table, tell: Tell = _silent) -> tuple[Change, ...]:
    """Makes every change that `wanted` needs, and compares again; what differs still, as far as this endpoint tells.

    A table that would have to be replaced is not touched: the change is given back.
    """
    settle(db, name, tell)
    found = _beside(name, wanted, required(db, name))
    if found.plan.replaces:
        return found.plan.changes
    _work(db, found, tell)
    return _beside(name, wanted, required(db, name)).plan.changes


def _beside(name: str, wanted: Table, live: Live) -> Surveyed:
    return surveyed(name, wanted.renamed(name), live)


def _work(db: Database, table: Surveyed, tell: Tell, seconds: float = MAX_WAIT_SECONDS) -> None:
    pace = Pace(max_wait_seconds=seconds)
    work = TableWork(table, pace)

    def report(event: object) -> None:
        if isinstance(event, Progress):
            tell(f"{event.table} is {event.status}" + (f": {event.change}" if event.change else ""))

    run_together(db, [work.steps()], pace, report)
    if work.failure is not None:
        raise TableFailed(work.failure)
