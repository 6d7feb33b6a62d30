"""Promise 4 of `home.py`: memory is bounded, whatever a file's size. Counted in bytes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "file_memory.py"
MEGABYTE = 1024 * 1024


def peak(home: str, megabytes: int) -> int:
    command = [sys.executable, str(PROGRAM), home, str(megabytes)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, timeout=240, check=True).stdout)


def test_a_folder_takes_a_few_blocks(tmp_path: Path) -> None:
    assert peak(str(tmp_path), 120) < 8 * MEGABYTE


def test_a_bucket_takes_a_few_parts(bucket: str, s3_environment: None) -> None:
    assert peak(f"s3://{bucket}", 60) < 24 * MEGABYTE
