"""Uploads to S3 in parts: nothing is visible until the last part is there, and nothing is left if one fails."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.files.errors import FileError, FileTooLarge
from penstock.files.s3_calls import S3

PART_BYTES = 8 * 1024 * 1024
"""One part is in memory at a time. S3 wants 5 MB at least, except of the last."""

PARTS = 10_000
"""S3's own limit: with parts of 8 MB, a file has 84 GB at most."""

COPY_BYTES = 1024 * 1024 * 1024
"""Copied within S3 in one request; S3 has 5 GB, but takes minutes for that."""


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
def uploading(s3: S3, file: str, key: str, settings: dict[str, Any]) -> Iterator[Upload]:
    """An upload to fill, complete at the end. Any failure aborts it, Ctrl-C too; a sweep finds what a kill left."""
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
    with uploading(s3, file, target, settings) as upload:
        for first in range(0, size, COPY_BYTES):
            upload.add_copy(origin, first, min(first + COPY_BYTES, size) - 1)
