"""The least IAM policy for what programs do with jobs on AWS.

Each role's actions are those that it was recorded to call, and a test compares the two. A transaction has no action of
its own: AWS asks for those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.errors import PenstockError
from penstock.jobs.layouts.tables import DEFAULT_TABLE

_READ: Final = frozenset({"BatchGetItem", "GetItem"})
_OPEN: Final = _READ | {"DescribeTable", "PutItem", "UpdateItem"}

TABLE_ACTIONS: Final = {
    "enqueue": _OPEN | {"ConditionCheckItem", "Query"},
    "work": _OPEN | {"ConditionCheckItem", "DeleteItem", "Query"},
    "look": _READ | {"Query"},
    "manage": _READ | {"DeleteItem", "PutItem", "Query", "UpdateItem"},
}
"""On the table; Query on its indexes too."""

FILE_ACTIONS: Final = {
    "enqueue": frozenset({"PutObject"}),
    "work": frozenset({"AbortMultipartUpload", "DeleteObject", "GetObject", "PutObject"}),
    "look": frozenset({"GetObject"}),
    "manage": frozenset[str](),
}
"""On the files under the prefix. Who reads also lists the bucket: without that S3 calls a missing file forbidden."""

ROLES: Final = tuple(TABLE_ACTIONS)


def policy(
    roles: Iterable[str],
    *,
    table: str = DEFAULT_TABLE,
    files: str | None = None,
    region: str = "*",
    account: str = "*",
    partition: str = "aws",
) -> dict[str, Any]:
    """The policy document; `files` is the s3:// URL of the app's files.

    Raises PenstockError for an unknown role, and for files that are not on S3.
    """
    asked = tuple(dict.fromkeys(roles))
    if unknown := [role for role in asked if role not in ROLES]:
        raise PenstockError(f"There is no role {unknown[0]!r}; there are {', '.join(ROLES)}.")
    arn = f"arn:{partition}:dynamodb:{region}:{account}:table/{table}"
    actions = frozenset[str]().union(*(TABLE_ACTIONS[role] for role in asked))
    statements = [
        _statement("Jobs", "dynamodb", actions, [arn]),
        _statement("JobIndexes", "dynamodb", actions & {"Query"}, [f"{arn}/index/*"]),
        *(_file_statements(asked, files, partition) if files else ()),
    ]
    return {"Version": "2012-10-17", "Statement": [one for one in statements if one["Action"]]}


def _file_statements(roles: tuple[str, ...], files: str, partition: str) -> Iterable[dict[str, Any]]:
    parts = urlsplit(files)
    if parts.scheme != "s3" or not parts.netloc:
        raise PenstockError(f"{files} names no bucket: write s3://bucket/prefix.")
    bucket = f"arn:{partition}:s3:::{parts.netloc}"
    prefix = parts.path.strip("/")
    actions = frozenset[str]().union(*(FILE_ACTIONS[role] for role in roles))
    yield _statement("Files", "s3", actions, [f"{bucket}/{prefix}/*" if prefix else f"{bucket}/*"])
    yield _statement("Bucket", "s3", {"ListBucket"} if "GetObject" in actions else (), [bucket])


def _statement(sid: str, service: str, actions: Iterable[str], resources: list[str]) -> dict[str, Any]:
    named = sorted(f"{service}:{action}" for action in actions)
    return {"Sid": sid, "Effect": "Allow", "Action": named, "Resource": resources}
