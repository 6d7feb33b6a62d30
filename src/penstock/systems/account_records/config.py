"""Where the tables are and what they are called (S4.2): from the environment, else from `.env`, else the defaults.

A `.env` has lines such as these:

    # a comment
    DYNAMODB_ENDPOINT=http://localhost:8000     # a comment after a blank
    export AWS_REGION="us-east-1"
    NAME='as it stands: $HOME # \\n'

In double quotes `\\n`, `\\r` and `\\t` are what they are everywhere; a backslash before anything else is left out. In
single quotes everything stands for itself. Nothing is expanded, and nothing is executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError
from penstock.systems.account_records.tables import RECORDS, USERS

LARGEST_FILE_BYTES: Final = 100_000

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


class BadEnvironmentFile(PenstockError):
    """A line that is no variable: which, and why not. What stands on it is not shown, as it may be a secret."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {reason}")
        self.file, self.line, self.reason = file, line, reason


def read_environment_file(path: Path) -> dict[str, str]:
    """The variables of a file; of one that stands there twice, the last. Raises BadEnvironmentFile."""
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise BadEnvironmentFile(str(path), None, f"it has more than {LARGEST_FILE_BYTES:,} bytes; is it a .env?")
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise BadEnvironmentFile(str(path), None, f"it cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise BadEnvironmentFile(str(path), None, f"it is no UTF-8 text (byte {error.start})") from error
    return variables_of(text, str(path))


def variables_of(text: str, file: str = ".env") -> dict[str, str]:
    """The variables of a file's text."""
    found = {}
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            name, value = _variable(stripped, file, number)
            found[name] = value
    return found


def _variable(line: str, file: str, number: int) -> tuple[str, str]:
    """Variable = ["export"] NAME "=" (DOUBLE-QUOTED | SINGLE-QUOTED | plain) [COMMENT]."""
    if "\0" in line:
        raise BadEnvironmentFile(file, number, "it has a zero byte, which no variable can hold")
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadEnvironmentFile(file, number, "a line is NAME=value, or a comment that begins with #")
    name, rest = found.groups()
    return name, _value(rest, file, number)


def _value(text: str, file: str, number: int) -> str:
    if text[:1] == '"':
        quoted = _DOUBLE.fullmatch(text)
        value = None if quoted is None else _ESCAPE.sub(lambda one: _ESCAPED.get(one[1], one[1]), quoted[1])
    elif text[:1] == "'":
        quoted = _SINGLE.fullmatch(text)
        value = None if quoted is None else quoted[1]
    else:
        value = _COMMENT.sub("", text, count=1).strip()
    if value is None:
        raise BadEnvironmentFile(file, number, "its quotes do not match, or something stands after them")
    return value


ENVIRONMENT_FILE: Final = ".env"

DEFAULTS: Final = {
    "DYNAMODB_ENDPOINT": "http://localhost:8000",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "USER_TABLE": USERS,
    "RECORD_TABLE": RECORDS,
}
"""Those of a local DynamoDB: `penstock serve`."""

EXAMPLE: Final = "".join(f"{name}={value}\n" for name, value in DEFAULTS.items())
"""What `.env.example` has."""


@dataclass(frozen=True, slots=True)
class Config:
    endpoint: str = DEFAULTS["DYNAMODB_ENDPOINT"]
    """A URL as `penstock.connect` takes it; a file's name, or aws://eu-west-2, is one too."""
    region: str = DEFAULTS["AWS_REGION"]
    access_key_id: str = ""
    secret_access_key: str = ""
    """Empty where nobody has set them: at AWS they are then found as boto3 finds them."""
    user_table: str = USERS
    record_table: str = RECORDS

    def __repr__(self) -> str:
        """Without the secret, which would stand in every log."""
        return f"Config({self.endpoint!r}, {self.region!r}, {self.user_table!r}, {self.record_table!r})"

    @classmethod
    def load(
        cls,
        file: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        default_endpoint: str | None = None,
    ) -> Config:
        """The configuration: a variable of the real environment is never overridden by the file.

        `.env` of this folder is read if it is there; a `file` that is named must be. An empty variable is one that is
        not set. `default_endpoint` is taken where neither names one. Raises BadEnvironmentFile.
        """
        given = os.environ if environment is None else environment
        path = Path(ENVIRONMENT_FILE if file is None else file)
        written = read_environment_file(path) if file is not None or path.is_file() else {}
        said = {name: given.get(name) or written.get(name) or "" for name in DEFAULTS}
        return cls(
            endpoint=said["DYNAMODB_ENDPOINT"] or default_endpoint or DEFAULTS["DYNAMODB_ENDPOINT"],
            region=said["AWS_REGION"] or DEFAULTS["AWS_REGION"],
            access_key_id=said["AWS_ACCESS_KEY_ID"],
            secret_access_key=said["AWS_SECRET_ACCESS_KEY"],
            user_table=said["USER_TABLE"] or USERS,
            record_table=said["RECORD_TABLE"] or RECORDS,
        )
