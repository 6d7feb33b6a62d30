"""What the systems' demos share."""

from __future__ import annotations

from pathlib import Path

from penstock.client.database import Database


def files_beside(db: Database, folder: Path) -> Path:
    """Where `penstock up` looks for the files of a database's jobs; under `folder` for a database that is no file."""
    return Path(f"{db.name}.files") if Path(db.name).is_file() else folder / "files"
