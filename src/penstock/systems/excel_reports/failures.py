"""Why a report failed, in a word that programs can act on (S0.11): by the error's class, never by its text."""

from __future__ import annotations

import json
import zipfile
from typing import Final

import orjson

from penstock.client.items.values import InvalidValue
from penstock.errors import AccessDeniedException, CredentialsMissing, TimedOut, ValidationException
from penstock.files.errors import FileChanged, FileMissing, HomeMissing, NotAllowed
from penstock.systems.excel_reports.records import BadReport, Category

# The first that fits: BadReport is a ValueError too.
_CATEGORIES: Final[tuple[tuple[Category, tuple[type[BaseException], ...]], ...]] = (
    ("file_not_found", (FileNotFoundError, FileMissing, HomeMissing)),
    ("access_denied", (PermissionError, NotAllowed, AccessDeniedException, CredentialsMissing)),
    ("timeout", (TimeoutError, TimedOut)),
    ("data_format", (FileChanged, json.JSONDecodeError, orjson.JSONDecodeError, UnicodeError, zipfile.BadZipFile)),
    ("validation", (BadReport, InvalidValue, ValidationException)),
)


def category_of(error: BaseException) -> Category:
    """The category of an error, or of the first of its causes that has one."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        for category, kinds in _CATEGORIES:
            if isinstance(now, kinds):
                return category
        now = now.__cause__
    return "unknown"


def duration_text(seconds: float) -> str:
    """`45s`, `2m 5s`, `1h 0m 5s`."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours}h {minutes}m {whole % 60}s"
    return f"{minutes}m {whole % 60}s" if minutes else f"{whole}s"
