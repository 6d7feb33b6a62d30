"""The errors of files, by what the caller should do next.

FileError
├── (fix the call)         BadKey, BadStoreUrl, FileTooLarge, FileInTheWay, NotAllowed, StoreMissing, NoSpace
├── (read again, decide)   FileMissing, FileChanged
└── (repeat it)            StoreUnreachable
"""

from __future__ import annotations

import errno

from penstock.errors import PenstockError


class FileError(PenstockError):
    """`file` is the file's or the store's full name, `reason` what happened, `next_step` what to do."""

    code: str = ""
    """S3's error code, if S3 refused it."""

    def __init__(self, file: str, reason: str, next_step: str) -> None:
        super().__init__(file, reason, next_step)
        self.file = file
        self.reason = reason
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}. {self.next_step}."


class BadKey(FileError):
    """A key that no file store accepts; `file` is the key, with unprintable characters escaped."""


class BadStoreUrl(FileError):
    """A URL that names neither a folder nor a bucket."""


class FileTooLarge(FileError):
    """More bytes than the caller's limit, or than the store can hold in one file."""


class FileInTheWay(FileError):
    """A part of the key is a file, a folder or a symbolic link where it must be something else."""


class NotAllowed(FileError):
    """The file system or S3 denied access, or there are no credentials."""


class StoreMissing(FileError):
    """There is no such bucket."""


class NoSpace(FileError):
    """The disk is full, or a quota or a limit on a file's size is reached. Nothing of the file is visible."""


class FileMissing(FileError):
    """There is no file with this key."""


class FileChanged(FileError):
    """The bytes are not those that were saved: another size or another hash."""


class StoreUnreachable(FileError):
    """No answer, or a request to try later."""

    retryable = True


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_IN_THE_WAY = {errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENOTEMPTY, errno.EEXIST}


def missing(file: str) -> FileMissing:
    return FileMissing(file, "there is no such file", "List what there is: `penstock files list`")


def from_oserror(file: str, error: OSError) -> FileError:
    """The operating system's error as one of ours."""
    message = (error.strerror or str(error)).lower()
    if error.errno == errno.ENOENT:
        return missing(file)
    if error.errno in _FULL:
        return NoSpace(
            file, f"it cannot be written: {message}", "Make room, then save it again; nothing of it was kept"
        )
    if error.errno in _FORBIDDEN:
        return NotAllowed(file, message, "Give this user the right to read and write there")
    if error.errno in _IN_THE_WAY:
        reason = "a part of its name is a file, a folder or a symbolic link where it must be something else"
        return FileInTheWay(file, reason, "Choose another key, or move away what is there")
    return FileError(file, message, "See if the disk is well, then try again")
