"""What tasks are given and give back: JSON, checked, and kept where it fits.

1. Only what comes back from JSON as it was is taken: dict with text keys, list (a tuple becomes one), str, int, float,
   bool, None. Everything else is refused with the path to it, before anything is stored.
2. Short payloads are in the item that they belong to, longer ones in a record of their own, and those that no item can
   hold in a file. The reader does not notice.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Final

import orjson

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.files import Files
from penstock.jobs.job import Job, JobNotFound, Payload
from penstock.jobs.layout import Layout, Record

INLINE_BYTES: Final = 8 * 1024
"""A main record is written whole at each report: what is in it should be short."""
RECORD_BYTES: Final = 300 * 1024
"""An item holds 400 KB; this leaves room for the rest of it."""
_DEPTH: Final = 100


class NotJson(PenstockError, ValueError):
    """A value that cannot be stored. `path` says which."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path


def to_json(value: object, path: str) -> str:
    """The value as JSON; `path` is what it is called in an error, such as `args`."""
    _check(value, path, _DEPTH)
    try:
        return orjson.dumps(value).decode()
    except (TypeError, UnicodeError):
        # Integers past 64 bits; and strings that are not Unicode, which DynamoDB would not take either.
        return _slow_json(value, path)


def from_json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _slow_json(value: object, path: str) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJson(path, "holds half a surrogate pair, which is no text: store bytes in a file.") from None
    return text


def _check(value: object, path: str, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return
    if depth == 0:
        raise NotJson(path, f"is nested more than {_DEPTH} deep.")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(path, f"is {value}, which JSON does not have: use None or a text.")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise NotJson(path, f"has the key {key!r}, a {type(key).__name__}: JSON's keys are text.")
            _check(inner, f"{path}.{key}", depth - 1)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            _check(inner, f"{path}[{place}]", depth - 1)
    elif not isinstance(value, str | int):
        raise NotJson(path, f"is a {kind.__name__}, which JSON does not have: {_advice(kind)}")


def _advice(kind: type) -> str:
    if kind in (bytes, bytearray, memoryview):
        return "save it with run.files, or encode it as text."
    if kind.__name__ in ("datetime", "date", "time", "Decimal", "UUID"):
        return "pass str(value) and turn it back in the task."
    return "pass numbers, text, lists and dicts."


class Payloads:
    """Where payloads are kept (2)."""

    def __init__(self, db: Database, layout: Layout, files: Files | None) -> None:
        self._db = db
        self._layout = layout
        self._files = files

    def kept(self, job: Job, name: str, text: str) -> tuple[Payload, list[Record]]:
        """For a job's main record: the payload, and the records that must be written with it."""
        if len(text) <= INLINE_BYTES:
            return Payload(text), []
        if len(text.encode()) <= RECORD_BYTES:
            return Payload(record=f"payload#{name}"), [self._layout.payload(job, name, text)]
        return self.spilled(job, name, text), []

    def spilled(self, job: Job, name: str, text: str) -> Payload:
        """For a record of its own: in it, or in a file."""
        data = text.encode()
        if len(data) <= RECORD_BYTES:
            return Payload(text)
        # Named by content: an attempt that was fenced off cannot overwrite what the next one has saved.
        digest = hashlib.sha256(data).hexdigest()
        return Payload(file=self._home(job).save(f"{job.id}/payloads/{name}-{digest[:16]}.json", data))

    def load(self, job: Job, payload: Payload) -> Any:
        if payload.text is not None:
            return from_json(payload.text)
        if payload.record is not None:
            call = self._layout.record_get(job.id, payload.record)
            item = self._db.execute(call.operation, call.request).get("Item")
            if item is None:
                raise JobNotFound(job.id)
            return from_json(item["data"]["S"])
        if payload.file is None:
            return None
        return from_json(self._home(job).read(payload.file.key, expect=payload.file).decode())

    def _home(self, job: Job) -> Files:
        if self._files is None:
            raise PenstockError(
                f"{job.id}: a payload above {RECORD_BYTES // 1024} KB needs a place for files. "
                'Give the app one: App(url, files="folder") or files="s3://bucket/prefix".'
            )
        return self._files
