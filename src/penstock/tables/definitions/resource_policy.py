"""Resource policies of tables: JSON documents that let others in.

1. A definition keeps a policy as one text of JSON, its members in order: equal documents are equal values. The text
   '' is a table that is to have none; None is left as it is found.
2. Two policies are the same if IAM reads them the same: a list of one value is that value, the order of lists does not
   count, and an account is its root.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MOST_BYTES = 20 * 1024
"""DynamoDB counts white space, too."""

_ACCOUNT = re.compile(r"\d{12}")


def policy_text(given: Any) -> Any:
    """A document, or its JSON, as a definition keeps it (1). What is neither is left as it is: `check` refuses it."""
    document = given
    if isinstance(given, str):
        try:
            document = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            return given
    if not isinstance(document, Mapping):
        return given
    try:
        return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False) if document else ""
    except (TypeError, ValueError, RecursionError):
        return given


def policy_document(text: str) -> dict[str, Any]:
    """The document of a definition's text; {} for none."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def policy_problem(value: object) -> str | None:
    """What is wrong with a definition's policy."""
    if not isinstance(value, str):
        return "it is no JSON object"
    if value == "":
        return None
    try:
        document = json.loads(value)
        size = len(value.encode())
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({error})"
    if not isinstance(document, dict):
        return "it is no JSON object"
    if not document.get("Statement"):
        return "it has no Statement"
    return f"it has {size:,} bytes" if size > MOST_BYTES else None


def same_policy(one: str, other: str) -> bool:
    """Whether IAM reads two policies the same (2)."""
    if one == other:
        return True
    try:
        return bool(_plain(json.loads(one or "{}")) == _plain(json.loads(other or "{}")))
    except (ValueError, RecursionError):
        return False


def _plain(value: Any, member: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _plain(one, name) for name, one in value.items()}
    if isinstance(value, list):
        several = sorted((_plain(one, member) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
        return several[0] if len(several) == 1 else several
    if member == "AWS" and isinstance(value, str) and _ACCOUNT.fullmatch(value):
        return f"arn:aws:iam::{value}:root"
    return value
