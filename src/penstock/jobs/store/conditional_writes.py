"""How a change is written: at once, conditional on the version that it was made from.

1. The main record, the event that tells of its change, and every record that belongs to the change are one write: of
   one item where the layout keeps the newest events in the main record and there is nothing else, otherwise a
   transaction.
2. It is conditional on the version that the change was made from. Whatever the change decided on (the state, the
   holder's token, a cancellation) has not changed then.
3. A refusal says how the job is now, so that the caller can decide again without a further read.
4. An answer that was lost is no danger: every write has a name of its own in the main record, and a refusal by the
   very write that was to be made is a success. (Two writers may well want to write the same attributes: two lines of
   a log in the same millisecond. Equal attributes prove nothing.)
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.client.database import Database
from penstock.errors import ConditionalCheckFailedException, PenstockError, TransactionCanceledException
from penstock.jobs.layouts.layout import WRITE_NAME, Item, Layout, Record
from penstock.jobs.model.job import Job
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.patience import is_outage
from penstock.optimistic import Conflict

Action = dict[str, Any]

TRANSACTION_ACTIONS: Final = 100


class Guarded(Exception):
    """The job could be written, but one of the actions beside it was refused: `place` is its number among them."""

    def __init__(self, place: int, item: Item | None) -> None:
        super().__init__(f"action {place} was refused")
        self.place = place
        self.item = item


class _Process:
    """This process's id, without a call of the system for each write."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.id = os.getpid()


_PROCESS: Final = _Process()
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_PROCESS.begin)


class _PreparedWrite(NamedTuple):
    """A write that has not been sent; `item` is the main record in it."""

    operation: str
    request: dict[str, Any]
    item: Item


class JobWriter:
    """Writes changes of jobs in one layout."""

    def __init__(self, db: Database, layout: Layout) -> None:
        self._db = db
        self._layout = layout
        self.keeps_events = layout.keeps_events
        self._unchanged = (
            "#version = :version",
            {"#version": layout.version_name},
        )
        self._prefix = os.urandom(6).hex()
        self._numbers = itertools.count(1)
        key = next(iter(layout.main_key("")))
        self._absent = ("attribute_not_exists(#key)", {"#key": key})

    def create(self, changed: ChangedJob, records: Sequence[Record] = (), guards: Sequence[Action] = ()) -> None:
        """Raises Conflict if there is such a job already, Guarded if one of the `guards` says no."""
        self._write(changed, self._unless_there(), records, guards)

    def creation(
        self, changed: ChangedJob, records: Sequence[Record] = (), guards: Sequence[Action] = ()
    ) -> list[Action]:
        """What `create` writes, as actions of somebody's transaction: the main record, the guards, then the rest."""
        prepared = self._prepare(changed, self._unless_there(), records, guards)
        actions: list[Action] = prepared.request.get("TransactItems") or [{"Put": prepared.request}]
        return actions

    def creation_records(self, created: ChangedJob) -> list[Record]:
        """A job that is made with a change of another one, whose condition is enough: its id names that change."""
        event = [] if self.keeps_events or created.event is None else [self._layout.event(created.job, created.event)]
        return [Record(self._layout.table, self._layout.main(created.job)), *event]

    def check_there(self, job: Job) -> Action:
        """The check that there is such a job."""
        expression, names = f"attribute_exists({next(iter(self._absent[1]))})", self._absent[1]
        check = {"ConditionExpression": expression, "ExpressionAttributeNames": names}
        return {"ConditionCheck": {"TableName": self._layout.table, "Key": self._layout.main_key(job.id), **check}}

    def found_instead(self, main: Action, reasons: Sequence[Mapping[str, Any]]) -> Item | None:
        """The item that has refused the put of a main record, the first of these actions; None if nothing has."""
        if not reasons or reasons[0].get("Code") != REFUSED:
            return None
        found: Item | None = reasons[0].get("Item") or self._current(main["Put"]["Item"])
        return found

    def change(
        self, old: Job, changed: ChangedJob, records: Sequence[Record] = (), guards: Sequence[Action] = ()
    ) -> None:
        """Raises Conflict if the job is not `old` any more, Guarded if one of the `guards` says no."""
        self._write(changed, self._condition(old), records, guards)

    def remove(self, old: Job) -> None:
        """Deletes the main record; raises ConditionalCheckFailedException if the job is not `old` any more."""
        request = {
            "TableName": self._layout.table,
            "Key": self._layout.main_key(old.id),
            **self._condition(old),
        }
        self._db.execute("DeleteItem", request)

    def change_together(self, pairs: Sequence[tuple[Job, ChangedJob]]) -> list[bool]:
        """Writes changes of different jobs, which have no records or guards; whether each has been written.

        In process they share one commit. Raises what is neither a success nor a refusal.
        """
        return self._together([self._prepare(changed, self._condition(old), (), ()) for old, changed in pairs])

    def change_as_one(self, pairs: Sequence[tuple[Job, ChangedJob]], guard: Action) -> None:
        """Writes changes of different jobs in one transaction, none of which has records.

        Raises Guarded if the guard says no, Conflict if one of the jobs is not as it was, or is being written.
        """
        puts = [{"Put": self._prepare(changed, self._condition(old), (), ()).request} for old, changed in pairs]
        try:
            self._db.execute("TransactWriteItems", {"TransactItems": [guard, *puts]})
        except TransactionCanceledException as error:
            codes = [reason.get("Code") for reason in error.fields.get("CancellationReasons") or []]
            if codes and codes[0] == REFUSED:
                raise Guarded(0, None) from error
            if REFUSED in codes or _CONFLICT in codes:
                raise Conflict("A job", None) from error
            raise

    def create_together(self, created: Sequence[ChangedJob]) -> list[bool]:
        """Writes jobs that have no records or guards beside them; whether each has been written, as above.

        Those that a database which is away has refused are written one by one, by who waits for it (patience.py).
        """
        prepared = [self._prepare(one, self._unless_there(), (), ()) for one in created]
        answers = self._db.execute_together([(one.operation, one.request) for one in prepared])
        for place, (one, answer) in enumerate(zip(prepared, answers, strict=True)):
            if isinstance(answer, PenstockError) and is_outage(answer):
                answers[place] = self._answer_or_refusal(one)
        return [self._is_written(one, answer) for one, answer in zip(prepared, answers, strict=True)]

    def _answer_or_refusal(self, prepared: _PreparedWrite) -> dict[str, Any] | PenstockError:
        try:
            return self._db.execute(prepared.operation, prepared.request)
        except ConditionalCheckFailedException as refusal:
            return refusal

    def change_all(self, changes: Sequence[tuple[Job, ChangedJob, Sequence[Record]]]) -> bool:
        """Writes changes of different jobs with their records in one transaction; False if none has been written."""
        actions: list[Action] = []
        for old, changed, records in changes:
            actions += self._prepare(changed, self._condition(old), records, ()).request["TransactItems"]
        try:
            self._db.execute("TransactWriteItems", {"TransactItems": actions})
        except TransactionCanceledException:
            return False
        return True

    def put_once(self, record: Record) -> Action:
        """What puts a record that is not there yet, as a part of a transaction."""
        return {"Put": {"TableName": record.table, "Item": record.item, **self._unless_there()}}

    def _together(self, prepared: list[_PreparedWrite]) -> list[bool]:
        answers = self._db.execute_together([(one.operation, one.request) for one in prepared])
        return [self._is_written(one, answer) for one, answer in zip(prepared, answers, strict=True)]

    def _is_written(self, prepared: _PreparedWrite, answer: dict[str, Any] | PenstockError) -> bool:
        if isinstance(answer, ConditionalCheckFailedException):
            found = answer.fields.get("Item")
            return found is not None and prepared.item[WRITE_NAME] == found.get(WRITE_NAME)
        if isinstance(answer, PenstockError):
            raise answer
        return True

    def _unless_there(self) -> dict[str, Any]:
        expression, names = self._absent
        return {"ConditionExpression": expression, "ExpressionAttributeNames": names}

    def _condition(self, old: Job) -> dict[str, Any]:
        expression, names = self._unchanged
        return {
            "ConditionExpression": expression,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {":version": {"N": str(old.version)}},
        }

    def _write(
        self, changed: ChangedJob, condition: dict[str, Any], records: Sequence[Record], guards: Sequence[Action]
    ) -> None:
        prepared = self._prepare(changed, condition, records, guards)
        try:
            self._db.execute(prepared.operation, prepared.request)
        except ConditionalCheckFailedException as error:
            self._raise_conflict(prepared.item, error.fields.get("Item"))
        except TransactionCanceledException as error:
            self._raise_refusal(prepared.item, error, len(guards))

    def _prepare(
        self, changed: ChangedJob, condition: dict[str, Any], records: Sequence[Record], guards: Sequence[Action]
    ) -> _PreparedWrite:
        job = changed.job
        item = self._layout.main(job)
        # With the process in it: one that was forked has the same prefix and goes on with the same numbers.
        item[WRITE_NAME] = {"S": f"{self._prefix}-{_PROCESS.id}-{next(self._numbers)}"}
        main = {
            "TableName": self._layout.table,
            "Item": item,
            **condition,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        events = changed.moved_out if self.keeps_events else changed.event and (changed.event,)
        if events:
            records = (*records, *(self._layout.event(job, event) for event in events))
        if not records and not guards:
            return _PreparedWrite("PutItem", main, item)
        puts = ({"Put": {"TableName": record.table, "Item": record.item}} for record in records)
        return _PreparedWrite("TransactWriteItems", {"TransactItems": [{"Put": main}, *guards, *puts]}, item)

    def _raise_refusal(self, item: Item, error: TransactionCanceledException, guards: int) -> None:
        reasons = error.fields.get("CancellationReasons") or []
        if reasons and reasons[0].get("Code") == REFUSED:
            self._raise_conflict(item, reasons[0].get("Item"))
            return
        for place, reason in enumerate(reasons[1 : 1 + guards]):
            if reason.get("Code") == REFUSED:
                raise Guarded(place, reason.get("Item")) from error
        raise error

    def _raise_conflict(self, wanted: Item, found: Item | None) -> None:
        # Not every server that speaks DynamoDB's protocol gives the item; and on some it may be gone for a moment.
        found = found or self._current(wanted)
        if found is None:
            raise Conflict("The job", None) from None
        if wanted[WRITE_NAME] != found.get(WRITE_NAME):
            raise Conflict("The job", self._layout.job(found)) from None

    def _current(self, wanted: Item) -> Item | None:
        key = {name: wanted[name] for name in self._layout.main_key("")}
        request = {"TableName": self._layout.table, "Key": key, "ConsistentRead": True}
        return self._db.execute("GetItem", request).get("Item")


REFUSED: Final = "ConditionalCheckFailed"
_CONFLICT: Final = "TransactionConflict"
