"""Which storage is meant, by environment variables (S2.14):

STORAGE_MODE      local (the default) or aws
LOCAL_OUTPUT_DIR  local: the folder (local_output)
S3_BUCKET         aws: the bucket of the files, or an s3:// URL with a prefix
DYNAMODB_TABLE    aws: the jobs' table (security-assistant-jobs)
AWS_REGION        aws: the region (us-east-1)
PENSTOCK_DB       aws: another database than AWS's: a file, or an endpoint
PENSTOCK_FILES    aws: another home of files than S3_BUCKET

PENSTOCK_DB alone, without STORAGE_MODE and LOCAL_OUTPUT_DIR, means that database; the files of a database file are
then beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from penstock.client.database import Database, connect
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.files import open_files
from penstock.systems.schema_variants import SchemaVariant, check_variant
from penstock.systems.security_assistant import tables
from penstock.systems.security_assistant.jobs.json_store import JsonJobStore
from penstock.systems.security_assistant.jobs.storage import Storage
from penstock.systems.security_assistant.jobs.store import NothingThere
from penstock.systems.security_assistant.jobs.table_store import TableJobStore

DEFAULT_FOLDER: Final = "local_output"
DEFAULT_REGION: Final = "us-east-1"


class BadSettings(PenstockError, ValueError):
    """A variable is missing or wrong: the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where jobs and files are."""

    mode: Literal["local", "aws"] = "local"
    folder: str = DEFAULT_FOLDER
    url: str = ""
    files: str = ""
    table: str = tables.JOBS
    events: str = tables.EVENTS
    layout: SchemaVariant = "safe"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, layout: str = "safe") -> Settings:
        """Raises BadSettings."""
        env = os.environ if environment is None else environment
        target = env.get("PENSTOCK_DB") or ""
        said = env.get("STORAGE_MODE") or env.get("LOCAL_OUTPUT_DIR")
        mode = env.get("STORAGE_MODE") or ("aws" if target and not said else "local")
        check_variant(layout)
        wanted: SchemaVariant = "compat" if layout == "compat" else "safe"
        if mode == "local":
            return cls(folder=env.get("LOCAL_OUTPUT_DIR") or DEFAULT_FOLDER, layout=wanted)
        if mode != "aws":
            raise BadSettings(f"STORAGE_MODE is {mode!r}; it is local or aws.")
        beside = f"{target}.files" if target and not said and "://" not in target else ""
        files = env.get("PENSTOCK_FILES") or env.get("S3_BUCKET") or beside
        if not files:
            raise BadSettings("S3_BUCKET is not set, and STORAGE_MODE is aws. Set it to the bucket of the files.")
        if not env.get("PENSTOCK_FILES") and files != beside and "://" not in files:
            files = f"s3://{files}"
        url = target or f"aws://{env.get('AWS_REGION') or DEFAULT_REGION}"
        table = env.get("DYNAMODB_TABLE") or tables.JOBS
        return cls("aws", url=url, files=files, table=table, layout=wanted)


@contextmanager
def open_storage(settings: Settings, *, clock: Clock | None = None, make: bool = True) -> Iterator[Storage]:
    """The storage; tables and folder are made if they are not there, or with `make=False` refused (NothingThere)."""
    if settings.mode == "local":
        storage = Storage(
            JsonJobStore(settings.folder, clock=clock), open_files(settings.folder, clock=clock), clock=clock
        )
        storage.prepare(make)
        yield storage
        return
    if not make and "://" not in settings.url and settings.url != ":memory:" and not Path(settings.url).exists():
        raise NothingThere(f"There is no database {settings.url}: no drawing has been processed into it yet.")
    with connect(settings.url) as db:
        storage = table_storage(db, settings, clock=clock)
        storage.prepare(make)
        yield storage


def table_storage(db: Database, settings: Settings, *, clock: Clock | None = None) -> Storage:
    """On tables of this database, with the files where the settings say."""
    store = TableJobStore(db, settings.layout, jobs=settings.table, events=settings.events)
    return Storage(store, open_files(settings.files, clock=clock), clock=clock)
