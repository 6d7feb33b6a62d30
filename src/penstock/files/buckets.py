"""Buckets for the engine's exports and imports: a folder whose subfolders are buckets, or S3.

    buckets/                 a folder; its subfolder `lake` is the bucket of that name
    s3://                    AWS, or the S3 that AWS_ENDPOINT_URL_S3 names; ?region=… and ?profile=… may follow
    http://127.0.0.1:9000    any S3 endpoint

1. Nothing outside a bucket's folder is read or written: no part of a key is "..", and no symbolic link is followed.
2. An object is whole or not there.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import parse_qsl, urlsplit

from penstock.client.transports.credentials import new_session
from penstock.engine.transfers.buckets import (
    Bucket,
    BucketFailure,
    Buckets,
    Encryption,
    ObjectBytes,
    StoredObject,
    access_denied,
    no_such_bucket,
)
from penstock.files import errors
from penstock.files.bucket import S3, ObjectBody
from penstock.files.errors import BadStoreUrl, FileError, FileMissing, NotAllowed, StoreMissing
from penstock.files.folder_tree import Tree, stage_file
from penstock.files.keys import MANIFEST, STAGING

_OURS: Final = "Give a folder whose subfolders are buckets, s3://, or the URL of an S3 endpoint"
_PART_BYTES: Final = 255
_NO_WINDOWS_NAME: Final = re.compile(r'[\0-\x1f\\:<>"|?*]')
"""There `..\\..` would lead out of the bucket, and `C:` to another drive."""
_NO_NAME: Final = re.compile("\0") if os.sep == "/" else _NO_WINDOWS_NAME


def open_buckets(where: str | os.PathLike[str], *, client: Any = None) -> Buckets:
    """The buckets of a folder, which must exist, or of S3. `client` is a botocore client of S3. Raises BadStoreUrl."""
    text = os.fspath(where)
    if text.startswith(("s3://", "http://", "https://")):
        return S3Buckets(text, client)
    if not Path(text).is_dir():
        raise BadStoreUrl(text, "there is no such folder", _OURS)
    return FolderBuckets(Path(text))


# ── a folder ─────────────────────────────────────────────────────────────────────────────────────


class FolderBuckets:
    """Each subfolder of a folder is a bucket. All are the caller's own."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.where = str(self._root)

    def bucket(self, name: str, owner: str | None, account: str) -> Bucket:
        if owner is not None and owner != account:
            raise access_denied(f"the buckets in {self.where} are those of account {account}")
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            raise no_such_bucket(f"{name!r} is no name of a bucket")
        folder = self._root / name
        if folder.is_symlink() or not folder.is_dir():
            raise no_such_bucket(f"{self.where} has no subfolder {name}; make it: mkdir {folder}")
        return FolderBucket(folder)


class FolderBucket:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tree = Tree(folder)

    def put(self, key: str, data: bytes, encryption: Encryption) -> str:
        parts = _parts(key)
        with self._translated_errors(key), stage_file(self._tree) as file:
            file.write(data)
            file.sync()
            with self._tree.place(parts, make=True) as place:
                file.rename_to(place)
        return hashlib.md5(data, usedforsecurity=False).hexdigest()

    def list(self, prefix: str) -> Iterator[StoredObject]:
        *folders, begins = prefix.split("/")
        if any(part in ("", ".", "..") or _NO_NAME.search(part) for part in folders):
            return  # no key of a folder begins so
        with self._translated_errors(prefix):
            if not self._folder.is_dir():
                raise no_such_bucket(str(self._folder))
            for parts, found in self._tree.files(tuple(folders), begins):
                if parts[0] not in (STAGING, MANIFEST):
                    yield StoredObject(_key(parts), found.st_size)

    def open(self, key: str) -> ObjectBytes:
        with self._translated_errors(key), self._tree.place(_parts(key)) as place:
            handle: BinaryIO = os.fdopen(place.open(), "rb")
        return handle

    @contextmanager
    def _translated_errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._folder.is_dir():
                raise no_such_bucket(str(self._folder)) from error
            raise _failure(errors.from_oserror(f"{self._folder}/{key}", error)) from error


def _key(parts: tuple[str, ...]) -> str:
    key = "/".join(parts)
    try:
        key.encode()
    except UnicodeEncodeError:
        raise BucketFailure("S3InvalidKey", f"The name of the file {key!r} is not UTF-8, as a key must be.") from None
    return key


def _parts(key: str) -> tuple[str, ...]:
    parts = tuple(key.split("/"))
    for part in parts:
        if part in ("", ".", "..") or _NO_NAME.search(part) or len(part.encode(errors="replace")) > _PART_BYTES:
            raise BucketFailure("S3InvalidKey", f"The key {key[:200]!r} is no path in a folder: {part[:40]!r}")
    if parts[0] in (STAGING, MANIFEST):
        raise BucketFailure("S3InvalidKey", f"The key {key[:200]!r} begins with {parts[0]}, which is kept for staging.")
    return parts


# ── S3 ───────────────────────────────────────────────────────────────────────────────────────────


class S3Buckets:
    """The buckets that one client of S3 reaches. botocore is imported at the first call."""

    def __init__(self, where: str, client: Any = None) -> None:
        self.where = where
        parts = urlsplit(where)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := set(options) - {"region", "profile"}:
            raise BadStoreUrl(where, f"{', '.join(sorted(unknown))} is no option", "Use region and profile only")
        if parts.scheme == "s3" and (parts.netloc or parts.path.strip("/")):
            raise BadStoreUrl(where, "each call names its bucket", "Give s3:// alone")
        self._endpoint = None if parts.scheme == "s3" else f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._region, self._profile = options.get("region"), options.get("profile")
        self._client = client
        self._lock = threading.Lock()

    def bucket(self, name: str, owner: str | None, account: str) -> Bucket:
        found = S3Bucket(S3(name, client=self._reached()), owner)
        found.check()
        return found

    def _reached(self) -> Any:
        with self._lock:
            if self._client is None:
                from botocore.config import Config

                style: Any = {} if self._endpoint is None else {"addressing_style": "path"}
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": 3}, signature_version="s3v4", s3=style
                )
                self._client = new_session(self._profile).create_client(
                    "s3", region_name=self._region, endpoint_url=self._endpoint, config=config
                )
            return self._client


class S3Bucket:
    def __init__(self, s3: S3, owner: str | None) -> None:
        self._s3 = s3
        self._owned = {} if owner is None else {"ExpectedBucketOwner": owner}

    def check(self) -> None:
        with _as_failures():
            self._s3.call("head_bucket", f"s3://{self._s3.bucket}", **self._owned)

    def put(self, key: str, data: bytes, encryption: Encryption) -> str:
        settings = dict(self._owned)
        if encryption.algorithm == "KMS":
            settings["ServerSideEncryption"] = "aws:kms"
            if encryption.key_id is not None:
                settings["SSEKMSKeyId"] = encryption.key_id
        with _as_failures():
            answer = self._s3.call("put_object", self._file(key), Key=key, Body=data, **settings)
        return str(answer["ETag"]).strip('"')

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with _as_failures():
            for page in self._s3.pages("list_objects_v2", f"s3://{self._s3.bucket}", Prefix=prefix, **self._owned):
                for found in page.get("Contents", ()):
                    yield StoredObject(found["Key"], found["Size"])

    def open(self, key: str) -> ObjectBytes:
        with _as_failures():
            return _S3Bytes(ObjectBody(self._s3, self._file(key), key))

    def _file(self, key: str) -> str:
        return f"s3://{self._s3.bucket}/{key}"


class _S3Bytes:
    def __init__(self, body: ObjectBody) -> None:
        self._body = body

    def read(self, size: int, /) -> bytes:
        with _as_failures():
            return self._body.read(size)

    def close(self) -> None:
        self._body.close()


@contextmanager
def _as_failures() -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise _failure(error) from error


def _failure(error: FileError) -> BucketFailure:
    match error:
        case StoreMissing():
            return no_such_bucket(str(error))
        case NotAllowed():
            return access_denied(str(error))
        case FileMissing():
            return BucketFailure("S3NoSuchKey", f"The specified key does not exist: {error}")
    return BucketFailure(error.code or "S3Error", str(error), retryable=error.retryable)
