"""Files in an S3 bucket, or in the part of one under a prefix.

1. A small file is one PutObject. A large one is uploaded in parts, and visible when S3 has them all.
2. Its SHA-256 is in its metadata, which S3 wants at the beginning. So data that can be read twice is hashed first; data
   that cannot is uploaded to `_temp/` and copied within S3 to its key, with its hash.
3. A download that breaks off goes on where it was, of the same version or not at all.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import suppress
from secrets import token_hex
from typing import Any

from penstock.clock import Clock, utc_text
from penstock.files.errors import FileChanged, FileError, FileMissing
from penstock.files.home import Files, Sweeping
from penstock.files.keys import STAGING, is_key
from penstock.files.reading import changed_size, checked
from penstock.files.s3_calls import S3
from penstock.files.saved import OCTETS, ListedFile, SavedFile
from penstock.files.sources import Source, hash_of
from penstock.files.uploads import PART_BYTES, copy, uploading

_SHA256 = "penstock-sha256"
_SAVED_AT = "penstock-saved-at"
_RESUMES = 5  # of one download


class BucketFiles(Files):
    """A home in a bucket, which must be there."""

    def __init__(self, s3: S3, prefix: str, clock: Clock) -> None:
        self.prefix = f"{prefix}/" if prefix else ""
        self.where = f"s3://{s3.bucket}/{self.prefix}".rstrip("/")
        self.s3 = s3
        self._clock = clock

    def _now(self) -> float:
        return self._clock.now()

    # ── saving ───────────────────────────────────────────────────────────────────────────────────

    def _save(self, key: str, source: Source, content_type: str) -> SavedFile:
        part = io.BytesIO()  # the only one: it is filled again and again
        size = source.fill(part, PART_BYTES)
        if size < PART_BYTES:
            saved = self._described(key, size, hashlib.sha256(part.getbuffer()).hexdigest(), content_type)
            self.s3.call("put_object", self.name_of(key), Key=self.prefix + key, Body=part, **_settings(saved))
            return saved
        if source.rewindable:
            return self._upload_known(key, source, part, content_type)
        return self._upload_unknown(key, source, part, content_type)

    def _upload_known(self, key: str, source: Source, part: io.BytesIO, content_type: str) -> SavedFile:
        """Reads the source twice: for its hash, then to upload it."""
        source.rewind()
        digest, size = hash_of(source)
        source.rewind()
        saved = self._described(key, size, digest, content_type)
        again = hashlib.sha256()
        with uploading(self.s3, self.name_of(key), self.prefix + key, _settings(saved)) as upload:
            while source.fill(part, PART_BYTES):
                again.update(part.getbuffer())
                upload.add(part)
            if again.hexdigest() != digest:
                raise FileChanged(self.name_of(key), "its source changed while it was saved", "Save it again")
        return saved

    def _upload_unknown(self, key: str, source: Source, part: io.BytesIO, content_type: str) -> SavedFile:
        """Reads the source once, to `_temp/`, and copies it from there; `part` has its beginning."""
        staged = f"{self.prefix}{STAGING}/{token_hex(12)}"
        digest, size, length = hashlib.sha256(), 0, PART_BYTES
        with uploading(self.s3, self.name_of(key), staged, {}) as upload:
            while length:
                digest.update(part.getbuffer())
                size += length
                upload.add(part)
                length = source.fill(part, PART_BYTES)
        saved = self._described(key, size, digest.hexdigest(), content_type)
        try:
            copy(self.s3, self.name_of(key), staged, self.prefix + key, size, _settings(saved))
        finally:
            with suppress(FileError):  # a sweep finds it
                self.s3.call("delete_object", self.name_of(key), Key=staged)
        return saved

    def _described(self, key: str, size: int, sha256: str, content_type: str) -> SavedFile:
        return SavedFile(key, size, sha256, utc_text(self._clock.now()), content_type)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _open(self, key: str, expect: SavedFile | None) -> io.BufferedReader:
        body = ObjectBody(self.s3, self.name_of(key), self.prefix + key)
        expected = expect or _known(key, body.answer)
        if expected is not None and body.size != expected.size:
            body.close()
            raise changed_size(self.name_of(key), expected, body.size)
        return checked(self.name_of(key), body, expected)

    def _exists(self, key: str) -> bool:
        try:
            self._head(key)
        except FileMissing:
            return False
        return True

    def _saved(self, key: str) -> SavedFile | None:
        return _known(key, self._head(key))

    def _listed(self, key: str) -> ListedFile:
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
        with self.s3.told(self.name_of(key)):
            of = {"Bucket": self.s3.bucket, "Key": self.prefix + key}
            url: str = self.s3.client.generate_presigned_url("get_object", Params=of, ExpiresIn=seconds)
            return url

    # ── removing ─────────────────────────────────────────────────────────────────────────────────

    def _delete(self, key: str) -> None:
        self.s3.call("delete_object", self.name_of(key), Key=self.prefix + key)

    def _sweep_leftovers(self, sweeping: Sweeping) -> None:
        for file in self._objects(f"{STAGING}/"):
            if sweeping.takes(file, self._now()):
                sweeping.leftover(file, self._delete_listed)
        for page in self.s3.pages("list_multipart_uploads", self.where, Prefix=self.prefix):
            for upload in page.get("Uploads", ()):
                self._sweep_upload(upload, sweeping)

    def _sweep_upload(self, upload: Any, sweeping: Sweeping) -> None:
        file = ListedFile(upload["Key"][len(self.prefix) :], 0, _second(upload["Initiated"]))

        def abort(file: ListedFile) -> bool:
            of = {"Key": upload["Key"], "UploadId": upload["UploadId"]}
            try:
                self.s3.call("abort_multipart_upload", self.name_of(file.key), **of)
            except FileMissing:
                return False  # it ended by itself
            return True

        if sweeping.takes(file, self._now()):
            sweeping.leftover(file, abort)


class ObjectBody:
    """An object's bytes; when the connection breaks, it asks for the rest of the same version (3)."""

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
                with self._s3.told(self._file):
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


def _known(key: str, answer: Any) -> SavedFile | None:
    """What was saved, as the object's own metadata tells it; None if Penstock did not save it."""
    metadata = answer.get("Metadata", {})
    if _SHA256 not in metadata:
        return None
    saved_at = metadata.get(_SAVED_AT) or utc_text(answer["LastModified"].timestamp())
    content_type = answer.get("ContentType", OCTETS)
    return SavedFile(key, answer["ContentLength"], metadata[_SHA256], saved_at, content_type)


def _second(moment: Any) -> float:
    """In whole seconds: a HEAD tells no more, and is compared with a listing."""
    return float(int(moment.timestamp()))
