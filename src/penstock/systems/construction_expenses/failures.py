"""Whether an attempt that failed may succeed later: decided by the error's type and code, never by its text."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.error import HTTPError, URLError

from penstock.client.items.failures import TransactionFailed
from penstock.errors import DynamoDBError, PenstockError, error_of
from penstock.retry import Failure, message_of

MESSAGE_BYTES = 500
_CODE_CHARACTERS = 100
"""Of an error's text, in the history: it may hold a whole web page, and a hundred of them must fit beside a payload."""

_PASSING_REASONS = frozenset(
    {
        # Somebody wrote what this attempt had read: the next one reads again.
        "ConditionalCheckFailed",
        "InternalServerError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "ThrottlingError",
        "TransactionConflict",
    }
)
_TOO_MANY_REQUESTS = 429
_REQUEST_TIMEOUT = 408
_SERVER_FAILED = 500


class Transient(PenstockError):
    """For handlers to raise: what is wrong now may be right in a moment."""

    retryable = True


def failure_of(error: Exception) -> Failure:
    """Why an attempt failed, as it is kept."""
    message = message_of(error).encode()[:MESSAGE_BYTES].decode(errors="ignore")
    return Failure(type(error).__name__, message, is_transient(error), code=code_of(error))


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later."""
    match error:
        case TransactionFailed():
            return all(reason.code in _PASSING_REASONS for reason in error.reasons)
        case PenstockError():
            return error.retryable
        case ConnectionError() | TimeoutError():
            return True
        case HTTPError():
            return _is_passing_status(error.code)
        case URLError(reason=BaseException() as reason):
            return is_transient(reason)
        case _:
            return _is_passing_answer(error)


def code_of(error: BaseException) -> str:
    """The code that the error came with: DynamoDB's, another AWS service's, or an HTTP status."""
    if isinstance(error, DynamoDBError):
        return error.code
    if isinstance(error, HTTPError):
        return str(error.code)
    code, status = _answer(error)
    return code[:_CODE_CHARACTERS] if code else str(status) if status else ""


def _is_passing_answer(error: BaseException) -> bool:
    code, status = _answer(error)
    if code is not None:
        # The codes of AWS's services that DynamoDB's client knows to be passing are the same everywhere.
        return error_of(code, "", status or 400).retryable
    return status is not None and _is_passing_status(status)


def _answer(error: BaseException) -> tuple[str | None, int | None]:
    """The code and the status of an answer that an error holds: botocore's, or that of an HTTP library."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = response.get("Error", {}).get("Code")
        return code if isinstance(code, str) else None, status if isinstance(status, int) else None
    status = getattr(response, "status_code", None)
    return None, status if isinstance(status, int) else None


def _is_passing_status(status: int) -> bool:
    return status in (_TOO_MANY_REQUESTS, _REQUEST_TIMEOUT) or status >= _SERVER_FAILED
