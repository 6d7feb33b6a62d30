"""Calls of S3, and its refusals as our errors. botocore is imported at the first call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.transports.credentials import new_session
from penstock.files import errors
from penstock.files.errors import FileChanged, FileError, HomeMissing, HomeUnreachable, NotAllowed

_ATTEMPTS = 5  # of each request, by botocore, with its own pauses
_NOT_THERE = {"NoSuchKey", "404", "NotFound", "NoSuchUpload"}
_REFUSED = {
    "403",
    "AccessDenied",
    "AccountProblem",
    "AllAccessDisabled",
    "ExpiredToken",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_ELSEWHERE = {"301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}
_LATER = {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling"}


class S3:
    """One bucket, and the client that reaches it."""

    def __init__(self, bucket: str, region: str | None = None, profile: str | None = None, client: Any = None) -> None:
        self.bucket = bucket
        self._region = region
        self._profile = profile
        self._client = client
        self._lock = threading.Lock()

    @property
    def client(self) -> Any:
        with self._lock:  # botocore's sessions are not safe to share while they make clients
            if self._client is None:
                self._client = self._made()
            return self._client

    def call(self, operation: str, file: str, **request: Any) -> Any:
        """Calls the client's method `operation` on this bucket. Raises FileError about `file`."""
        with self.told(file):
            return getattr(self.client, operation)(Bucket=self.bucket, **request)

    def pages(self, operation: str, file: str, **request: Any) -> Iterator[Any]:
        with self.told(file):
            yield from self.client.get_paginator(operation).paginate(Bucket=self.bucket, **request)

    def check_bucket(self) -> None:
        """Raises HomeMissing: a 404 to a HEAD of a file does not say whether the bucket is there."""
        self.call("head_bucket", f"s3://{self.bucket}")

    @contextmanager
    def told(self, file: str) -> Iterator[None]:
        """botocore's errors as ours."""
        try:
            yield
        except FileError:
            raise
        except Exception as error:
            told = self._error(file, error)
            if told is None:
                raise
            raise told from error

    def _made(self) -> Any:
        from botocore.config import Config

        with self.told(f"s3://{self.bucket}"):
            config = Config(retries={"mode": "standard", "total_max_attempts": _ATTEMPTS}, signature_version="s3v4")
            return new_session(self._profile).create_client("s3", region_name=self._region, config=config)

    def _error(self, file: str, error: Exception) -> FileError | None:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            PartialCredentialsError,
            ProfileNotFound,
        )

        if isinstance(error, ClientError):
            told = self._answered(file, dict(error.response))
            told.code = str(error.response.get("Error", {}).get("Code", ""))
            return told
        if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound):
            step = "Sign in (aws sso login, aws configure) or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            return NotAllowed(file, f"there are no AWS credentials ({error})".rstrip("."), step)
        if isinstance(error, BotoCoreError):
            reason = f"S3 did not answer ({error})".replace(".)", ")")
            return HomeUnreachable(file, reason, "See if the network is up, then try again")
        return None

    def _answered(self, file: str, response: dict[str, Any]) -> FileError:
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        message = str(response.get("Error", {}).get("Message", "")).rstrip(".")
        if code == "NoSuchBucket" or (code in _NOT_THERE and file == f"s3://{self.bucket}"):
            home = f"s3://{self.bucket}"
            return HomeMissing(home, "there is no such bucket", f"Make it: aws s3 mb {home}")
        if code in _NOT_THERE:
            return errors.missing(file)
        if code == "PreconditionFailed":
            return FileChanged(file, "it was replaced while it was read", "Read it again from the beginning")
        if code in _REFUSED:
            step = "See that the policy of these credentials allows it"
            return NotAllowed(file, f"S3 refused it ({code}: {message})", step)
        if code in _ELSEWHERE:
            step = f"Name its region: s3://{self.bucket}?region=…"
            return FileError(file, f"the bucket is in another region ({code})", step)
        if code in _LATER or status >= 500:
            return HomeUnreachable(file, f"S3 is busy ({code}: {message})", "Try again")
        return FileError(file, f"S3 said {code}: {message}", "See what it means in the documentation of S3")
