"""Files in a folder or in an S3 bucket, behind one small interface.

files = open_files("out/")                      # or "s3://bucket/prefix", or a file:// URL
saved = files.save("jobs/j1/report.xlsx", data)  # bytes, a binary file, or an iterator of bytes
with files.open(saved.key, expect=saved) as stream: ...
"""

from __future__ import annotations

from penstock.files.errors import (
    BadHome,
    BadKey,
    FileChanged,
    FileError,
    FileInTheWay,
    FileMissing,
    FileTooLarge,
    HomeMissing,
    HomeUnreachable,
    NoSpace,
    NotAllowed,
)
from penstock.files.home import Files
from penstock.files.opening import open_files
from penstock.files.saved import ListedFile, SavedFile, Swept
from penstock.files.sources import Data

__all__ = [
    "BadHome",
    "BadKey",
    "Data",
    "FileChanged",
    "FileError",
    "FileInTheWay",
    "FileMissing",
    "FileTooLarge",
    "Files",
    "HomeMissing",
    "HomeUnreachable",
    "ListedFile",
    "NoSpace",
    "NotAllowed",
    "SavedFile",
    "Swept",
    "open_files",
]
