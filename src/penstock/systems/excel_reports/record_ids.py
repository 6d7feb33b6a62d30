"""The ids of jobs and of their records: one builder, and a reader of every spelling that there is.

job_{ms}_{6}                                    a job: milliseconds in base 36, six random digits
job_{jobId}_{ms}_{6}                            its main record
{jobId}_seq000_{time}_{4}                       its main record, as others have spelt it
{jobId}_seq000000001_2025-06-16_21_20_15_…      a record of its progress, or of its end

1. The main record's id is made of the job's id alone, so that it is found by its key in either layout.
2. Numbers are padded so that records sort in their order past 999 (others have padded to three digits; as text, their
   1,000 comes before their 999, and a reader goes by `sequenceNumber`).
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from penstock.jobs.model.job import new_id

_PADDING: Final = 9
_SUFFIX: Final = 4
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_JOB: Final = re.compile(r"job_([0-9a-z]{1,12})_([0-9a-z]{6})")
# What stands before the last underscore of an id; behind it, both have a suffix.
_MAIN: Final = re.compile(r"job_(?P<job>.+)_[0-9]{1,16}")
_NUMBERED: Final = re.compile(r"(?P<job>.+)_seq(?P<number>[0-9]{3,12})_.")
_ENDING: Final = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class RecordId:
    """What a record's id tells."""

    job_id: str
    number: int
    """0 for a main record."""


def new_job_id(now: float) -> str:
    return new_id(now)


def main_record_id(job_id: str) -> str | None:
    """The id that our own main record of this job has; None for an id that is not of our making."""
    found = _JOB.fullmatch(job_id)
    return None if found is None else f"job_{job_id}_{int(found.group(1), 36)}_{found.group(2)}"


def log_record_id(job_id: str, number: int, at: float) -> str:
    """A new id of a numbered record; the suffix keeps apart what two writers call by the same number."""
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d_%H_%M_%S")
    suffix = "".join(secrets.choice(_DIGITS) for _ in range(_SUFFIX))
    return f"{job_id}_seq{number:0{_PADDING}d}_{moment}_{suffix}"


def parse_record_id(record_id: str) -> RecordId | None:
    """Whose record it is and its number, in any spelling; None for what is no record's id."""
    before, _, ending = record_id.rpartition("_")
    if "\n" in record_id or _ENDING.fullmatch(ending) is None:
        return None
    numbered = _NUMBERED.match(before)
    if numbered is not None:
        return RecordId(numbered["job"], int(numbered["number"]))
    main = _MAIN.fullmatch(before)
    return None if main is None else RecordId(main["job"], 0)
