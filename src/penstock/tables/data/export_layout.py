"""DynamoDB's exports where DynamoDB leaves them: in a bucket, or in a copy of one.

    s3://bucket/prefix                       what was given as S3Prefix, or nothing
    s3://bucket/prefix/AWSDynamoDB/<export>  one export: manifests, and data/

A folder that `penstock tables dump` writes is the second of these, with the definition beside it. In S3 it is written
and read through a temporary folder: manifests go up last, so that an export with them is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from penstock.errors import PenstockError
from penstock.files import Files, open_files
from penstock.tables.data.dump import DATA, DEFINITION, FILES, SUMMARY, FolderError

_EXPORTS: Final = "AWSDynamoDB"
_BLOCK_BYTES: Final = 1024 * 1024


def export_folder(folder: Path) -> Path:
    """The folder of the one export that lies in this folder, or in the copy of a bucket that it is."""
    if (folder / SUMMARY).exists() or not (folder / _EXPORTS).is_dir():
        return folder
    found = sorted(one.parent for one in (folder / _EXPORTS).glob(f"*/{SUMMARY}"))
    if len(found) != 1:
        names = ", ".join(one.name for one in found[:5]) or "none"
        raise FolderError(folder / _EXPORTS, f"it has {len(found)} whole exports: {names}", "Name the folder of one")
    return found[0]


@contextmanager
def fetched(url: str) -> Iterator[Path]:
    """A temporary folder with the one export that lies at this s3:// URL."""
    files = open_files(url)
    home = _home(files, url)
    if home is None:
        raise PenstockError(
            f"{url}: there is no export, and there is no dump of several tables. Name the place of a {SUMMARY}, what "
            f"is above {_EXPORTS}/, or the object of one table (….jsonl.gz)."
        )
    with TemporaryDirectory(prefix="penstock-export-") as place:
        folder = Path(place)
        (folder / DATA).mkdir()
        for file in files.list(home):
            name = file.key[len(home) :]
            if name in (SUMMARY, FILES, DEFINITION):
                _download(files, file.key, folder / name)
            elif name.startswith(f"{DATA}/"):
                _download(files, file.key, folder / DATA / name.rpartition("/")[2])
        yield folder


def upload(folder: Path, url: str) -> None:
    """Puts a dumped folder there, its manifests last."""
    files = open_files(url)
    last = [folder / FILES, folder / SUMMARY]
    for path in [*sorted(one for one in folder.rglob("*") if one.is_file() and one not in last), *last]:
        with path.open("rb") as data:
            files.save(path.relative_to(folder).as_posix(), data)


def check_absent(url: str) -> None:
    """Raises PenstockError where an export lies already."""
    if open_files(url).exists(SUMMARY):
        raise PenstockError(f"{url}: there is an export already. Give another prefix.")


def _home(files: Files, url: str) -> str | None:
    """The beginning of the export's keys."""
    if files.exists(SUMMARY):
        return ""
    found = [
        one.key for one in files.list(f"{_EXPORTS}/") if one.key.endswith(f"/{SUMMARY}") and one.key.count("/") == 2
    ]
    if len(found) > 1:
        names = ", ".join(key.split("/")[1] for key in found[:5])
        raise PenstockError(f"{url}: there are {len(found)} exports ({names}). Name one: {url}/{_EXPORTS}/NAME")
    return found[0].removesuffix(SUMMARY) if found else None


def _download(files: Files, key: str, path: Path) -> None:
    with files.open(key) as stream, path.open("wb") as file:
        while block := stream.read(_BLOCK_BYTES):
            file.write(block)
