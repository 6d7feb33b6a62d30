"""connect() and Database: one call, `execute(operation, request)`, whatever answers it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from penstock.client.transports import endpoints
from penstock.client.transports.base import (
    DEFAULT_LIMITS,
    Changes,
    ChangesTransport,
    Limits,
    LocalTransport,
    Transport,
    capabilities_of,
    innermost,
)
from penstock.client.transports.endpoints import MEMORY, Endpoint, File
from penstock.client.wrappers.retries import DEFAULT_RETRIES, RequestRetries, Retrying
from penstock.clock import Clock
from penstock.errors import PenstockError, TransactionCanceledException

if TYPE_CHECKING:
    from penstock.client.items.keys import KeyDeclaration, TableKey
    from penstock.client.items.values import Item
    from penstock.client.models.item_table import ItemTable
    from penstock.client.tables.table import Table
    from penstock.client.tables.transactions import Action, Transaction, TransactionCall, TypedGet
    from penstock.client.transports.credentials import CredentialSource
    from penstock.engine.engine import Engine
    from penstock.engine.items.bulk_rows import Loading
    from penstock.engine.settings import Settings
    from penstock.engine.transfers.buckets import Buckets

__all__ = ["MEMORY", "Database", "connect"]

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
Via = Literal["thin", "boto"]


class Database:
    """A DynamoDB to talk to. Safe to share between threads; a context manager that closes it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.name = transport.name
        self.capabilities = capabilities_of(transport)
        """What this database offers beside DynamoDB's operations."""
        self._keys: dict[str, TableKey] = {}

    def execute(self, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """DynamoDB's answer to `operation`, in DynamoDB's own JSON: a B is base64 text, an N is text.

        Raises the `DynamoDBError` that DynamoDB answers with, or a `TransportError` where no answer came.
        """
        return self.transport.execute(operation, {} if request is None else request)

    def execute_together(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any] | PenstockError]:
        """The answers to calls that do not depend on each other; the error of one is in its place.

        They share one commit where the database can (`capabilities.shares_commits`); elsewhere they are made one after
        the other.
        """
        if self.capabilities.shares_commits:
            return cast(LocalTransport, self.transport).execute_together(calls)
        return [self._answer_or_error(operation, request) for operation, request in calls]

    def _answer_or_error(self, operation: str, request: dict[str, Any]) -> dict[str, Any] | PenstockError:
        try:
            return self.execute(operation, request)
        except PenstockError as error:
            return error

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    @overload
    def table(self, name: str, /, *, key: KeyDeclaration | None = None) -> Table: ...
    @overload
    def table(self, model: type[A], /, *, name: str | None = None) -> ItemTable[A]: ...
    @overload
    def table(self, model: type[A], second: type[B], /, *, name: str | None = None) -> ItemTable[A | B]: ...
    @overload
    def table(
        self, model: type[A], second: type[B], third: type[C], /, *, name: str | None = None
    ) -> ItemTable[A | B | C]: ...
    @overload
    def table(
        self, model: type[A], second: type[B], third: type[C], fourth: type[D], /, *, name: str | None = None
    ) -> ItemTable[A | B | C | D]: ...
    @overload
    def table(
        self,
        model: type[A],
        second: type[B],
        third: type[C],
        fourth: type[D],
        fifth: type[E],
        /,
        *,
        name: str | None = None,
    ) -> ItemTable[A | B | C | D | E]: ...
    def table(self, *given: Any, key: KeyDeclaration | None = None, name: str | None = None) -> Any:
        """A handle of a table; nothing is asked of the database. Of a class, or several, it has typed items.

        `key` declares the table's key, such as "companyId:S" or ("companyId:S", "expenseId:S"): then it is checked
        before each call, and no DescribeTable is needed where a key must be known (batches).
        """
        from penstock.client.items.keys import TableKey
        from penstock.client.tables.table import Table

        if not given or not isinstance(given[0], type):
            own: Any = given[0] if given else name
            return Table(self, own, self._keys.get(own) if key is None else TableKey.parse(key))
        from penstock.client.models.item_table import ItemTable
        from penstock.client.models.model import models_of

        return ItemTable(self, *models_of(given, name))

    def tables(self) -> list[str]:
        """The names of all tables, in order."""
        names: list[str] = []
        request: dict[str, Any] = {}
        while True:
            answer = self.transport.execute("ListTables", request)
            names += answer["TableNames"]
            if "LastEvaluatedTableName" not in answer:
                return names
            request = {"ExclusiveStartTableName": answer["LastEvaluatedTableName"]}

    def key_of(self, table: str) -> TableKey:
        """The key of a table, asked once."""
        from penstock.client.items.keys import TableKey

        if table not in self._keys:
            described = self.transport.execute("DescribeTable", {"TableName": table})
            self._keys[table] = TableKey.from_description(described["Table"])
        return self._keys[table]

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def transaction(self, *, token: str | None = None) -> Transaction:
        """`with db.transaction() as t: t.put(table, item)`: all of it happens when the block ends, or nothing does.

        `t.enqueue(task, …)` makes a job with it.
        """
        from penstock.client.tables.transactions import Transaction

        return Transaction(self, token)

    def transact_write(self, actions: Iterable[Action], *, token: str | None = None) -> None:
        """Does all actions or none; raises `TransactionFailed` with the reasons.

        `token` makes the call idempotent for ten minutes; one is made where none is given.
        """
        from penstock.client.tables.transactions import write_call

        self._run(write_call(actions, token))

    @overload
    def transact_get(self, actions: tuple[TypedGet[A], TypedGet[B]]) -> tuple[A | None, B | None]: ...
    @overload
    def transact_get(
        self, actions: tuple[TypedGet[A], TypedGet[B], TypedGet[C]]
    ) -> tuple[A | None, B | None, C | None]: ...
    @overload
    def transact_get(self, actions: list[TypedGet[A]]) -> list[A | None]: ...
    @overload
    def transact_get(self, actions: Iterable[Action]) -> list[Item | None]: ...
    def transact_get(self, actions: Any) -> Any:
        """The items of `table.get_action(key)`s as of one moment, in their order; None where there is none.

        A tuple of them gives a tuple.
        """
        from penstock.client.tables.transactions import get_call

        found = self._run(get_call(actions))
        return tuple(found) if isinstance(actions, tuple) else found

    def _run(self, call: TransactionCall[T]) -> T:
        from penstock.client.tables.transactions import failure

        try:
            return call.read(self.transport.execute(call.operation, call.request))
        except TransactionCanceledException as error:
            raise failure(error, call) from None

    # ── itself ───────────────────────────────────────────────────────────────────────────────────

    @property
    def engine(self) -> Engine:
        """The embedded engine; a remote database has none."""
        if not self.capabilities.has_engine:
            raise PenstockError(f"{self.name} is remote: its engine is not in this process.")
        local: LocalTransport = innermost(self.transport)
        return local.engine

    def is_same(self, other: Database) -> bool:
        """Whether both are connections to one database, so that a transaction of one may write to tables of the other.

        Of a remote one, the endpoint is compared: that both have the credentials of one account is not checked.
        """
        mine, its = innermost(self.transport), innermost(other.transport)
        if mine is its:
            return True
        if self.name == MEMORY or self.capabilities.has_engine != other.capabilities.has_engine:
            return False
        if self.capabilities.has_engine:
            return os.path.realpath(self.name) == os.path.realpath(other.name)
        return self.name == other.name

    def changes(self) -> Changes | None:
        """What waits for the next write to this database, by whichever process; None where the database cannot tell.

        A server of Penstock's tells; other endpoints are asked once, and AWS is not. Raises TransportError.
        """
        if not self.capabilities.tells_changes:
            return None
        telling: ChangesTransport = innermost(self.transport)
        return telling.changes()

    def loading(self, table: str) -> Loading | None:
        """How a batch writes many rows in one commit; None where the rows have to be written by requests."""
        return cast(LocalTransport, self.transport).loading(table) if self.capabilities.shares_commits else None

    def close(self) -> None:
        """Releases the file or the connections. A second close does nothing."""
        self.transport.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self.name!r})"


def connect(
    url: str | os.PathLike[str] = MEMORY,
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    buckets: str | os.PathLike[str] | Buckets | None = None,
    limits: Limits = DEFAULT_LIMITS,
    credentials: CredentialSource | None = None,
    retries: RequestRetries | None = DEFAULT_RETRIES,
    via: Via = "thin",
) -> Database:
    """Opens the database that `url` names.

        "jobs.db"                  a file, made when absent; it may be open many times, in many processes
        ":memory:"                 a new, empty database each time
        "http://localhost:8000"    any compatible endpoint
        "aws://eu-west-2"          AWS, with the credentials that boto3 would find

    `clock`, `settings` and `buckets` are the engine's, for a database in this process. Exports go to `buckets` and
    imports come from there: a folder whose subfolders are buckets, s3:// or the URL of an S3 endpoint. The rest is for
    a remote one: its calls are retried as `retries` says (None: never), and `via="boto"` sends them with boto3.
    """
    target = endpoints.parse(os.fspath(url), region_of=_profile_region)
    if isinstance(target, File):
        return Database(open_embedded(target, {"clock": clock, "settings": settings, "buckets": _opened(buckets)}))
    refuse_engine_options(target.name, clock, settings, buckets)
    transport = open_remote(target, limits, credentials, via)
    return Database(transport if retries is None else Retrying(transport, retries))


def _opened(buckets: str | os.PathLike[str] | Buckets | None) -> Buckets | None:
    if not isinstance(buckets, str | os.PathLike):
        return buckets
    from penstock.files.buckets import open_buckets  # seldom needed, and above this room

    return open_buckets(buckets)


def refuse_engine_options(name: str, *options: object) -> None:
    if any(option is not None for option in options):
        raise PenstockError(f"clock, settings and buckets are the embedded engine's; {name} is remote and has its own.")


def open_transport(
    url: str | os.PathLike[str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    credentials: CredentialSource | None = None,
    via: Via = "thin",
    **engine_options: Any,
) -> Transport:
    """The transport to what `url` names; `engine_options` (clock, settings) are the embedded engine's.

    Nothing is connected yet: the first call finds out whether anybody answers.
    """
    target = endpoints.parse(os.fspath(url), region_of=_profile_region)
    if isinstance(target, File):
        return open_embedded(target, engine_options)
    return open_remote(target, limits, credentials, via)


def _profile_region(profile: str | None) -> str | None:
    from penstock.client.transports.credentials import profile_region  # a file has neither credentials nor a region

    return profile_region(profile)


def open_embedded(target: File, options: dict[str, Any]) -> Transport:
    from penstock.client.transports.embedded import EmbeddedTransport
    from penstock.engine.engine import Engine

    given = {name: value for name, value in options.items() if value is not None}
    return EmbeddedTransport(Engine(target.path, **given), target.path)


def open_remote(target: Endpoint, limits: Limits, credentials: CredentialSource | None, via: Via) -> Transport:
    if via == "boto":
        from penstock.client.transports.boto import BotoTransport

        return BotoTransport(target, limits=limits)
    from penstock.client.transports.http import RemoteTransport

    return RemoteTransport(target, limits=limits, credentials=credentials)
