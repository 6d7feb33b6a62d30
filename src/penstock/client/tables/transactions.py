"""Transactions: up to 100 actions on any tables, all of them or none.

1. The idempotency token is made once for a transaction, with its request: a repeat of the call, by us or by a wrapper,
   is the same transaction to DynamoDB and has its effect once.
2. Nothing is sent if the block of a `with` raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from penstock.client.items.expressions import Attribute, Where
from penstock.client.items.failures import TransactionFailed
from penstock.client.items.keys import Key
from penstock.client.items.values import Item
from penstock.client.tables.requests import Call, Names, Values, item_of
from penstock.errors import TransactionCanceledException
from penstock.wire.limits import IDEMPOTENCY_TOKEN_CHARACTERS, TRANSACTION_ACTIONS

if TYPE_CHECKING:
    from penstock.client.database import Database
    from penstock.client.tables.table import TableActions

Kind = Literal["Put", "Update", "Delete", "ConditionCheck", "Get"]


@dataclass(frozen=True, slots=True)
class Action:
    """One part of a transaction; made by `table.put_action(…)` and its like."""

    kind: Kind
    request: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {self.request['TableName']}"


def write_call(actions: Iterable[Action], token: str | None) -> Call[None]:
    """A TransactWriteItems with its token."""
    parts = _check_actions(actions, "write")
    if token is not None and not 1 <= len(token) <= IDEMPOTENCY_TOKEN_CHARACTERS:
        raise ValueError(f"an idempotency token has 1 to {IDEMPOTENCY_TOKEN_CHARACTERS} characters")
    request = {
        "TransactItems": [{action.kind: action.request} for action in parts],
        "ClientRequestToken": token or new_token(),
    }
    return Call("TransactWriteItems", request, lambda answer: None)


def get_call(actions: Iterable[Action]) -> Call[list[Item | None]]:
    """A TransactGetItems: the items in the order of the actions."""
    request = {"TransactItems": [{"Get": action.request} for action in _check_actions(actions, "get")]}
    return Call("TransactGetItems", request, lambda answer: [item_of(each) for each in answer["Responses"]])


def _check_actions(actions: Iterable[Action], purpose: Literal["write", "get"]) -> list[Action]:
    parts = list(actions)
    for action in parts:
        if (action.kind == "Get") != (purpose == "get"):
            raise ValueError(f"{action.kind} is no part of transact_{purpose}")
    if len(parts) > TRANSACTION_ACTIONS:
        raise ValueError(
            f"a transaction has at most {TRANSACTION_ACTIONS} actions, not {len(parts)}; for more, batch_write them "
            "(each is then done or not for itself)"
        )
    return parts


def new_token() -> str:
    return uuid4().hex


def failure(error: TransactionCanceledException, call: Call[Any]) -> TransactionFailed:
    """The error with the actions' names and Python's values."""
    parts: Sequence[dict[str, dict[str, Any]]] = call.request["TransactItems"]
    return TransactionFailed.of(
        error, [f"{kind} {request['TableName']}" for part in parts for kind, request in part.items()]
    )


class Actions:
    """The actions of a transaction that is being put together."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or new_token()
        self.actions: list[Action] = []

    def __len__(self) -> int:
        return len(self.actions)

    def put(
        self,
        table: TableActions,
        item: Mapping[str, Any],
        *,
        if_: Where = None,
        names: Names = None,
        values: Values = None,
    ) -> None:
        self.actions.append(table.put_action(item, if_=if_, names=names, values=values))

    def update(
        self,
        table: TableActions,
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
    ) -> None:
        self.actions.append(
            table.update_action(
                key,
                set=set,
                remove=remove,
                add=add,
                delete=delete,
                expression=expression,
                if_=if_,
                names=names,
                values=values,
            )
        )

    def delete(
        self, table: TableActions, key: Key, *, if_: Where = None, names: Names = None, values: Values = None
    ) -> None:
        self.actions.append(table.delete_action(key, if_=if_, names=names, values=values))

    def check(self, table: TableActions, key: Key, *, if_: Where, names: Names = None, values: Values = None) -> None:
        """The transaction happens only if this item meets `if_`."""
        self.actions.append(table.check_action(key, if_=if_, names=names, values=values))


class Transaction(Actions):
    """`with db.transact() as tx:` sends its actions as one when the block ends, and none if it raises."""

    def __init__(self, database: Database, token: str | None = None) -> None:
        super().__init__(token)
        self._database = database

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.actions:
            self._database.transact_write(self.actions, token=self.token)
