"""What is known of files: values, ready to be stored in an item or printed as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
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
        """What `form` made."""
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


def type_of(key: str) -> str:
    """The content type that the name's ending tells."""
    kind, encoding = _types().guess_type(key.rsplit("/", 1)[-1])
    return OCTETS if kind is None or encoding is not None else kind


def checked_type(content_type: str) -> str:
    """Raises ValueError for what a header could not carry."""
    if not _TYPE.fullmatch(content_type):
        raise ValueError(f"{content_type!r} is no content type, such as text/plain")
    return content_type


# A parameter has no semicolon of its own, so that there is one way to divide them.
_TYPE = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(?: ?; ?[!-:<-~]+)*")


@lru_cache(maxsize=1)
def _types() -> MimeTypes:
    """The machine's own table is not asked, so that a file has the same type wherever it is saved."""
    types = MimeTypes(filenames=())
    office = "application/vnd.openxmlformats-officedocument"
    types.add_type(f"{office}.spreadsheetml.sheet", ".xlsx")
    types.add_type(f"{office}.wordprocessingml.document", ".docx")
    types.add_type("application/vnd.apache.parquet", ".parquet")
    types.add_type("application/x-ndjson", ".ndjson")
    types.add_type("application/x-ndjson", ".jsonl")
    return types
