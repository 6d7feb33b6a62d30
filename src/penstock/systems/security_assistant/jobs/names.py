"""Names of companies, clients and projects, and the keys and paths that are made of them: by one rule.

1. A name that has `#`, `/`, `\\` or `..` is refused, never cleaned: it would lead out of a key or of a folder.
2. What is left is normalised (`St. Mary's Hospital` → `st_marys_hospital`), the same for keys, paths and questions.
3. So a key has exactly three parts and a path exactly one folder for each name, whatever they were.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.errors import PenstockError
from penstock.files.errors import BadKey
from penstock.files.keys import join_key, normalize_name

NAME_BYTES: Final = 200
_REFUSED: Final = ("#", "/", "\\", "..")
_JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class BadName(PenstockError, ValueError):
    """A name that may be no part of a key: the message says which, why, and what to do."""


def part_of(name: str, what: str) -> str:
    """The name as a part of keys and paths (1, 2)."""
    if not isinstance(name, str):
        raise BadName(f"{what} is a text, not {type(name).__name__}.")
    for refused in _REFUSED:
        if refused in name:
            raise BadName(f"{what} {name!r} has {refused!r}, which may be in no name. Write it without.")
    try:
        part = normalize_name(name)
    except BadKey:
        raise BadName(f"{what} {name!r} has no letter and no digit. Give it a name.") from None
    if len(part.encode()) > NAME_BYTES:
        raise BadName(f"{what} {name[:20]!r}… has more than {NAME_BYTES} bytes. Shorten it.")
    return part


def is_job_id(job_id: object) -> bool:
    """Whether a job could have this id."""
    return isinstance(job_id, str) and _JOB_ID.fullmatch(job_id) is not None


def checked_job_id(job_id: str) -> str:
    if not is_job_id(job_id):
        raise BadName(
            f"job_id {job_id!r} is not letters, digits, _ and -, 100 at most. Use an id such as job_1734567890."
        )
    return job_id


def checked_month(month: str) -> str:
    """`2024-01`, as `date_bucket` has it."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", month):
        raise BadName(f"{month!r} is no month. Write it as 2024-01.")
    return month


@dataclass(frozen=True, slots=True)
class JobName:
    """Whose job it is and what it is called; all parts are normalised."""

    company: str
    client: str
    project: str
    job_id: str

    @property
    def key(self) -> str:
        """`company#client#job`, the table's partition key."""
        return f"{self.company}#{self.client}#{self.job_id}"

    @property
    def folder(self) -> str:
        return join_key(self.company, self.client, self.project, self.job_id)

    def path(self, file: str) -> str:
        """Where a file of this job lies."""
        if not _FILE_NAME.fullmatch(file) or ".." in file:
            raise BadName(f"{file!r} is no name of a file of a job.")
        return join_key(self.company, self.client, self.project, self.job_id, file)


def job_name(company: str, client: str, project: str, job_id: str) -> JobName:
    return JobName(
        part_of(company, "company_id"),
        part_of(client, "client_name"),
        part_of(project, "project_name"),
        checked_job_id(job_id),
    )


def parts_of_key(key: str) -> tuple[str, str, str]:
    """Company, client and job of `company#client#job`. Raises BadName for a key that has other parts."""
    parts = key.split("#")
    if len(parts) != 3:
        raise BadName(f"{key!r} is no key of a job: it is company#client#job.")
    company, client, job_id = parts
    for part, what in ((company, "company"), (client, "client")):
        if part_of(part, what) != part:
            raise BadName(f"{key!r}: its {what} is not normalised. It would be {part_of(part, what)!r}.")
    return company, client, checked_job_id(job_id)
