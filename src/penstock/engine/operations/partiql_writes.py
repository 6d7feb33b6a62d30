"""INSERT, UPDATE, DELETE and EXISTS as writes: the same steps as PutItem, UpdateItem, DeleteItem and ConditionCheck.

An UPDATE changes an item that is there, never makes one. A DELETE of what is not there does nothing, whatever its
condition. An INSERT makes an item, and never replaces one.
"""

from __future__ import annotations

from typing import Any, assert_never

from penstock.engine.context import OperationContext
from penstock.engine.items import item_keys, write_steps
from penstock.errors import DuplicateItemException, ValidationException
from penstock.expressions.compiled.condition_closures import Predicate
from penstock.expressions.partiql import wording
from penstock.expressions.partiql.conditions import Translator
from penstock.expressions.partiql.keys import Pinned, nested_attributes, pinned
from penstock.expressions.partiql.tree import And, Delete, Exists, Insert, Node, Struct, Update, place_of
from penstock.expressions.partiql.updates import StatementUpdate, update_of
from penstock.expressions.partiql.values import Parameters, members_of
from penstock.wire.limits import ITEM_BYTES
from penstock.wire.values import Item, check_item

WriteStatement = Insert | Update | Delete | Exists


def prepare(
    statement: WriteStatement, parameters: Parameters, on_failure: str | None, *, transaction: bool = False
) -> Prepared:
    """What the statement alone can tell; `on_failure` is ReturnValuesOnConditionCheckFailure."""
    match statement:
        case Insert():
            return _insert(statement, parameters)
        case Update():
            update = update_of(statement, parameters)
            return StatementWrite(statement, parameters, on_failure, update, transaction=transaction)
        case Delete() | Exists():
            return StatementWrite(statement, parameters, on_failure, transaction=transaction)
        case _:
            assert_never(statement)


class Put(write_steps.Put):
    """An INSERT."""

    __slots__ = ()

    def decide(self) -> None:
        if self.old is not None:
            raise DuplicateItemException("Duplicate primary key exists in table")
        self.outcome()

    def returned(self) -> list[Item]:
        return []


def _insert(statement: Insert, parameters: Parameters) -> Put:
    value = statement.value
    if not isinstance(value, Struct):
        raise ValidationException(f"{wording.NO_TUPLE} at {place_of(value)}")
    item, size = check_item(members_of(value, parameters))
    if size > ITEM_BYTES:
        raise ValidationException("Item size has exceeded the maximum allowed size")
    return Put({"TableName": statement.source.table}, item, size, None)


class StatementWrite(write_steps.Update):
    """An UPDATE, a DELETE or an EXISTS: its WHERE names the key, and what else it says is the condition."""

    __slots__ = ("_parameters", "_statement", "_transaction", "_where")

    def __init__(
        self,
        statement: Update | Delete | Exists,
        parameters: Parameters,
        on_failure: str | None,
        update: StatementUpdate | None = None,
        *,
        transaction: bool = False,
    ) -> None:
        source = statement.select.source if isinstance(statement, Exists) else statement.source
        request = {"TableName": source.table, "ReturnValuesOnConditionCheckFailure": on_failure}
        super().__init__(request, {}, update, None)
        self._statement = statement
        self._transaction = transaction
        self._parameters = parameters
        self._where = statement.select.where if isinstance(statement, Exists) else statement.where
        if self._where is not None:
            Translator(parameters).predicate(self._where)  # types are checked before the table is looked for
        elif not isinstance(statement, Exists):
            raise ValidationException(wording.NEEDS_KEY)

    def find_key(self, context: OperationContext) -> None:
        """The table, and the key that the WHERE gives; refused if it gives none."""
        self.table = table = context.table(self.request["TableName"])
        found = pinned(self._where, table.key_names, self._parameters)
        if len(found.key) != len(table.key_names):
            raise ValidationException(
                wording.EXISTS_CONDITION if isinstance(self._statement, Exists) else wording.NEEDS_KEY
            )
        self.key_values = found.key
        self.condition = self._condition(found)

    def resolve(self, context: OperationContext) -> None:
        self.find_key(context)
        if not self._transaction:  # there a key of a wrong type is worded as any key that does not fit
            for part in self.table.key:
                item_keys.refuse_key_type(part, self.key_values[part.name])
        self.key = item_keys.row_key_of_key(self.table, self.key_values)
        if self.update is not None:
            self._refuse_key_attributes()
        item_keys.refuse_nested_keys(self.table, nested_attributes(self._where))

    def _condition(self, found: Pinned) -> Predicate | None:
        holds = Translator(self._parameters).predicate(_all(found.rest)) if found.rest else None
        if isinstance(self._statement, Delete):
            return None if holds is None else lambda item: not item or holds(item)
        if holds is None and isinstance(self._statement, Exists):
            raise ValidationException(wording.EXISTS_CONDITION)
        # An item is never empty: it has its key.
        return bool if holds is None else lambda item: bool(item) and holds(item)

    def outcome(self) -> None:
        if isinstance(self._statement, Update):
            super().outcome()
        else:
            self.new = self.old if isinstance(self._statement, Exists) else None

    def apply(self, context: OperationContext) -> None:
        if not isinstance(self._statement, Exists):
            super().apply(context)

    def returned(self, mode: str = "") -> Any:
        """The items that RETURNING asks for."""
        statement = self._statement
        wanted = None if isinstance(statement, Exists) else statement.returning
        if wanted is None:
            return []
        shown = super().returned(wanted.replace("MODIFIED", "UPDATED").replace(" ", "_"))
        return [] if shown is None else [shown]


Prepared = StatementWrite | Put


def _all(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else And(tuple(terms), terms[0].place)  # type: ignore[union-attr]
