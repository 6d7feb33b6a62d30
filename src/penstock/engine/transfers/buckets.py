"""What the engine asks of buckets. It knows neither folders nor S3: who opens it gives it what has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from penstock.errors import PenstockError

NO_BUCKETS: Final = (
    "This database has no buckets. Give a folder whose subfolders are buckets, or an S3 endpoint: "
    "`penstock serve --buckets DIR`, or penstock.connect(path, buckets=DIR)."
)


class BucketFailure(PenstockError):
    """A bucket cannot be used; `code` is DynamoDB's FailureCode. `retryable`: it may be usable later."""

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.is_retryable = retryable


class StoredObject(NamedTuple):
    key: str
    size: int


class ObjectBytes(Protocol):
    """An object's bytes, to be read in blocks and closed."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class Encryption(NamedTuple):
    """How an object is to be encrypted: S3SseAlgorithm, and the id of a key."""

    algorithm: str = "AES256"
    key_id: str | None = None


class Bucket(Protocol):
    """One bucket. Every method raises BucketFailure."""

    def put(self, key: str, data: bytes, encryption: Encryption) -> str:
        """Puts a whole object, in place of what was there. Its ETag."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with `prefix`, in the order of their keys."""
        ...

    def open(self, key: str) -> ObjectBytes: ...


class Buckets(Protocol):
    """All buckets of one place."""

    where: str
    """The folder or endpoint, as messages show it."""

    def bucket(self, name: str, owner: str | None, account: str) -> Bucket:
        """The bucket; `owner` is the account that the caller says it belongs to, `account` the caller's own.

        Raises BucketFailure if there is none, or it is another account's.
        """
        ...


def no_such_bucket(detail: str = "") -> BucketFailure:
    text = "The specified bucket does not exist (Service: Amazon S3; Status Code: 404; Error Code: NoSuchBucket)"
    return BucketFailure("S3NoSuchBucket", f"{text}{detail and f': {detail}'}")


def access_denied(detail: str = "") -> BucketFailure:
    text = "Access Denied (Service: Amazon S3; Status Code: 403; Error Code: AccessDenied)"
    return BucketFailure("S3AccessDenied", f"{text}{detail and f': {detail}'}")
