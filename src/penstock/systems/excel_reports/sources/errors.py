"""What can go wrong with a source of rows, by what to do next.

SourceMissing       name another place           file_not_found
SourceRefused       get the permission           access_denied
SourceUnreachable   try again: it may pass       timeout
BadData             mend the data                data_format
"""

from __future__ import annotations

from penstock.errors import PenstockError


class SourceError(PenstockError):
    """A source did not give its rows, or a picture."""


class SourceMissing(SourceError):
    """There is no such file, table, page or function."""


class SourceRefused(SourceError):
    """It is there, and this process may not read it."""


class SourceUnreachable(SourceError):
    """It could not be reached, or did not answer in time. The job is retried."""

    retryable = True


class BadData(SourceError):
    """What it gave is not what it should be."""
