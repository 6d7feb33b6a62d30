"""Files in an S3 bucket, or in the part of one under a prefix. botocore is imported at the first call.

1. A small file is one PutObject. A large one is uploaded in parts; it becomes visible when S3 has them all, and a
   failed upload leaves nothing.
2. The SHA-256 is in the metadata, which S3 takes with the first request. So data that can be read twice is hashed
   first; other data is uploaded to `_temp/` and copied within S3 to its key, with its hash.
3. An interrupted download continues where it stopped, on the same version or not at all.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any

from penstock.client.transports.credentials import new_session
from penstock.clock import Clock, utc_text
from penstock.files import errors
from penstock.files.content import OCTETS, ByteSource, ListedFile, SavedFile, changed_size, checked_stream, hash_of
from penstock.files.errors import (
    FileChanged,
    FileError,
    FileMissing,
    FileTooLarge,
    NotAllowed,
    StoreMissing,
    StoreUnreachable,
)
from penstock.files.file_store import Files, Sweep
from penstock.files.keys import STAGING, is_key

# ── calls of S3 ──────────────────────────────────────────────────────────────────────────────────

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
                self._client = self._create_client()
            return self._client

    def call(self, operation: str, file: str, **request: Any) -> Any:
        """Calls the client's method `operation` on this bucket. Raises FileError about `file`."""
        with self.translated_errors(file):
            return getattr(self.client, operation)(Bucket=self.bucket, **request)

    def pages(self, operation: str, file: str, **request: Any) -> Iterator[Any]:
        with self.translated_errors(file):
            yield from self.client.get_paginator(operation).paginate(Bucket=self.bucket, **request)

    def check_bucket(self) -> None:
        """Raises StoreMissing: a 404 to a HEAD of a file does not say whether the bucket exists."""
        self.call("head_bucket", f"s3://{self.bucket}")

    @contextmanager
    def translated_errors(self, file: str) -> Iterator[None]:
        """Raises botocore's errors as ours."""
        try:
            yield
        except FileError:
            raise
        except Exception as error:
            translated = self._error(file, error)
            if translated is None:
                raise
            raise translated from error

    def _create_client(self) -> Any:
        from botocore.config import Config

        with self.translated_errors(f"s3://{self.bucket}"):
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
            refusal = self._refusal(file, dict(error.response))
            refusal.code = str(error.response.get("Error", {}).get("Code", ""))
            return refusal
        if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound):
            step = "Sign in (aws sso login, aws configure) or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            return NotAllowed(file, f"there are no AWS credentials ({error})".rstrip("."), step)
        if isinstance(error, BotoCoreError):
            reason = f"S3 did not answer ({error})".replace(".)", ")")
            return StoreUnreachable(file, reason, "See if the network is up, then try again")
        return None

    def _refusal(self, file: str, response: dict[str, Any]) -> FileError:
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        message = str(response.get("Error", {}).get("Message", "")).rstrip(".")
        if code == "NoSuchBucket" or (code in _NOT_THERE and file == f"s3://{self.bucket}"):
            url = f"s3://{self.bucket}"
            return StoreMissing(url, "there is no such bucket", f"Make it: aws s3 mb {url}")
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
            return StoreUnreachable(file, f"S3 is busy ({code}: {message})", "Try again")
        return FileError(file, f"S3 said {code}: {message}", "See what it means in the documentation of S3")


# ── uploads in parts ─────────────────────────────────────────────────────────────────────────────

PART_BYTES = 8 * 1024 * 1024
"""One part is in memory at a time. S3's minimum is 5 MB, except for the last part."""

PARTS = 10_000
"""S3's limit: with parts of 8 MB, a file has at most 84 GB."""

COPY_BYTES = 1024 * 1024 * 1024
"""Copied within S3 in one request. S3's limit is 5 GB, but that takes minutes."""


class Upload:
    """An upload under way."""

    def __init__(self, s3: S3, file: str, key: str, upload_id: str) -> None:
        self._s3 = s3
        self._file = file
        self._of = {"Key": key, "UploadId": upload_id}
        self._parts: list[dict[str, Any]] = []

    def add(self, part: io.BytesIO) -> None:
        answer = self._s3.call("upload_part", self._file, **self._of, PartNumber=self._next(), Body=part)
        self._parts.append({"PartNumber": self._next(), "ETag": answer["ETag"]})

    def add_copy(self, source: dict[str, str], first: int, last: int) -> None:
        """The bytes `first` to `last`, both included, of another object of S3."""
        request = {**self._of, "PartNumber": self._next(), "CopySource": source}
        answer = self._s3.call("upload_part_copy", self._file, **request, CopySourceRange=f"bytes={first}-{last}")
        self._parts.append({"PartNumber": self._next(), "ETag": answer["CopyPartResult"]["ETag"]})

    def complete(self) -> None:
        self._s3.call("complete_multipart_upload", self._file, **self._of, MultipartUpload={"Parts": self._parts})

    def abort(self) -> None:
        self._s3.call("abort_multipart_upload", self._file, **self._of)

    def _next(self) -> int:
        number = len(self._parts) + 1
        if number > PARTS:
            raise FileTooLarge(self._file, f"it has more than {PARTS * PART_BYTES:,} bytes", "Save it as several files")
        return number


@contextmanager
def multipart_upload(s3: S3, file: str, key: str, settings: dict[str, Any]) -> Iterator[Upload]:
    """An upload to fill; it is completed at the end. Any failure aborts it, Ctrl-C too. A sweep removes what a kill
    left."""
    answer = s3.call("create_multipart_upload", file, Key=key, **settings)
    upload = Upload(s3, file, key, answer["UploadId"])
    try:
        yield upload
        upload.complete()
    except BaseException:
        with suppress(FileError):
            upload.abort()
        raise


def copy(s3: S3, file: str, source: str, target: str, size: int, settings: dict[str, Any]) -> None:
    """Copies within the bucket, with settings (type, metadata) of its own."""
    origin = {"Bucket": s3.bucket, "Key": source}
    if size <= COPY_BYTES:
        replaced = {**settings, "MetadataDirective": "REPLACE"}
        s3.call("copy_object", file, Key=target, CopySource=origin, **replaced)
        return
    with multipart_upload(s3, file, target, settings) as upload:
        for first in range(0, size, COPY_BYTES):
            upload.add_copy(origin, first, min(first + COPY_BYTES, size) - 1)


# ── the store ────────────────────────────────────────────────────────────────────────────────────
_SHA256 = "penstock-sha256"
_SAVED_AT = "penstock-saved-at"
_RESUMES = 5  # of one download


class BucketFiles(Files):
    """Files in a bucket, which must exist."""

    def __init__(self, s3: S3, prefix: str, clock: Clock) -> None:
        self.prefix = f"{prefix}/" if prefix else ""
        self.where = f"s3://{s3.bucket}/{self.prefix}".rstrip("/")
        self.s3 = s3
        self._clock = clock

    def _now(self) -> float:
        return self._clock.now()

    # ── saving ───────────────────────────────────────────────────────────────────────────────────

    def _save(self, key: str, source: ByteSource, content_type: str) -> SavedFile:
        part = io.BytesIO()  # the only buffer: it is refilled
        size = source.fill(part, PART_BYTES)
        if size < PART_BYTES:
            saved = self._describe(key, size, hashlib.sha256(part.getbuffer()).hexdigest(), content_type)
            self.s3.call("put_object", self.name_of(key), Key=self.prefix + key, Body=part, **_settings(saved))
            return saved
        if source.rewindable:
            return self._upload_known(key, source, part, content_type)
        return self._upload_unknown(key, source, part, content_type)

    def _upload_known(self, key: str, source: ByteSource, part: io.BytesIO, content_type: str) -> SavedFile:
        """Reads the source twice: for its hash, then to upload it."""
        source.rewind()
        digest, size = hash_of(source)
        source.rewind()
        saved = self._describe(key, size, digest, content_type)
        again = hashlib.sha256()
        with multipart_upload(self.s3, self.name_of(key), self.prefix + key, _settings(saved)) as upload:
            while source.fill(part, PART_BYTES):
                again.update(part.getbuffer())
                upload.add(part)
            if again.hexdigest() != digest:
                raise FileChanged(self.name_of(key), "its source changed while it was saved", "Save it again")
        return saved

    def _upload_unknown(self, key: str, source: ByteSource, part: io.BytesIO, content_type: str) -> SavedFile:
        """Reads the source once, to `_temp/`, and copies it from there; `part` holds its beginning."""
        staged = f"{self.prefix}{STAGING}/{token_hex(12)}"
        digest, size, length = hashlib.sha256(), 0, PART_BYTES
        with multipart_upload(self.s3, self.name_of(key), staged, {}) as upload:
            while length:
                digest.update(part.getbuffer())
                size += length
                upload.add(part)
                length = source.fill(part, PART_BYTES)
        saved = self._describe(key, size, digest.hexdigest(), content_type)
        try:
            copy(self.s3, self.name_of(key), staged, self.prefix + key, size, _settings(saved))
        finally:
            with suppress(FileError):  # a sweep finds it
                self.s3.call("delete_object", self.name_of(key), Key=staged)
        return saved

    def _describe(self, key: str, size: int, sha256: str, content_type: str) -> SavedFile:
        return SavedFile(key, size, sha256, utc_text(self._clock.now()), content_type)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _open(self, key: str, expect: SavedFile | None) -> io.BufferedReader:
        body = ObjectBody(self.s3, self.name_of(key), self.prefix + key)
        expected = expect or _saved_from_metadata(key, body.answer)
        if expected is not None and body.size != expected.size:
            body.close()
            raise changed_size(self.name_of(key), expected, body.size)
        return checked_stream(self.name_of(key), body, expected)

    def _exists(self, key: str) -> bool:
        try:
            self._head(key)
        except FileMissing:
            return False
        return True

    def _read_saved(self, key: str) -> SavedFile | None:
        return _saved_from_metadata(key, self._head(key))

    def _stat(self, key: str) -> ListedFile:
        answer = self._head(key)
        return ListedFile(key, answer["ContentLength"], _second(answer["LastModified"]))

    def _head(self, key: str) -> Any:
        try:
            return self.s3.call("head_object", self.name_of(key), Key=self.prefix + key)
        except FileMissing:
            self.s3.check_bucket()
            raise

    def _list(self, prefix: str) -> Iterator[ListedFile]:
        for file in self._objects(prefix):
            if is_key(file.key):
                yield file

    def _objects(self, prefix: str) -> Iterator[ListedFile]:
        for page in self.s3.pages("list_objects_v2", self.where, Prefix=self.prefix + prefix):
            for found in page.get("Contents", ()):
                yield ListedFile(found["Key"][len(self.prefix) :], found["Size"], _second(found["LastModified"]))

    def _url(self, key: str, seconds: int) -> str:
        with self.s3.translated_errors(self.name_of(key)):
            of = {"Bucket": self.s3.bucket, "Key": self.prefix + key}
            url: str = self.s3.client.generate_presigned_url("get_object", Params=of, ExpiresIn=seconds)
            return url

    # ── removing ─────────────────────────────────────────────────────────────────────────────────

    def _delete(self, key: str) -> None:
        self.s3.call("delete_object", self.name_of(key), Key=self.prefix + key)

    def _sweep_leftovers(self, sweep: Sweep) -> None:
        for file in self._objects(f"{STAGING}/"):
            if sweep.takes(file, self._now()):
                sweep.leftover(file, self._delete_if_unchanged)
        for page in self.s3.pages("list_multipart_uploads", self.where, Prefix=self.prefix):
            for upload in page.get("Uploads", ()):
                self._sweep_upload(upload, sweep)

    def _sweep_upload(self, upload: Any, sweep: Sweep) -> None:
        file = ListedFile(upload["Key"][len(self.prefix) :], 0, _second(upload["Initiated"]))

        def abort(file: ListedFile) -> bool:
            of = {"Key": upload["Key"], "UploadId": upload["UploadId"]}
            try:
                self.s3.call("abort_multipart_upload", self.name_of(file.key), **of)
            except FileMissing:
                return False  # it was completed or aborted meanwhile
            return True

        if sweep.takes(file, self._now()):
            sweep.leftover(file, abort)


class ObjectBody:
    """An object's bytes. When the connection breaks, it requests the rest of the same version (3)."""

    def __init__(self, s3: S3, file: str, key: str) -> None:
        self._s3 = s3
        self._file = file
        self._key = key
        self.answer = s3.call("get_object", file, Key=key)
        self.size: int = self.answer["ContentLength"]
        self._stream = self.answer["Body"]
        self._at = 0

    def read(self, size: int, /) -> bytes:
        for left in reversed(range(_RESUMES)):
            try:
                with self._s3.translated_errors(self._file):
                    block: bytes = self._stream.read(size)
            except FileError as error:
                if not error.retryable or not left:
                    raise
                self._resume()
                continue
            self._at += len(block)
            return block
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        self._stream.close()

    def _resume(self) -> None:
        self._stream.close()
        request = {"Key": self._key, "Range": f"bytes={self._at}-", "IfMatch": self.answer["ETag"]}
        self._stream = self._s3.call("get_object", self._file, **request)["Body"]


def _settings(saved: SavedFile) -> dict[str, Any]:
    metadata = {_SHA256: saved.sha256, _SAVED_AT: saved.saved_at}
    return {"ContentType": saved.content_type, "Metadata": metadata}


def _saved_from_metadata(key: str, answer: Any) -> SavedFile | None:
    """What was saved, from the object's metadata; None if Penstock did not save it."""
    metadata = answer.get("Metadata", {})
    if _SHA256 not in metadata:
        return None
    saved_at = metadata.get(_SAVED_AT) or utc_text(answer["LastModified"].timestamp())
    content_type = answer.get("ContentType", OCTETS)
    return SavedFile(key, answer["ContentLength"], metadata[_SHA256], saved_at, content_type)


def _second(moment: Any) -> float:
    """In whole seconds: a HEAD has no more, and is compared with a listing."""
    return float(int(moment.timestamp()))
