"""Transactions: up to 100 actions on any tables, all of them or none.

1. The idempotency token is made once for a transaction, with its request: a repeat of the call, by us or by a wrapper,
   is the same transaction to DynamoDB and has its effect once.
2. Nothing is sent if the block of a `with` raises, or if all of it together is too much for one transaction.
3. A job that is enqueued in a transaction is a participant: its actions are sent after the user's own, in the same
   request. A refusal of the user's actions is the user's error. A refusal of a participant's is for the participant: it
   decides on other actions, and the transaction is sent again, with a new token.
4. If a participant finds its own write in the database, all of the transaction has happened: an answer was lost.
5. The actions of typed items check and count versions, as single writes do. When the transaction has happened their
   instances have the new ones; a version that another program has changed is a TransactionConflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, overload
from uuid import uuid4

from penstock.client.items.expressions import Attribute, Where
from penstock.client.items.failures import (
    ConditionFailed,
    TransactionConflict,
    TransactionFailed,
    VersionConflict,
)
from penstock.client.items.keys import Key
from penstock.client.items.values import Item, decode_item
from penstock.client.tables.requests import Call, Names, Values, item_of
from penstock.client.wrappers.retries import PASSING_REASONS
from penstock.errors import ConditionalCheckFailedException, PenstockError, TransactionCanceledException
from penstock.optimistic import Contention
from penstock.wire import values as wire
from penstock.wire.limits import IDEMPOTENCY_TOKEN_CHARACTERS, TRANSACTION_ACTIONS, TRANSACTION_BYTES
from penstock.wire.values import item_size

if TYPE_CHECKING:
    from penstock.client.database import Database
    from penstock.client.models.attributes import Change
    from penstock.client.models.item_requests import ItemActions
    from penstock.client.tables.table import TableActions

M = TypeVar("M")
R = TypeVar("R", covariant=True)
T = TypeVar("T")
Kind = Literal["Put", "Update", "Delete", "ConditionCheck", "Get"]
Reasons = Sequence[Mapping[str, Any]]


class VersionedWrite(Protocol):
    """A write of a typed item (5)."""

    def finish(self) -> None:
        """The write has happened: the instance has its new version. A second call changes nothing."""
        ...

    def conflict(self, failed: ConditionFailed) -> VersionConflict | None:
        """The conflict that a failed condition is; None if the version was the expected one."""
        ...

    @property
    def key(self) -> wire.Item:
        """The key of the item."""
        ...


@dataclass(frozen=True, slots=True)
class Action:
    """One part of a transaction; made by `table.put_action(…)` and its like."""

    kind: Kind
    request: dict[str, Any]
    write: VersionedWrite | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.request['TableName']}"

    @property
    def size(self) -> int:
        """The bytes that it brings, as a transaction's limit counts them."""
        brought = self.request["Item"] if "Item" in self.request else self.request["Key"]
        return item_size(brought) + item_size(self.request.get("ExpressionAttributeValues") or {})

    def read(self, answer: dict[str, Any]) -> Item | None:
        """What an answer to a Get holds."""
        return item_of(answer)


@dataclass(frozen=True, slots=True)
class TypedGet(Generic[R]):
    """A Get whose item becomes an instance."""

    request: dict[str, Any]
    decode: Callable[[wire.Item], R]
    kind: Literal["Get"] = "Get"

    def __str__(self) -> str:
        return f"Get {self.request['TableName']}"

    def read(self, answer: dict[str, Any]) -> R | None:
        """What an answer holds."""
        found = answer.get("Item")
        return None if found is None else self.decode(found)


@dataclass(frozen=True, slots=True)
class TransactionCall(Call[T]):
    """A transaction as one call, with the actions that it is made of."""

    actions: tuple[Action | TypedGet[Any], ...] = ()


def write_call(actions: Iterable[Action], token: str | None) -> TransactionCall[None]:
    """A TransactWriteItems with its token."""
    parts = _check_actions(actions, "write")
    if token is not None and not 1 <= len(token) <= IDEMPOTENCY_TOKEN_CHARACTERS:
        raise ValueError(f"an idempotency token has 1 to {IDEMPOTENCY_TOKEN_CHARACTERS} characters")
    request = {
        "TransactItems": [{action.kind: action.request} for action in parts],
        "ClientRequestToken": token or new_token(),
    }
    return TransactionCall("TransactWriteItems", request, lambda answer: finish_writes(parts), actions=tuple(parts))


def finish_writes(actions: Iterable[Action]) -> None:
    """The transaction has happened (5)."""
    for action in actions:
        if action.write is not None:
            action.write.finish()


def get_call(actions: Iterable[Action | TypedGet[Any]]) -> TransactionCall[list[Any]]:
    """A TransactGetItems: the items in the order of the actions."""
    parts = _check_actions(actions, "get")
    request = {"TransactItems": [{"Get": action.request} for action in parts]}

    def read(answer: dict[str, Any]) -> list[Any]:
        return [action.read(each) for action, each in zip(parts, answer["Responses"], strict=True)]

    return TransactionCall("TransactGetItems", request, read, actions=tuple(parts))


A = TypeVar("A", bound=Action | TypedGet[Any])


def _check_actions(actions: Iterable[A], purpose: Literal["write", "get"]) -> list[A]:
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


def failure(error: TransactionCanceledException, call: TransactionCall[Any]) -> TransactionFailed:
    """The error with the actions' names and Python's values; a TransactionConflict if a version was another."""
    failed = TransactionFailed.of(error, [str(action) for action in call.actions])
    reasons: Reasons = failed.fields.get("CancellationReasons") or ()
    conflicts = [
        found for action, reason in zip(call.actions, reasons, strict=False) if (found := _conflict(action, reason))
    ]
    return TransactionConflict.between_all(failed, conflicts) if conflicts else failed


def _conflict(action: Action | TypedGet[Any], reason: Mapping[str, Any]) -> VersionConflict | None:
    if not isinstance(action, Action) or action.write is None or reason.get("Code") != "ConditionalCheckFailed":
        return None
    error = ConditionalCheckFailedException(reason.get("Message", ""))
    error.fields = {"Item": reason["Item"]} if reason.get("Item") else {}
    return action.write.conflict(ConditionFailed.of(error, action.request["TableName"], decode_item(action.write.key)))


class Actions:
    """The actions of a transaction that is being put together."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or new_token()
        self.actions: list[Action] = []

    def __len__(self) -> int:
        return len(self.actions)

    @overload
    def put(self, table: ItemActions[M], item: M, *, if_: Where = None) -> None: ...
    @overload
    def put(
        self,
        table: TableActions,
        item: Mapping[str, Any],
        *,
        if_: Where = None,
        names: Names = None,
        values: Values = None,
    ) -> None: ...
    def put(self, table: Any, item: Any, **options: Any) -> None:
        """Writes an item, in place of one with its key; the transaction happens only if that one meets `if_`."""
        self.actions.append(table.put_action(item, **options))

    @overload
    def update(
        self,
        table: ItemActions[Any],
        key: Any,
        *changes: Change[Any],
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        if_: Where = None,
    ) -> None: ...
    @overload
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
    ) -> None: ...
    def update(self, table: Any, key: Any, *changes: Any, **options: Any) -> None:
        """Changes an item, or makes it; the transaction happens only if it meets `if_`."""
        self.actions.append(table.update_action(key, *changes, **options))

    @overload
    def delete(self, table: ItemActions[Any], key: Any, *, if_: Where = None) -> None: ...
    @overload
    def delete(
        self, table: TableActions, key: Key, *, if_: Where = None, names: Names = None, values: Values = None
    ) -> None: ...
    def delete(self, table: Any, key: Any, **options: Any) -> None:
        """Deletes an item, if it is there; the transaction happens only if it meets `if_`."""
        self.actions.append(table.delete_action(key, **options))

    @overload
    def check(self, table: ItemActions[Any], key: Any, *, if_: Where = None) -> None: ...
    @overload
    def check(
        self, table: TableActions, key: Key, *, if_: Where, names: Names = None, values: Values = None
    ) -> None: ...
    def check(self, table: Any, key: Any, **options: Any) -> None:
        """The transaction happens only if this item meets `if_`; of an instance, only if its version is unchanged."""
        self.actions.append(table.check_action(key, **options))


# ── jobs in a transaction ────────────────────────────────────────────────────────────────────────

P = ParamSpec("P")
J = TypeVar("J", covariant=True)

_MOST_ATTEMPTS: Final = 20
"""Each of them is repeated by the connection's own retries, if others write the same items."""


class Participant(Protocol[J]):
    """A job that is enqueued with the user's actions (3)."""

    @property
    def job(self) -> J:
        """The job; as it is stored, after `finish`."""
        ...

    @property
    def name(self) -> str:
        """For messages: the task's."""
        ...

    def covers(self, other: Any) -> bool:
        """Whether the job of the other one would be this one, by its keys."""
        ...

    def actions(self) -> list[Action]:
        """What it wants to be written now. Nothing is read or written here."""
        ...

    def prepare(self) -> None:
        """Does what must be done before the first request, once it is known that all of it fits."""
        ...

    def is_written(self, reasons: Reasons) -> bool:
        """Whether its actions were refused because they have been carried out already (4)."""
        ...

    def decide(self, reasons: Reasons) -> bool:
        """Decides what `actions` returns from now on, after this refusal; False if its actions were not refused."""
        ...

    def finish(self) -> None:
        """The transaction has happened."""
        ...


class Enqueueable(Protocol[P, J]):
    """A task."""

    def for_transaction(self, database: Database, /) -> Callable[P, Participant[J]]: ...


class TransactionTooLarge(PenstockError, ValueError):
    """All actions together are more than one transaction may have. Nothing was sent."""


def check_limits(own: Sequence[Action], participants: Sequence[Participant[Any]]) -> None:
    """Raises TransactionTooLarge, which says what each has taken (2)."""
    theirs = [(one.name, one.actions()) for one in participants]
    count = len(own) + sum(len(actions) for _, actions in theirs)
    if count > TRANSACTION_ACTIONS:
        parts = [f"{len(own)} of your own", *(f"{len(actions)} for {name}" for name, actions in theirs)]
        most = f"{TRANSACTION_ACTIONS} actions"
        raise TransactionTooLarge(_too_large(most, f"{count}", parts))
    sizes = [(name, sum(action.size for action in actions)) for name, actions in theirs]
    size = sum(action.size for action in own) + sum(size for _, size in sizes)
    if size > TRANSACTION_BYTES:
        mine = size - sum(size for _, size in sizes)
        parts = [f"{mine:,} of your own", *(f"{size:,} for {name}" for name, size in sizes)]
        raise TransactionTooLarge(_too_large(f"{TRANSACTION_BYTES:,} bytes", f"{size:,}", parts))


_PARTS_SHOWN: Final = 10


def _too_large(most: str, found: str, parts: list[str]) -> str:
    shown = parts[:_PARTS_SHOWN] + ([f"{len(parts) - _PARTS_SHOWN} jobs more"] if len(parts) > _PARTS_SHOWN else [])
    return (
        f"A transaction has at most {most}, and this one has {found}: {', '.join(shown)}. Nothing was sent. Enqueue "
        "one job that enqueues the others, or keep long arguments in an item or a file of your own."
    )


class Transaction(Actions):
    """`with db.transaction() as t:` sends its actions as one when the block ends, and none if it raises."""

    def __init__(self, database: Database, token: str | None = None) -> None:
        super().__init__(token)
        self._database = database
        self._has_own_token = token is not None
        self._participants: list[Participant[Any]] = []

    def enqueue(self, task: Enqueueable[P, J], /, *args: P.args, **kwargs: P.kwargs) -> J:
        """Makes a job with the transaction: `t.enqueue(ship, order="o1")`, `t.enqueue(ship.options(priority=9), …)`.

        The job is made if the transaction happens, and not otherwise. It can be used when the block has ended: if there
        was a job with its idempotency or unique key, it is that one then, and its `is_new` is False. The app must use
        the database of the transaction. Raises TransactionTooLarge, at the end of the block.
        """
        if self._has_own_token:
            raise ValueError(
                "A transaction with a token of its own has no jobs: each call would make other ones, and a token names "
                "one request. Give the job an idempotency_key, and your own actions conditions."
            )
        new = task.for_transaction(self._database)(*args, **kwargs)
        for one in self._participants:
            if one.covers(new):
                known: J = one.job
                return known
        self._participants.append(new)
        return new.job

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        if self._participants:
            self._commit()
        elif self.actions:
            self._database.transact_write(self.actions, token=self.token)

    def _commit(self) -> None:
        check_limits(self.actions, self._participants)
        for participant in self._participants:
            participant.prepare()
        contention, token = Contention("The transaction", _MOST_ATTEMPTS), self.token
        while not self._is_sent(token):
            contention.wait()
            token = new_token()  # another request
        finish_writes(self.actions)  # if an answer was lost, nobody has yet (4)
        for participant in self._participants:
            participant.finish()

    def _is_sent(self, token: str) -> bool:
        """Whether it has happened; if not, it is to be sent again. Raises the user's error (3)."""
        joined = [participant.actions() for participant in self._participants]
        try:
            self._database.transact_write([*self.actions, *(one for actions in joined for one in actions)], token=token)
        except TransactionFailed as failed:
            return self._decide(failed, [len(actions) for actions in joined])
        return True

    def _decide(self, failed: TransactionFailed, counts: Sequence[int]) -> bool:
        reasons: Reasons = failed.fields.get("CancellationReasons") or ()
        own, place, refusals = len(self.actions), len(self.actions), []
        for participant, count in zip(self._participants, counts, strict=True):
            refusals.append((participant, reasons[place : place + count]))
            place += count
        if any(participant.is_written(its) for participant, its in refusals):
            return True
        if not _may_pass(reasons[:own]):
            failed.fields = {**failed.fields, "CancellationReasons": list(reasons[:own])}
            raise failed
        decided = [participant.decide(its) for participant, its in refusals]
        if not any(decided) and not (reasons and _may_pass(reasons)):
            raise failed
        return False


def _may_pass(reasons: Reasons) -> bool:
    return all(reason.get("Code", "None") in PASSING_REASONS for reason in reasons)
