"""Is every file still what was saved? Each is read whole, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.files.errors import FileChanged, FileMissing
from penstock.files.home import Files
from penstock.files.sources import BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found; `changed` and `lost` are keys, with why."""

    files: int
    size: int
    unknown: int
    """Files that Penstock did not save, and so has no hash of."""
    changed: tuple[tuple[str, str], ...]
    lost: tuple[tuple[str, str], ...]

    @property
    def good(self) -> bool:
        return not self.changed and not self.lost


def verify(files: Files, prefix: str = "", tell: Callable[[int], None] = lambda size: None) -> Verified:
    """Reads every file under `prefix`; `tell` hears of each block's bytes."""
    count = size = unknown = 0
    changed: list[tuple[str, str]] = []
    for listed in files.list(prefix):
        try:
            if files.saved(listed.key) is None:
                unknown += 1
            size += _read(files, listed.key, tell)
        except FileChanged as error:
            changed.append((listed.key, error.reason))
        except FileMissing:
            continue  # deleted since it was listed
        count += 1
    lost = tuple((saved.key, f"saved at {saved.saved_at}, but not there") for saved in files.lost(prefix))
    return Verified(count, size, unknown, tuple(changed), lost)


def _read(files: Files, key: str, tell: Callable[[int], None]) -> int:
    size = 0
    with files.open(key) as stream:
        while block := stream.read(BLOCK_BYTES):
            size += len(block)
            tell(len(block))
    return size
