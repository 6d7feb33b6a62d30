"""Which home a URL names.

out/, /srv/files, file:///srv/files     a folder, made at the first save
s3://bucket, s3://bucket/prefix         a bucket, or the part of it under a prefix; ?region=… and ?profile=… may follow

AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL lead to another S3 than AWS's, as they do for every AWS SDK.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.clock import Clock, SystemClock
from penstock.files.errors import BadHome
from penstock.files.home import Files
from penstock.files.keys import PREFIX_BYTES, checked_key

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # of two letters at least: C:\ is a folder
_BUCKET = re.compile(r"[a-z0-9A-Z][a-z0-9A-Z._-]{1,253}[a-z0-9A-Z]")
_OURS = "Use a folder's path, a file:// URL, or s3://bucket/prefix"


def open_files(where: str | os.PathLike[str], *, clock: Clock | None = None, client: Any = None) -> Files:
    """The home that `where` names. Nothing is made or asked yet.

    `client` is a botocore client of S3 to use instead of one of our own. Raises BadHome.
    """
    text, clock = os.fspath(where), clock or SystemClock()
    scheme = _SCHEME.match(text)
    match scheme and scheme.group(1).lower():
        case None:
            return _folder(text, text, clock)
        case "file":
            return _folder(text, _path_of(text), clock)
        case "s3":
            return _bucket(text, clock, client)
    raise BadHome(text, "no files are kept there", _OURS)


def _folder(shown: str, path: str, clock: Clock) -> Files:
    from penstock.files.folder import FolderFiles

    if not path or "\0" in path:
        raise BadHome(repr(shown), "it is no path", _OURS)
    return FolderFiles(Path(path), clock)


def _path_of(url: str) -> str:
    from urllib.request import url2pathname  # brings http and ssl along, which most callers do not need

    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise BadHome(
            url, f"a file URL names no host, and {parts.netloc!r} is one", "Write file:///path, three slashes"
        )
    return url2pathname(parts.path)


def _bucket(url: str, clock: Clock, client: Any) -> Files:
    from penstock.files.bucket import BucketFiles
    from penstock.files.s3_calls import S3

    parts = urlsplit(url)
    if not _BUCKET.fullmatch(parts.netloc):
        raise BadHome(url, f"{parts.netloc!r} is no bucket's name", _OURS)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := set(options) - {"region", "profile"}:
        raise BadHome(url, f"{', '.join(sorted(unknown))} is no option", "Use region and profile only")
    prefix = parts.path.strip("/")
    if prefix and len(checked_key(prefix).encode()) > PREFIX_BYTES:
        raise BadHome(url, f"its prefix has more than {PREFIX_BYTES} bytes", "Shorten it")
    return BucketFiles(S3(parts.netloc, options.get("region"), options.get("profile"), client), prefix, clock)
