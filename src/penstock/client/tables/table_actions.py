"""What a table's handle knows without asking anybody, and the actions of transactions that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.tables import requests
from penstock.client.tables.expression_text import Attribute, Where
from penstock.client.tables.keys import Key, TableKey
from penstock.client.tables.requests import Changes, Names, Values
from penstock.client.tables.transactions import Action


class TableActions:
    """A table's name, its key if that is known, and what can be done to it in a transaction."""

    def __init__(self, name: str, known: TableKey | None) -> None:
        if not name or not isinstance(name, str):
            raise ValueError(f"a table's name is a text, not {name!r}")
        self.name = name
        self._known = known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def put_action(
        self, item: Mapping[str, Any], *, if_: Where = None, names: Names = None, values: Values = None
    ) -> Action:
        """`put`, as a part of a transaction."""
        return Action("Put", requests.put_request(self.name, self._known, item, if_, names, values))

    def update_action(
        self,
        key: Key,
        *,
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        expression: str | None = None,
        if_: Where = None,
        names: Names = None,
        values: Values = None,
    ) -> Action:
        """`update`, as a part of a transaction."""
        changes = Changes(set, remove, add, delete, expression)
        return Action("Update", requests.update_request(self.name, self._known, key, changes, if_, names, values))

    def delete_action(self, key: Key, *, if_: Where = None, names: Names = None, values: Values = None) -> Action:
        """`delete`, as a part of a transaction."""
        return Action("Delete", requests.delete_request(self.name, self._known, key, if_, names, values))

    def check_action(self, key: Key, *, if_: Where, names: Names = None, values: Values = None) -> Action:
        """A condition on an item that the transaction does not write."""
        return Action("ConditionCheck", requests.check_request(self.name, self._known, key, if_, names, values))

    def get_action(self, key: Key, *, select: Iterable[Attribute] | None = None) -> Action:
        """`get`, as a part of `transact_get`."""
        return Action("Get", requests.get_request(self.name, self._known, key, select))
