"""How a database file is named: for SQLite, and the files beside it."""

from __future__ import annotations

from pathlib import Path


def uri_of(path: str, options: str) -> str:
    """The file for sqlite3's `uri=True`, whatever characters its name has."""
    return f"{Path(path).resolve().as_uri()}?{options}"


def beside(path: str) -> tuple[Path, Path, Path]:
    """The files that SQLite may keep beside a database."""
    return Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}-journal")
