"""Every error that Penstock raises, by what the caller should do next.

    PenstockError
    ├── DynamoDBError              an answer of DynamoDB's; `code` and `message` are DynamoDB's own
    │   ├── (fix the call)         ValidationException, ResourceNotFoundException, SerializationException, …
    │   ├── (read again, decide)   ConditionalCheckFailedException, TransactionCanceledException, …
    │   └── (repeat it)            ProvisionedThroughputExceededException, InternalServerError, …
    ├── StorageError               the database file cannot be used: it says which file and why
    │   ├── (fix the call)         DatabaseClosed
    │   ├── DatabaseLost           it was deleted, replaced or overwritten under this process: end, and open it again
    │   └── (repeat it)            DatabaseLocked
    ├── JobNotFound, BadJob, …     a job is not there, or cannot be as it was asked for (penstock.jobs)
    ├── LeaseLost, JobCancelled    stop working on it: nothing more will be stored (penstock.leases, penstock.jobs)
    ├── FileError, …               a file is missing, has changed, or cannot be kept (penstock.files)
    ├── DefinitionError, …         a table's definition, export or plan is wrong (penstock.tables says which)
    └── TransportError             no answer came: it says from which endpoint, why, and what to do
        ├── (fix the call)         BadUrl, TransportClosed, TlsFailed, CredentialsMissing, NotDynamoDB
        └── (repeat it)            ConnectionFailed, TimedOut, BadAnswer; `sent` says if it may have had an effect

Callers ask `error.retryable`; nobody matches message text. Facts are attributes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Self

_DYNAMODB = "com.amazonaws.dynamodb.v20120810#"
_CORAL_SERVICE = "com.amazon.coral.service#"
_CORAL_VALIDATE = "com.amazon.coral.validate#"
_CORAL_AVAILABILITY = "com.amazon.coral.availability#"


class PenstockError(Exception):
    """The root: catch this to catch everything that is ours."""

    retryable: ClassVar[bool] = False


class StorageError(PenstockError):
    """The database file cannot be opened, read or written."""


class DatabaseLocked(StorageError):
    """Another process held the file's write lock for longer than a write waits: repeat it."""

    retryable = True


class DatabaseClosed(StorageError):
    """The database was closed before this call."""


class DatabaseLost(StorageError):
    """The database file was deleted, replaced or overwritten while this process had it open.

    Whether the write that is answered so was stored cannot be known. No later call succeeds: close, and open it again.
    """


class DynamoDBError(PenstockError):
    """An error as DynamoDB answers it.

    `fields` are the members that its body has beside the message, for example `CancellationReasons` or `Item`.
    """

    maybe_ours: bool = False
    """The call was repeated after an answer was lost, so what this error complains of may be its own first effect."""

    namespace: ClassVar[str] = _DYNAMODB
    status: ClassVar[int] = 400
    message_key: ClassVar[str] = "message"

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    @property
    def code(self) -> str:
        """DynamoDB's name for it."""
        return type(self).__name__

    def body(self) -> dict[str, Any]:
        """The JSON object that DynamoDB answers with."""
        answer: dict[str, Any] = {"__type": self.namespace + self.code}
        if self.message:
            answer[self.message_key] = self.message
        answer.update(self.fields)
        return answer

    def as_answer(self) -> Self:
        """The error as a value to keep: without the frames that raised it, which hold the request and lists of answers.

        With them, an error in a list of answers is a cycle, and a large request lives until the collector comes.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


# ── fix the call ─────────────────────────────────────────────────────────────────────────────────


class ValidationException(DynamoDBError):
    namespace = _CORAL_VALIDATE


class SerializationException(DynamoDBError):
    namespace = _CORAL_SERVICE
    message_key = "Message"


class UnknownOperationException(DynamoDBError):
    namespace = _CORAL_SERVICE


class MissingAuthenticationTokenException(DynamoDBError):
    namespace = _CORAL_SERVICE


class IncompleteSignatureException(DynamoDBError):
    namespace = _CORAL_SERVICE


class InvalidSignatureException(DynamoDBError):
    namespace = _CORAL_SERVICE


class UnrecognizedClientException(DynamoDBError):
    namespace = _CORAL_SERVICE


class AccessDeniedException(DynamoDBError):
    namespace = _CORAL_SERVICE
    message_key = "Message"


class ResourceNotFoundException(DynamoDBError):
    pass


class ResourceInUseException(DynamoDBError):
    pass


class TableNotFoundException(DynamoDBError):
    pass


class GlobalTableNotFoundException(DynamoDBError):
    pass


class TableAlreadyExistsException(DynamoDBError):
    pass


class TableInUseException(DynamoDBError):
    pass


class BackupNotFoundException(DynamoDBError):
    pass


class BackupInUseException(DynamoDBError):
    pass


class IndexNotFoundException(DynamoDBError):
    pass


class PointInTimeRecoveryUnavailableException(DynamoDBError):
    pass


class ContinuousBackupsUnavailableException(DynamoDBError):
    pass


class InvalidRestoreTimeException(DynamoDBError):
    pass


class InvalidExportTimeException(DynamoDBError):
    pass


class ExportNotFoundException(DynamoDBError):
    pass


class ExportConflictException(DynamoDBError):
    pass


class ImportNotFoundException(DynamoDBError):
    pass


class ImportConflictException(DynamoDBError):
    pass


class PolicyNotFoundException(DynamoDBError):
    pass


class DuplicateItemException(DynamoDBError):
    pass


class IdempotentParameterMismatchException(DynamoDBError):
    message_key = "Message"


class ItemCollectionSizeLimitExceededException(DynamoDBError):
    pass


class ExpiredIteratorException(DynamoDBError):
    pass


class TrimmedDataAccessException(DynamoDBError):
    pass


# ── read again and decide ────────────────────────────────────────────────────────────────────────


class ConditionalCheckFailedException(DynamoDBError):
    """`fields["Item"]` is the item as it was, where the call asked for it."""

    @property
    def item(self) -> dict[str, Any] | None:
        """The same item; None where the call did not ask for it, or there was none."""
        found: dict[str, Any] | None = self.fields.get("Item")
        return found


class TransactionCanceledException(DynamoDBError):
    """`fields["CancellationReasons"]` has one reason for each action."""

    message_key = "Message"


# ── repeat it ────────────────────────────────────────────────────────────────────────────────────


class TransactionConflictException(DynamoDBError):
    retryable = True


class TransactionInProgressException(DynamoDBError):
    retryable = True


class LimitExceededException(DynamoDBError):
    retryable = True


class ProvisionedThroughputExceededException(DynamoDBError):
    retryable = True


class RequestLimitExceeded(DynamoDBError):
    retryable = True


class ThrottlingException(DynamoDBError):
    namespace = _CORAL_AVAILABILITY
    retryable = True


class InternalServerError(DynamoDBError):
    retryable = True
    status = 500


# ── codes that have no class above ───────────────────────────────────────────────────────────────


class OtherError(DynamoDBError):
    """A code that this page does not name; `code` is that code. Made by `error_of`."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Its class was made for its code, and cannot be found by name in another process.
        return error_of, (self.code, self.message, self.status, self.fields)


_REPEATABLE_CODES = frozenset(
    {
        "PriorRequestNotComplete",
        "ReplicatedWriteConflictException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "TooManyRequestsException",
    }
)


def error_of(code: str, message: str, status: int = 400, fields: dict[str, Any] | None = None) -> DynamoDBError:
    """DynamoDB's error `code` as its class; one without a class is an `OtherError`, repeatable from status 500 up."""
    known = _classes().get(code)
    if known is None:
        known = _other(code, status, status >= 500 or code in _REPEATABLE_CODES)
    error = known(message)
    error.fields = fields or {}
    return error


@lru_cache(maxsize=1)
def _classes() -> dict[str, type[DynamoDBError]]:
    return {cls.__name__: cls for cls in DynamoDBError.__subclasses__() if cls is not OtherError}


@lru_cache(maxsize=256)
def _other(code: str, status: int, retryable: bool) -> type[DynamoDBError]:
    return type(code, (OtherError,), {"status": status, "retryable": retryable, "__module__": __name__})


# ── no usable answer came ────────────────────────────────────────────────────────────────────────


class TransportError(PenstockError):
    """The endpoint gave no answer of DynamoDB's.

    `endpoint` is where the call went, `reason` what happened, `next_step` what to do. `sent` is true if the request
    may have arrived, and so may have had its effect: repeat a conditional write only after reading.
    """

    def __init__(self, endpoint: str, reason: str, next_step: str = "", *, sent: bool = False) -> None:
        super().__init__(endpoint, reason, next_step)
        self.endpoint = endpoint
        self.reason = reason
        self.next_step = next_step
        self.sent = sent

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.reason}. {self.next_step}".rstrip()


class BadUrl(TransportError):
    """The URL names no database."""


class TransportClosed(TransportError):
    """The database was closed before this call."""


class ConnectionFailed(TransportError):
    """Refused, unknown host, unreachable, or ended before the answer."""

    retryable = True


class TimedOut(TransportError):
    """No connection, or no whole answer, in time."""

    retryable = True


class TlsFailed(TransportError):
    """The two sides could not agree on a secure connection."""


class CredentialsMissing(TransportError):
    """No AWS credentials were found, or they could not be refreshed."""


class BadAnswer(TransportError):
    """Half an answer, a wrong checksum, or a server's failure without a word of DynamoDB's."""

    retryable = True


class NotDynamoDB(TransportError):
    """What answers there is something else: a web page, another service."""
