"""What went wrong with a table: where, why, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.errors import (
    AccessDeniedException,
    ContinuousBackupsUnavailableException,
    DynamoDBError,
    PenstockError,
    ResourceInUseException,
    ResourceNotFoundException,
    TransportError,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One table that could not be looked at or made right."""

    table: str
    change: str
    """What was being done, in a few words."""
    reason: str
    next_step: str
    code: str = ""
    """DynamoDB's code, or the name of our own error."""
    action: str = ""
    """The IAM action of the call that failed, such as dynamodb:UpdateTable."""

    def __str__(self) -> str:
        return f"{self.table}: {self.change}: {self.reason} {self.next_step}".rstrip()


class TablesUnreadable(PenstockError):
    """Tables that could not be looked at; nothing was changed."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        self.failures = tuple(failures)
        super().__init__(self.failures)

    def __str__(self) -> str:
        lines = "\n".join(f"  {one}" for one in _merge_equal(self.failures))
        return f"Nothing was changed, because tables could not be looked at:\n{lines}"


class TableFailed(PenstockError):
    """What was to be done to one table was not done."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return str(self.failure)


class WaitedTooLong(PenstockError):
    """The time for this run is over; what was waited for goes on without us."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        self.what = what
        self.seconds = seconds

    def __str__(self) -> str:
        return f"{self.what} after {self.seconds:,.0f} s"


class NotWaited(PenstockError):
    """Something else would have to end first, and this run waits for nobody."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason}, and nothing was waited for"


class WrongState(PenstockError):
    """A table in a state that no waiting ends."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status

    def __str__(self) -> str:
        return f"the table is {self.status}"


class IndexVanished(PenstockError):
    """An index that was being made is gone: somebody deleted it."""

    def __init__(self, index: str) -> None:
        super().__init__(index)
        self.index = index

    def __str__(self) -> str:
        return f"index {self.index} was deleted while it was being made"


class RefusedChange(PenstockError):
    """A plan with a change that is never made; `instead` is what to do."""

    def __init__(self, instead: str) -> None:
        super().__init__(instead)
        self.instead = instead

    def __str__(self) -> str:
        return f"refused, and nothing of this table was changed: {self.instead}"


class StrangeAnswer(PenstockError):
    """An answer that is not as DynamoDB's: an endpoint that is not quite compatible."""

    def __init__(self, operation: str, detail: str) -> None:
        super().__init__(operation, detail)
        self.operation = operation
        self.detail = detail

    def __str__(self) -> str:
        return f"the answer to {self.operation} is not DynamoDB's ({self.detail})"


def _merge_equal(failures: Iterable[Failure]) -> list[Failure]:
    """What failed for several tables in the same way (no server, no credentials) is told once."""
    same: dict[Failure, list[str]] = {}
    for one in failures:
        same.setdefault(replace(one, table=""), []).append(one.table)
    return [replace(one, table=_name_some(tables)) for one, tables in same.items()]


def _name_some(tables: list[str]) -> str:
    rest = len(tables) - 3
    return ", ".join(tables) if rest <= 0 else f"{', '.join(tables[:3])} and {rest} more"


_AGAIN = "Run the same command again: it continues where this stopped."

_STATES = {
    "INACCESSIBLE_ENCRYPTION_CREDENTIALS": "DynamoDB cannot use its KMS key: enable the key, or mend its policy.",
    "ARCHIVED": "Its KMS key was unusable for seven days: restore the table from the backup that DynamoDB made.",
    "ARCHIVING": "Its KMS key was unusable for seven days: restore the table from the backup that DynamoDB makes.",
    "REPLICATION_NOT_AUTHORIZED": "Mend the permissions of its replication.",
    "CREATING": "It is being made: run the command again when it is ACTIVE.",
    "DELETING": "It is being deleted: run the command again when it is gone.",
}

_CODES = {
    "ExpiredTokenException": "The credentials have expired: sign in again.",
    "IncompleteSignatureException": "The credentials are incomplete: check AWS_ACCESS_KEY_ID and its secret.",
    "InternalServerError": _AGAIN,
    "InvalidSignatureException": "The secret key is wrong, or this machine's clock is.",
    "LimitExceededException": "A limit of the account or of the control plane: wait a little, and run it again.",
    "MissingAuthenticationTokenException": "Give credentials, as for every AWS tool.",
    "ResourceNotFoundException": "Somebody deleted it meanwhile: plan again.",
    "ThrottlingException": "The control plane is busy: wait a little, and run it again.",
    "UnknownOperationException": "This endpoint does not have the operation: leave the setting out of the definition.",
    "UnrecognizedClientException": "The access key is unknown: check AWS_ACCESS_KEY_ID, its token and the region.",
    "ValidationException": "Mend the definition, and run it again.",
}


def failure_of(table: str, change: str, error: PenstockError, *, operation: str = "", policy: str = "") -> Failure:
    """The failure of `change`; `operation` is the call that failed, `policy` the command that writes the policy."""
    code = error.code if isinstance(error, DynamoDBError) else type(error).__name__
    action = f"dynamodb:{operation}" if operation else ""
    next_step = _next_step(error, table, action, policy)
    return Failure(table, change, _sentence(_reason(error)), next_step, code, action)


def _reason(error: PenstockError) -> str:
    if isinstance(error, TransportError):
        return f"{error.endpoint}: {error.reason}"
    if isinstance(error, DynamoDBError):
        return f"{error.code}: {error.message}" if error.message else error.code
    return str(error)


def _next_step(error: PenstockError, table: str, action: str, policy: str) -> str:
    match error:
        case AccessDeniedException():
            writer = f": `{policy}` writes the policy" if policy else ""
            return f"Allow {action or 'the action'} on {table}{writer}."
        case WaitedTooLong():
            return f"It continues in DynamoDB. {_AGAIN}"
        case NotWaited():
            return "Run it again when that is over, or without --no-wait."
        case WrongState(status=status):
            return _STATES.get(status, "Put it right first.")
        case StrangeAnswer():
            return "Take an endpoint that is compatible in this."
        case TransportError(next_step=step):
            return step or _AGAIN
        case ResourceInUseException() | ContinuousBackupsUnavailableException() | IndexVanished():
            return _AGAIN
        case ResourceNotFoundException():
            return _CODES["ResourceNotFoundException"]
        case DynamoDBError(code=code):
            return _CODES.get(code, _AGAIN if error.retryable else "")
        case _:
            return ""


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
