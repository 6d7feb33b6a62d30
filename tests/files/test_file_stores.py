"""What every home promises, tried on a folder and on a bucket alike. Numbers are those at the top of `home.py`."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from penstock.files import (
    BadStoreUrl,
    FileChanged,
    FileMissing,
    Files,
    FileTooLarge,
    SavedFile,
    open_files,
)
from penstock.files import bucket as bucket_module

LARGE = bytes(range(256)) * 4 * 1024 * 9  # 9 MB: more than one part of an upload


class Unseekable(io.RawIOBase):
    """As a socket or a pipe: read once, in odd pieces."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._stream.readinto(memoryview(buffer)[:70_001])


def pieces(data: bytes) -> Iterator[bytes]:
    yield b""
    for at in range(0, len(data), 1_500_007):
        yield data[at : at + 1_500_007]


@pytest.mark.parametrize("data", [b"", b"hello", LARGE], ids=["empty", "small", "large"])
@pytest.mark.parametrize("giver", [bytes, bytearray, memoryview, io.BytesIO, Unseekable, pieces])
def test_what_is_saved_is_read_back(files: Files, data: bytes, giver: type) -> None:
    saved = files.save("jobs/j1/data.bin", giver(data))
    assert (saved.key, saved.size) == ("jobs/j1/data.bin", len(data))
    assert saved.sha256 == hashlib.sha256(data).hexdigest()
    assert files.read(saved.key, expect=saved) == data
    assert files.info(saved.key) == saved
    assert files.exists(saved.key)
    assert [one.key for one in files.list()] == [saved.key]


def test_a_file_is_saved_from_where_it_stands(files: Files) -> None:
    stream = io.BytesIO(b"header" + LARGE)
    stream.seek(6)
    assert files.read(files.save("x", stream).key) == LARGE


def test_a_saved_file_is_a_value_that_an_item_can_hold(files: Files) -> None:
    saved = files.save("jobs/j1/report.xlsx", b"x")
    assert SavedFile.parse(saved.form()) == saved
    assert saved.content_type == "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    assert len(saved.saved_at) == len("2025-06-16T21:19:33.789Z") and saved.saved_at.endswith("Z")
    assert files.save("x", b"", content_type="text/plain").content_type == files.info("x").content_type == "text/plain"
    with pytest.raises(FrozenInstanceError):
        saved.size = 2  # type: ignore[misc]


def test_a_stream_is_read_in_pieces_by_lines_and_left_early(files: Files) -> None:
    files.save("lines.txt", b"one\ntwo\nthree\n")
    with files.open("lines.txt") as stream:
        assert stream.read(3) == b"one"
    with files.open("lines.txt") as stream:
        assert list(stream) == [b"one\n", b"two\n", b"three\n"]
    assert stream.closed


def test_a_large_file_is_not_read_whole_by_mistake(files: Files) -> None:
    files.save("x", b"12345")
    assert files.read("x", limit=5) == b"12345"
    with pytest.raises(FileTooLarge, match="more than 4 bytes"):
        files.read("x", limit=4)


def test_an_old_record_of_a_file_that_was_saved_anew_is_refused(files: Files) -> None:
    old = files.save("x", b"old")
    files.save("x", b"new")
    with pytest.raises(FileChanged, match="SHA-256"):
        files.read("x", expect=old)
    longer = files.save("x", b"longer")
    with pytest.raises(FileChanged, match="it has 6 bytes, but 3 were saved"):
        files.open("x", expect=old)
    assert files.read("x") == files.read("x", expect=longer) == b"longer"


def test_the_last_byte_is_not_handed_out_if_the_hash_is_wrong(files: Files) -> None:
    saved = files.save("x", b"12345")
    other = SavedFile("x", 5, "0" * 64, saved.saved_at)
    with files.open("x", expect=other) as stream, pytest.raises(FileChanged):
        stream.read(5)


def test_a_missing_file_is_told_with_its_name(files: Files) -> None:
    for ask in (files.open, files.read, files.info):
        with pytest.raises(FileMissing, match=r"jobs/none: there is no such file\. List what there is"):
            ask("jobs/none")
    assert not files.exists("jobs/none")
    files.delete("jobs/none")


def test_a_deleted_file_is_gone_and_can_be_saved_again(files: Files) -> None:
    files.save("a/b/c", b"1")
    files.delete("a/b/c")
    assert not files.exists("a/b/c") and list(files.list()) == []
    files.save("a", b"2")
    assert files.read("a") == b"2"


KEYS = ["a-b", "a/b", "a/b.json", "a0", "jobs/j1/x", "jobs/j10/x", "jobs/j2/y", "ключ/é"]


def test_a_list_is_in_the_order_of_keys_and_takes_any_beginning(files: Files) -> None:
    for key in reversed(KEYS):
        files.save(key, b"123")
    assert [one.key for one in files.list()] == KEYS
    assert [one.key for one in files.list("jobs/")] == KEYS[4:7]
    assert [one.key for one in files.list("jobs/j1")] == KEYS[4:6]
    assert [one.key for one in files.list("jobs/j1/")] == KEYS[4:5]
    assert [one.key for one in files.list("jobs/j1/x")] == KEYS[4:5]
    assert list(files.list("none/")) == []
    assert {one.size for one in files.list()} == {3}


def test_what_the_source_raises_comes_through_and_leaves_the_old_file(files: Files) -> None:
    def failing() -> Iterator[bytes]:
        yield LARGE
        raise OSError(28, "the caller's own")

    old = files.save("x", b"old")
    with pytest.raises(OSError, match="the caller's own") as caught:
        files.save("x", failing())
    assert type(caught.value) is OSError
    assert files.read("x", expect=old) == b"old"
    assert files.sweep(older_than_seconds=0).leftovers == 0


def test_ctrl_c_in_the_middle_of_a_save_leaves_nothing(files: Files) -> None:
    def interrupted() -> Iterator[bytes]:
        yield LARGE
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.save("x", interrupted())
    assert not files.exists("x")
    assert files.sweep(older_than_seconds=0).leftovers == 0


@pytest.mark.parametrize("data", ["text", io.StringIO("text"), ["text"], [1], 7])
def test_what_is_not_bytes_is_refused(files: Files, data: object) -> None:
    with pytest.raises(TypeError):
        files.save("x", data)  # type: ignore[arg-type]
    assert not files.exists("x")


def test_threads_that_save_one_key_leave_one_whole_file(files: Files) -> None:
    contents = [bytes([n]) * 300_000 for n in range(8)]
    threads = [threading.Thread(target=files.save, args=("same", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.read("same") in contents


def test_a_sweep_removes_what_nobody_knows_and_only_if_it_is_old(files: Files) -> None:
    for name in ("a", "b", "c"):
        files.save(f"jobs/{name}", b"12")
    known = {"jobs/a"}
    assert files.sweep(known.__contains__, older_than_seconds=3600).orphans == 0
    told: list[str] = []
    dry = files.sweep(known.__contains__, older_than_seconds=0, dry_run=True, tell=lambda file: told.append(file.key))
    assert (dry.orphans, dry.size, told) == (2, 4, ["jobs/b", "jobs/c"])
    assert len(list(files.list())) == 3
    assert files.sweep(known.__contains__, older_than_seconds=0) == dry
    assert [one.key for one in files.list()] == ["jobs/a"]


def test_what_is_saved_anew_during_a_sweep_is_kept(files: Files) -> None:
    files.save("x", b"old")

    def keep(key: str) -> bool:
        files.save(key, b"new and longer")
        return False

    assert files.sweep(keep, older_than_seconds=0).orphans == 0
    assert files.read("x") == b"new and longer"


@pytest.mark.parametrize("kind", ["", "text", "text/plain\nx: y", "text/ü"])
def test_what_no_header_can_carry_is_no_content_type(files: Files, kind: str) -> None:
    with pytest.raises(ValueError, match="is no content type"):
        files.save("x", b"", content_type=kind)
    assert files.save("x", b"", content_type="text/plain; charset=utf-8").content_type == files.info("x").content_type


def test_a_url_has_a_life_that_s3_can_give_it(files: Files) -> None:
    for seconds in (0, -1, 604_801):
        with pytest.raises(ValueError, match="lives 1 to 604800 seconds"):
            files.url("x", seconds=seconds)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/x", "no files are kept there"),
        ("http://host/x", "no files are kept there"),
        ("", "it is no path"),
        ("a\0b", "it is no path"),
        ("file://host/x", "names no host"),
        ("s3://", "is no bucket's name"),
        ("s3://a/", "is no bucket's name"),
        ("s3://bucket/x?endpoint=y", "is no option"),
        ("s3://bucket/" + "x/" * 150, "more than 200 bytes"),
    ],
)
def test_a_url_that_is_no_home_is_told(url: str, reason: str) -> None:
    with pytest.raises(BadStoreUrl, match=reason):
        open_files(url)


def test_a_file_url_is_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    saved = open_files(folder.as_uri()).save("x", b"1")
    assert open_files(folder).read("x", expect=saved) == b"1"
    assert open_files(folder).url("x") == (folder / "x").as_uri()


def test_a_part_of_an_upload_is_what_s3_takes() -> None:
    assert bucket_module.PART_BYTES >= 5 * 1024 * 1024
