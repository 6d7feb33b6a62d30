"""The file of `--credentials`: access keys and their secrets.

Either JSON, an object of access key → secret, or the AWS CLI's own ini format: sections with
`aws_access_key_id` and `aws_secret_access_key`. A section may also have lines `ACCESSKEY = secret`. Names in small
letters are settings of the AWS CLI (`region`, `output`): were they keys, everybody would know their secrets.
"""

from __future__ import annotations

import configparser
import json
from pathlib import Path

from penstock.errors import PenstockError


class CredentialsFileError(PenstockError):
    """The file cannot be read, or has no keys in it: it says which file and what is wrong."""


def load_credentials(path: str | Path) -> dict[str, str]:
    """Secrets by access key; raises CredentialsFileError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsFileError(f"Cannot read the credentials file {path}: {error}") from error
    try:
        secrets = _from_json(text) if text.lstrip().startswith("{") else _from_ini(text)
    except (ValueError, RecursionError, configparser.Error) as error:
        raise CredentialsFileError(f"Cannot understand the credentials file {path}: {error}") from error
    if "" in secrets or "" in secrets.values():
        raise CredentialsFileError(
            f"The credentials file {path} has an empty key or secret: anybody could sign with it."
        )
    if not secrets:
        raise CredentialsFileError(
            f'The credentials file {path} has no keys. Write {{"ACCESSKEY": "secret"}}, or sections with '
            "aws_access_key_id and aws_secret_access_key."
        )
    return secrets


def _from_json(text: str) -> dict[str, str]:
    given = json.loads(text)
    if not all(isinstance(secret, str) for secret in given.values()):
        raise ValueError("every secret must be a string")
    for text_of in (*given, *given.values()):
        text_of.encode()  # half of a surrogate pair is a ValueError: nothing could be signed with it
    return dict(given)


def _from_ini(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    secrets: dict[str, str] = {}
    for name in parser.sections():
        section = dict(parser[name])
        key = section.pop("aws_access_key_id", None)
        secret = section.pop("aws_secret_access_key", None)
        if (key is None) != (secret is None):
            raise ValueError(f"section [{name}] has only one of aws_access_key_id and aws_secret_access_key")
        if key is not None and secret is not None:
            secrets[key] = secret
        secrets.update({name: value for name, value in section.items() if name != name.lower()})
    return secrets
