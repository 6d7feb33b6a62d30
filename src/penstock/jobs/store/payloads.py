"""What tasks are given and give back: JSON (json_text.py), encoded by the app's codecs, kept where it fits.

1. Short payloads are in the item that they belong to, longer ones in a record of their own, and those that no item can
   hold in a file. The reader does not notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.client.database import Database
from penstock.codecs import MARK, CodecChain
from penstock.errors import PenstockError
from penstock.jobs.layouts.layout import Layout, Record
from penstock.jobs.model.job import Job, JobNotFound, Payload
from penstock.jobs.model.json_text import NotJson, from_json, same_json, to_json

if TYPE_CHECKING:
    from penstock.files import Files

__all__ = ["INLINE_BYTES", "RECORD_BYTES", "SHORT_CHARACTERS", "NotJson", "Payloads", "from_json", "to_json"]

INLINE_BYTES: Final = 8 * 1024
"""A main record is written whole at each report: what is in it should be short."""
SHORT_CHARACTERS: Final = 1_024
"""What is no longer than this fits into the write of its main record, whatever else is in it."""
RECORD_BYTES: Final = 300 * 1024
"""An item holds 400 KB; this leaves room for the rest of it."""


class Payloads:
    """Where payloads are kept (1)."""

    def __init__(self, db: Database, layout: Layout, files: Files | None, codecs: CodecChain) -> None:
        self._db = db
        self._layout = layout
        self._files = files
        self._codecs = codecs

    def place(self, job: Job, name: str, text: str) -> tuple[Payload, list[Record]]:
        """For a job's main record: the payload, and the records that must be written with it."""
        text = self.encode(job, name, text)
        size = len(text) if text.isascii() else len(text.encode())
        if size <= INLINE_BYTES:
            return Payload(text), []
        if size <= RECORD_BYTES:
            return Payload(record=f"payload#{name}"), [self._layout.payload(job, name, text)]
        return self._spill(job, text), []

    def spill(self, job: Job, name: str, text: str) -> Payload:
        """For a record of its own: in it, or in a file."""
        return self._spill(job, self.encode(job, name, text))

    def encode(self, job: Job, name: str, text: str) -> str:
        """JSON as it is stored; `name` is what the payload is called, such as `args`."""
        return self._codecs.encode(text, job.id, name) if self._codecs.writes else text

    def _spill(self, job: Job, text: str) -> Payload:
        data = text.encode()
        if len(data) <= RECORD_BYTES:
            return Payload(text)
        # Named by content: an attempt that was fenced off cannot overwrite what the next one has saved.
        from hashlib import sha256

        digest = sha256(data).hexdigest()
        return Payload(file=self._file_store(job).save(f"{job.id}/payloads/{digest[:32]}.json", data))

    def load(self, job: Job, payload: Payload, name: str | None = None) -> Any:
        """`name` is what the payload is called, where that is known."""
        text = self.text(job, payload, name)
        return None if text is None else from_json(text)

    def is_same(self, job: Job, payload: Payload, text: str) -> bool:
        """Whether the arguments of the job are this JSON."""
        found = self.text(job, payload, "args")
        return found is not None and same_json(found, text)

    def text(self, job: Job, payload: Payload, name: str | None = None) -> str | None:
        """The JSON of a payload, wherever it lies."""
        text = self._stored_text(job, payload)
        if text is None or not text.startswith(MARK):
            return text
        if name is None and (payload is job.args or payload is job.result):
            name = "args" if payload is job.args else "result"
        return self._codecs.decode(text, job.id, name)

    def _stored_text(self, job: Job, payload: Payload) -> str | None:
        if payload.text is not None:
            return payload.text
        if payload.record is not None:
            call = self._layout.record_get(job.id, payload.record)
            item = self._db.execute(call.operation, call.request).get("Item")
            if item is None:
                raise JobNotFound(job.id)
            text: str = item["data"]["S"]
            return text
        if payload.file is None:
            return None
        return self._file_store(job).read(payload.file.key, expect=payload.file).decode()

    def _file_store(self, job: Job) -> Files:
        if self._files is None:
            raise PenstockError(
                f"{job.id}: a payload above {RECORD_BYTES // 1024} KB needs a place for files. "
                'Give the app one: App(url, files="folder") or files="s3://bucket/prefix".'
            )
        return self._files
