"""A process of its own that saves: `python file_saver.py HOME KEY MODE …`. Says `ready` when it has begun.

hang SIZE        saves SIZE bytes and then waits for ever, in the middle of the save
repeat COUNT N   saves COUNT times a file filled with the byte N, of a size that changes
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from penstock.files import open_files


def hanging(size: int) -> Iterator[bytes]:
    yield b"x" * size
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


def main() -> None:
    home, key, mode, *numbers = sys.argv[1:]
    files = open_files(home)
    if mode == "hang":
        files.save(key, hanging(int(numbers[0])))
        return
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    count, byte = map(int, numbers)
    for turn in range(count):
        files.save(key, bytes([byte]) * (1000 + (turn * 7919) % 50_000))


if __name__ == "__main__":
    main()
