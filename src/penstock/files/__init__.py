"""Files in a folder or in an S3 bucket, behind one interface.

files = open_files("out/")                      # or "s3://bucket/prefix", or a file:// URL
saved = files.save("jobs/j1/report.xlsx", data)  # bytes, a binary file, or an iterator of bytes
with files.open(saved.key, expect=saved) as stream: ...

A save passes through these files in this order:

    file_store    the interface: open_files, Files, verify
    keys          checks the key; names and versions in names
    content       reads the data in blocks; describes and checks what is stored
    folder        a folder: stage, sync, rename
    folder_tree   paths without symbolic links, staging, locks
    manifest      hashes of a folder's files
    bucket        a bucket: calls of S3, uploads in parts
    lifecycle     how long a bucket keeps files
    errors        what can go wrong, by what to do next
"""

from __future__ import annotations

from penstock.files.content import Data, ListedFile, SavedFile, Swept
from penstock.files.errors import (
    BadKey,
    BadStoreUrl,
    FileChanged,
    FileError,
    FileInTheWay,
    FileMissing,
    FileTooLarge,
    NoSpace,
    NotAllowed,
    StoreMissing,
    StoreUnreachable,
)
from penstock.files.file_store import Files, open_files

__all__ = [
    "BadKey",
    "BadStoreUrl",
    "Data",
    "FileChanged",
    "FileError",
    "FileInTheWay",
    "FileMissing",
    "FileTooLarge",
    "Files",
    "ListedFile",
    "NoSpace",
    "NotAllowed",
    "SavedFile",
    "StoreMissing",
    "StoreUnreachable",
    "Swept",
    "open_files",
]
