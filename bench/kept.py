"""Files that take long to make: made in a temporary folder, or kept in --keep's and used again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.options import Options


@contextmanager
def kept(options: Options, name: str, make: Callable[[Path], object]) -> Iterator[Path]:
    """The database file `name`, as `make` fills it; one that was left half made is made again."""
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = (options.keep or Path(temporary)) / name
        whole = folder / "whole"
        path = folder / "penstock.db"
        if not whole.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("penstock.db*"):
                old.unlink()
            make(path)
            whole.touch()
        yield path


def grown(options: Options, smallest: int, largest: int, name: str) -> list[int]:
    """Sizes by tens from the smallest to the largest, and one further if a larger run left its file `name-SIZE`."""
    sizes = [smallest]
    while sizes[-1] * 10 <= largest:
        sizes.append(sizes[-1] * 10)
    further = sizes[-1] * 10
    there = options.keep is not None and (options.keep / f"{name}-{further}" / "whole").exists()
    return [*sizes, further] if there and options.level == "full" and not options.changes else sizes
