"""Saves and reads back a file in a process of its own, and prints its peak in bytes: HOME MEGABYTES."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator

from penstock.files import open_files

BLOCK = bytes(range(256)) * 4096  # 1 MB


def blocks(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield BLOCK


def main() -> None:
    home, megabytes = sys.argv[1], int(sys.argv[2])
    files = open_files(home)
    files.save("small", b"1")  # what is imported at the first use is not counted
    files.read("small")
    tracemalloc.start()
    saved = files.save("large", blocks(megabytes))
    with files.open("large", expect=saved) as stream:
        while stream.read(100_000):
            pass
    assert saved.size == megabytes * len(BLOCK)
    print(tracemalloc.get_traced_memory()[1])


if __name__ == "__main__":
    main()
