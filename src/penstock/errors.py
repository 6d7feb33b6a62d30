"""Every error that Penstock raises, by what the caller should do next.

    PenstockError
    ├── DynamoDBError              an answer of DynamoDB's; `code` and `message` are DynamoDB's own
    │   ├── (fix the call)         ValidationException, ResourceNotFoundException, SerializationException, …
    │   ├── (read again, decide)   ConditionalCheckFailedException, TransactionCanceledException, …
    │   └── (repeat it)            ProvisionedThroughputExceededException, InternalServerError, …
    └── StorageError               the database file cannot be used: it says which file and why

Callers ask `error.retryable`; nobody matches message text. Facts are attributes.
"""

from __future__ import annotations

from typing import Any, ClassVar

_DYNAMODB = "com.amazonaws.dynamodb.v20120810#"
_CORAL_SERVICE = "com.amazon.coral.service#"
_CORAL_VALIDATE = "com.amazon.coral.validate#"


class PenstockError(Exception):
    """The root: catch this to catch everything that is ours."""

    retryable: ClassVar[bool] = False


class StorageError(PenstockError):
    """The database file cannot be opened, read or written."""


class DynamoDBError(PenstockError):
    """An error as DynamoDB answers it.

    `fields` are the members that its body has beside the message, for example `CancellationReasons` or `Item`.
    """

    namespace: ClassVar[str] = _DYNAMODB
    status: ClassVar[int] = 400
    message_key: ClassVar[str] = "message"

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    @property
    def code(self) -> str:
        return type(self).__name__

    def body(self) -> dict[str, Any]:
        """The JSON object that DynamoDB answers with."""
        answer: dict[str, Any] = {"__type": self.namespace + self.code}
        if self.message:
            answer[self.message_key] = self.message
        answer.update(self.fields)
        return answer


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
    retryable = True


class InternalServerError(DynamoDBError):
    retryable = True
    status = 500
