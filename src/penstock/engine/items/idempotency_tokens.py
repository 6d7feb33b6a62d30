"""Idempotency tokens: a transaction repeated with its token within ten minutes is answered, not done again."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import orjson

from penstock.engine.context import OperationContext
from penstock.errors import IdempotentParameterMismatchException
from penstock.wire.limits import IDEMPOTENCY_SECONDS


def digest_of(request: Any) -> bytes:
    """What makes two requests the same."""
    return sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).digest()


def earlier_answer(context: OperationContext, token: str, digest: bytes) -> dict[str, Any] | None:
    """What was remembered with this token; refused if it was with another request."""
    row = context.db.execute(
        "SELECT digest, answer FROM idempotency WHERE account = ? AND region = ? AND token = ? AND expires_at > ?",
        (context.scope.account, context.scope.region, token, context.now),
    ).fetchone()
    if row is None:
        return None
    if row[0] != digest:
        raise IdempotentParameterMismatchException(
            "The request uses the same client token as a previous, but non-identical request. "
            "Try again with a new client token, or make sure that the requests are identical."
        )
    answer: dict[str, Any] = orjson.loads(row[1])
    return answer


def remember(context: OperationContext, token: str, digest: bytes, answer: dict[str, Any]) -> None:
    context.db.execute("DELETE FROM idempotency WHERE expires_at <= ?", (context.now,))
    context.db.execute(
        "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?)",
        (
            context.scope.account,
            context.scope.region,
            token,
            digest,
            orjson.dumps(answer),
            context.now + IDEMPOTENCY_SECONDS,
        ),
    )
