"""Ways in which a database file is taken from under a process, and the process from which it is taken.

    python replaced_files.py write FILE
    python replaced_files.py read FILE

`write` writes keys without end; a line on stdout is the key of an acknowledged write. It ends with 3, and the reason on
stderr, when the file is lost. `read` prints all keys, if the file is sound.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.engine import Engine
from penstock.engine.repair.examine import examine
from penstock.errors import DatabaseLost

LOST = 3


def put(engine: Engine, key: str) -> None:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": key}}})


def get(engine: Engine, key: str) -> None:
    engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": key}}})


def keys(path: Path) -> set[str]:
    """What the next process finds in the file, which must be sound."""
    command = [sys.executable, __file__, "read", str(path)]
    return set(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines())


def writer(path: Path, ledger: Path) -> subprocess.Popen[str]:
    with ledger.open("w") as stdout:
        command = [sys.executable, __file__, "write", str(path)]
        return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def delete(path: Path, other: Path) -> None:
    path.unlink()


def delete_all(path: Path, other: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)  # a process that has seen the loss removes the -shm itself


def rename_over(path: Path, other: Path) -> None:
    other.replace(path)


def copy_over(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)


def cut(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def overwrite_with_text(path: Path, other: Path) -> None:
    path.write_text("not a database" * 5_000)


def delete_log(path: Path, other: Path) -> None:
    Path(f"{path}-wal").unlink()


def delete_index(path: Path, other: Path) -> None:
    Path(f"{path}-shm").unlink()


def move_folder(path: Path, other: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


OF_THE_FILE: dict[Callable[[Path, Path], None], str] = {
    delete: "the file was deleted or moved",
    delete_all: "the file was deleted or moved",
    rename_over: "the file was replaced by another file",
    copy_over: "the file was overwritten with another database",
    cut: "the file was overwritten",
    overwrite_with_text: "the file was overwritten with what is no database",
    move_folder: "the file was deleted or moved",
}
OF_THE_LOG: dict[Callable[[Path, Path], None], str] = {
    delete_log: "its log (-wal) was deleted or moved",
    delete_index: "its log's index (-shm) was deleted or moved",
}
WAYS = OF_THE_FILE | OF_THE_LOG


def read(path: str) -> int:
    with Engine(path) as engine:
        for item in engine.execute("Scan", {"TableName": "plain"})["Items"]:
            print(item["pk"]["S"])
    return 0 if examine(path).sound else 1


def write(path: str) -> int:
    number = 0
    with Engine(path) as engine:
        while True:
            try:
                put(engine, f"{os.getpid()} {number}")
            except DatabaseLost as lost:
                print(lost, file=sys.stderr)
                return LOST
            print(f"{os.getpid()} {number}", flush=True)
            number += 1


if __name__ == "__main__":
    sys.exit({"read": read, "write": write}[sys.argv[1]](sys.argv[2]))
