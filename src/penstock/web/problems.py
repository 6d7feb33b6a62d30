"""Errors of an API, as JSON with a kind, a message and the next step.

    {"error": {"kind": "not_found", "message": "There is no job job_1 …", "next_step": "…", "errors": [...]}}

`errors` lists several errors of one request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response

from penstock.errors import PenstockError

KINDS: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timed_out",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "unprocessable",
    423: "not_ready",
    500: "internal",
    503: "unavailable",
}


class Problem(HTTPException):
    """An error that a handler raises and that becomes its answer. While FastAPI reads a body, it lets only
    HTTPException through.
    """

    def __init__(
        self,
        status: int,
        message: str,
        next_step: str = "",
        *,
        kind: str | None = None,
        errors: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.status = status
        self.message = message
        self.next_step = next_step
        self.kind = kind or KINDS.get(status, "error")
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return self.message

    def form(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"kind": self.kind, "message": self.message, "next_step": self.next_step}
        if self.errors:
            facts["errors"] = list(self.errors)
        return {"error": facts}

    def response(self) -> Response:
        return json_answer(self.form(), self.status, self.headers)


def unauthorized() -> Problem:
    """A request without the server's token."""
    return Problem(
        401,
        "This needs the server's token.",
        "Send `Authorization: Bearer TOKEN`: `penstock up` prints it, or takes it from PENSTOCK_DASHBOARD_TOKEN.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def json_answer(form: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A Response of JSON."""
    body = orjson.dumps(form, option=orjson.OPT_NON_STR_KEYS)
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


Statuses = Mapping[type[Exception], int | tuple[int, str]]
"""The status of an error's class, or the status and the next step."""


def problem_of(error: PenstockError, statuses: Statuses) -> Problem:
    """A Penstock error as an answer: the status of its class, else 503 if it is retryable and 500 if not.

    An error that lists several (`errors`) keeps them all.
    """
    for kind in type(error).__mro__:
        if kind in statuses:
            found = statuses[kind]
            status, next_step = found if isinstance(found, tuple) else (found, "See /openapi.json.")
            return Problem(status, str(error), next_step, errors=getattr(error, "errors", ()))
    if error.retryable:
        return Problem(503, str(error), "Try again in a moment.", headers={"Retry-After": "1"})
    return Problem(500, str(error), "See the server's log.")
