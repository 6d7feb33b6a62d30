"""Promise 4 of `home.py`: memory is bounded, whatever a file's size. Counted in bytes, in a process of its own."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.files import open_files
from penstock.files.bucket import PART_BYTES
from penstock.files.content import BLOCK_BYTES, ByteSource

PROGRAM = Path(__file__).parent / "file_memory.py"
MEGABYTE = 1024 * 1024


def peak(home: str, megabytes: int) -> int:
    command = [sys.executable, str(PROGRAM), home, str(megabytes)]
    return int(subprocess.run(command, stdout=subprocess.PIPE, timeout=240, check=True).stdout)


def test_a_folder_takes_a_few_blocks(tmp_path: Path) -> None:
    assert peak(str(tmp_path), 120) < 8 * MEGABYTE


def test_a_bucket_takes_one_part_and_a_few_blocks(bucket: str, s3_environment: None) -> None:
    reserved = PART_BYTES // 8  # by a BytesIO that grows: it is never written to
    assert peak(f"s3://{bucket}", 60) < PART_BYTES + reserved + 3 * BLOCK_BYTES


class OnePartAtATime:
    """A client of S3 that keeps nothing but what it was given as parts."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, int]] = []

    def upload_part(self, Body: io.BytesIO, **_: Any) -> dict[str, str]:
        self.parts.append((id(Body), Body.getbuffer().nbytes))
        return {"ETag": str(len(self.parts))}

    def __getattr__(self, operation: str) -> Any:
        return lambda **_: {"UploadId": "1"}


@pytest.mark.parametrize("rewindable", [True, False])
def test_all_parts_of_a_file_are_one_buffer_filled_again(rewindable: bool) -> None:
    client, blocks = OnePartAtATime(), 20 * PART_BYTES // BLOCK_BYTES // 8
    data = io.BytesIO(bytes(blocks * BLOCK_BYTES)) if rewindable else (bytes(BLOCK_BYTES) for _ in range(blocks))
    open_files("s3://bucket", client=client).save("large", data)
    assert [size for _, size in client.parts] == [PART_BYTES, PART_BYTES, PART_BYTES // 2]
    assert len({buffer for buffer, _ in client.parts}) == 1


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_pieces_are_not_copied_on_their_way_into_a_part(traced: None) -> None:
    piece, part = bytes(4 * BLOCK_BYTES), io.BytesIO()
    source = ByteSource(iter([piece] * 4))
    source.fill(part, PART_BYTES)  # the buffer is made
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    assert source.fill(part, PART_BYTES) == PART_BYTES
    assert tracemalloc.get_traced_memory()[1] - before < BLOCK_BYTES // 4
