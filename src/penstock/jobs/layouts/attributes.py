"""Parts of jobs as attributes in DynamoDB's JSON, and back: what all layouts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.files.content import SavedFile
from penstock.jobs.layouts.layout import Item
from penstock.jobs.model.job import JobError, Payload
from penstock.jobs.model.transitions import KILLED_WORKERS

_STORED_KINDS: Final = {KILLED_WORKERS: "Parked"}
"""Kinds of errors that are stored by another word: tables are older than the word."""
_READ_KINDS: Final = {stored: kind for kind, stored in _STORED_KINDS.items()}


def number_text(value: float) -> str:
    """A float exactly as Python writes it, a whole one without its `.0`."""
    return str(int(value)) if value == int(value) else repr(float(value))


def payload_value(payload: Payload) -> dict[str, Any]:
    if payload.text is not None:
        return {"S": payload.text}
    if payload.record is not None:
        return {"M": {"record": {"S": payload.record}}}
    if payload.file is None:
        raise ValueError("a payload has a text, a record or a file")
    return file_value(payload.file)


def payload_of(value: Mapping[str, Any]) -> Payload:
    if "S" in value:
        return Payload(value["S"])
    kept = value["M"]
    if "record" in kept:
        return Payload(record=kept["record"]["S"])
    return Payload(file=file_of(kept))


def file_value(file: SavedFile) -> dict[str, Any]:
    texts = {name: {"S": value} for name, value in file.form().items() if name != "size"}
    return {"M": {**texts, "size": {"N": str(file.size)}}}


def file_of(kept: Mapping[str, Any]) -> SavedFile:
    return SavedFile.parse({name: value.get("S", value.get("N")) for name, value in kept.items()})


def error_value(error: JobError) -> dict[str, Any]:
    kind = _STORED_KINDS.get(error.kind, error.kind)
    kept = {"kind": {"S": kind}, "message": {"S": error.message}}
    if error.trace:
        kept["trace"] = {"S": error.trace}
    return {"M": kept}


def add_texts(item: Item, **texts: str) -> None:
    for name, text in texts.items():
        if text:
            item[name] = {"S": text}


def text_of(value: Mapping[str, str] | None) -> str:
    return "" if value is None else value["S"]


def maybe_text_of(value: Mapping[str, str] | None) -> str | None:
    return None if value is None else value["S"]


def number_of(value: Mapping[str, str] | None, default: float = 0) -> float:
    return default if value is None else float(value["N"])


def error_of(value: Mapping[str, Any]) -> JobError:
    error = value["M"]
    kind: str = error["kind"]["S"]
    return JobError(_READ_KINDS.get(kind, kind), error["message"]["S"], text_of(error.get("trace")))
