"""What is known of files: values, ready to be stored in an item or printed as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from mimetypes import MimeTypes
from typing import Any

OCTETS = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file as it was saved: give it to `open` as `expect`, and other bytes are refused."""

    key: str
    size: int
    sha256: str
    """In hex."""
    saved_at: str
    """`2025-06-16T21:19:33.789Z`"""
    content_type: str = OCTETS

    def form(self) -> dict[str, Any]:
        """As JSON or as an item's attribute; `parse` takes it back."""
        return asdict(self)

    @classmethod
    def parse(cls, form: Mapping[str, Any]) -> SavedFile:
        return cls(form["key"], int(form["size"]), form["sha256"], form["saved_at"], form.get("content_type", OCTETS))


@dataclass(frozen=True, slots=True)
class ListedFile:
    """What a listing tells of a file, without opening it; `changed_at` is in seconds since the epoch."""

    key: str
    size: int
    changed_at: float


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed, or with `dry_run` would have."""

    leftovers: int
    """Of saves that never finished."""
    orphans: int
    """Files that `keep` did not know."""
    size: int
    """Bytes of both."""


def moment_text(seconds: float) -> str:
    """`2025-06-16T21:19:33.789Z`"""
    moment = datetime.fromtimestamp(round(seconds * 1000) / 1000 + 1e-6, UTC)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


# The machine's own table is not asked, so that a file has the same type wherever it was saved.
_TYPES = MimeTypes(filenames=())
_TYPES.add_type("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx")
_TYPES.add_type("application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".docx")
_TYPES.add_type("application/vnd.apache.parquet", ".parquet")
_TYPES.add_type("application/x-ndjson", ".ndjson")
_TYPES.add_type("application/x-ndjson", ".jsonl")


def type_of(key: str) -> str:
    """The content type that the name's ending tells."""
    kind, encoding = _TYPES.guess_type(key.rsplit("/", 1)[-1])
    return OCTETS if kind is None or encoding is not None else kind
