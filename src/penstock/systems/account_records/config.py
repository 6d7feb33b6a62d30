"""Where the tables are and what they are called (S4.2): from the environment, else from `.env`, else the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.systems.account_records.environment_file import read_environment_file
from penstock.systems.account_records.tables import RECORDS, USERS

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
