"""What the commands of `penstock accounts` share: the configuration, the database, and how records are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import click
import orjson

from penstock.cli.kit import databases
from penstock.cli.kit.databases import Absent
from penstock.cli.kit.output import plain
from penstock.client.database import Database
from penstock.client.tables.values import Item
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.models.record import RecordMissing, RecordModel
from penstock.systems.account_records.models.user import UserMissing, UserModel
from penstock.systems.account_records.services.dynamodb import open_database

SOME_FAILED = 3
NOT_FOUND = 4

_MAKER = "penstock accounts create-tables"

_url_option = click.option(
    "--url",
    envvar="PENSTOCK_URL",
    metavar="URL",
    help="The database, in place of DYNAMODB_ENDPOINT: a file, http://127.0.0.1:8000, or aws://eu-west-2. "
    "Also PENSTOCK_URL.",
)
_file_option = click.option(
    "--env-file", metavar="FILE", type=click.Path(dir_okay=False), help="A file of variables. [.env, if it is there]"
)
account_argument = click.argument("account_id", metavar="ACCOUNT")
run_time_argument = click.argument("run_time", metavar="RUNTIME")


class NotFound(click.ClickException):
    exit_code = NOT_FOUND


@dataclass(frozen=True, slots=True)
class Place:
    """The configuration of a command."""

    config: Config

    @contextmanager
    def database(self, absent: Absent = "refused") -> Iterator[Database]:
        """The database; what is not found ends with its own exit code."""
        try:
            with self._opened(absent) as db:
                yield db
        except (RecordMissing, UserMissing) as error:
            raise NotFound(str(error)) from error
        except ResourceNotFoundException as error:
            names = f"{self.config.user_table} and {self.config.record_table}"
            raise PenstockError(
                f"{self.config.endpoint} has not both tables, {names}: `{_MAKER}` makes them; USER_TABLE and "
                "RECORD_TABLE say what they are called."
            ) from error

    @contextmanager
    def records(self) -> Iterator[RecordModel]:
        with self.database() as db:
            yield RecordModel(db, table=self.config.record_table)

    @contextmanager
    def users(self) -> Iterator[UserModel]:
        with self.database() as db:
            yield UserModel(db, table=self.config.user_table)

    @contextmanager
    def _opened(self, absent: Absent) -> Iterator[Database]:
        if "://" in self.config.endpoint:
            with open_database(self.config) as db:
                yield db
        else:
            with databases.open_database(self.config.endpoint, absent, maker=_MAKER) as db:
                yield db


def placed(function: Callable[..., None]) -> Callable[..., None]:
    """--url and --env-file, given to the command as `place`."""

    @wraps(function)
    def command(url: str | None, env_file: str | None, **rest: Any) -> None:
        config = Config.load(env_file)
        function(place=Place(replace(config, endpoint=url) if url else config), **rest)

    return _url_option(_file_option(command))


def line_of(record: Item) -> str:
    """`ACC12345  2026-02-17T12:00:00Z  0  {"DocumentId":"DOC67890"}`"""
    rest = {name: plain(value) for name, value in record.items() if name not in ("AccountId", "RunTime", "Processed")}
    return f"{record['AccountId']}  {record['RunTime']}  {record.get('Processed', '-')}  {orjson.dumps(rest).decode()}"
