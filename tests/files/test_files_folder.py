"""What only a folder can meet: links, kills, other processes, hands in the folder, a full disk."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import ManualClock
from penstock.files import (
    FileChanged,
    FileError,
    FileInTheWay,
    FileMissing,
    NoSpace,
    NotAllowed,
    SavedFile,
    folder_tree,
    open_files,
)
from penstock.files.folder_tree import Tree, is_abandoned
from penstock.files.keys import STAGING

SAVER = Path(__file__).parent / "file_saver.py"


def saver(folder: Path, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(SAVER), str(folder), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def staged(folder: Path) -> list[Path]:
    return list((folder / "_temp").glob("*"))


# ── kills and other processes ────────────────────────────────────────────────────────────────────


@pytest.mark.crash
def test_a_kill_in_the_middle_of_a_save_shows_nothing_and_a_sweep_clears_it(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    old = files.save("x", b"old")
    process = saver(tmp_path, "x", "hang", 3_000_000)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    assert files.read("x", expect=old) == b"old"
    alive = files.sweep(older_than_seconds=0)
    process.kill()
    process.wait(timeout=60)
    assert alive.leftovers == 0, "a save that is under way is left alone"
    assert len(staged(tmp_path)) == 1
    assert [one.key for one in files.list()] == ["x"]
    assert files.sweep(older_than_seconds=3600).leftovers == 0
    swept = files.sweep(older_than_seconds=0)
    assert swept.leftovers == 1 and swept.size >= 2_000_000
    assert staged(tmp_path) == []
    assert files.read("x", expect=old) == b"old"


@pytest.mark.crash
def test_a_kill_at_any_moment_leaves_one_whole_version(tmp_path: Path) -> None:
    files, moments = open_files(tmp_path), random.Random(7)
    files.save("x", b"first"[:1])
    for byte in range(1, 7):
        process = saver(tmp_path, "x", "repeat", 100_000, byte)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(moments.random() / 20)
        process.kill()
        process.communicate(timeout=60)
        content = files.read("x")
        assert content == content[:1] * len(content)
        files.sweep(older_than_seconds=0)
        assert staged(tmp_path) == [] and list(files.missing()) == []
    files.save("x", b"after")
    assert files.read("x") == b"after"


def test_processes_that_save_one_key_at_once_never_show_half_or_a_wrong_hash(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    files.save("same/key", b"\x07" * 10)
    processes = [saver(tmp_path, "same/key", "repeat", 60, byte) for byte in (1, 2)]
    reads = 0
    try:
        while reads < 50 or any(process.poll() is None for process in processes):
            content = files.read("same/key")  # raises FileChanged if file and hash are not of one save
            assert content == content[:1] * len(content)
            reads += 1
    finally:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
        for process in processes:
            process.communicate()
    assert files.read("same/key")[:1] in (b"\x01", b"\x02")
    assert files.sweep(older_than_seconds=0).leftovers == 0


def test_a_crash_between_entry_and_rename_keeps_the_old_file_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 1 of manifest.py: whichever file is found is one of the two that the entry names."""
    files = open_files(tmp_path)
    old = files.save("x", b"old")
    monkeypatch.setattr("penstock.files.folder.FolderFiles._rename", _die)
    with pytest.raises(_Died):
        files.save("x", b"new")
    with pytest.raises(_Died):
        files.save("never", b"new")
    monkeypatch.undo()
    assert files.read("x") == b"old"
    assert files.info("x") == old
    assert not files.exists("never") and list(files.missing()) == []
    shutil.copyfile(tmp_path / "x", tmp_path / "copy")  # without its time
    (tmp_path / "copy").replace(tmp_path / "x")
    assert files.info("x") == old, "where times were lost, the hash tells which of the two it is (2)"
    assert files.read("x") == b"old"


class _Died(BaseException):
    pass


def _die(*_: object) -> None:
    raise _Died


def test_savers_and_deleters_of_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    failures: list[BaseException] = []

    def churn(name: str) -> None:
        try:
            for _ in range(40):
                files.save(f"deep/er/{name}", b"x")
                files.delete(f"deep/er/{name}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=churn, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not (tmp_path / "deep").exists(), "empty folders go with their last file"


def test_a_sweep_beside_savers_takes_none_of_their_files(tmp_path: Path) -> None:
    files, failures, ended = open_files(tmp_path), list[BaseException](), threading.Event()

    def save(name: str) -> None:
        try:
            for turn in range(40):
                files.save(name, bytes([turn]) * 10)
        except BaseException as error:
            failures.append(error)

    def sweep() -> None:
        while not ended.is_set():
            files.sweep(older_than_seconds=0)

    savers = [threading.Thread(target=save, args=(name,)) for name in "ab"]
    sweeper = threading.Thread(target=sweep)
    for thread in (*savers, sweeper):
        thread.start()
    for thread in savers:
        thread.join()
    ended.set()
    sweeper.join()
    assert failures == []
    assert files.read("a") == files.read("b") == bytes([39]) * 10


def test_a_staged_file_is_locked_while_it_is_swept(tmp_path: Path) -> None:
    """A saver that has made it, and is about to lock it, then finds it gone; not some moments later."""
    tree = Tree(tmp_path)
    with tree.place((STAGING, "left"), make=True) as place:
        handle = place.create()
    try:
        with is_abandoned(tree, (STAGING, "left")) as is_left:
            assert is_left
            assert not folder_tree.try_lock(handle)
        assert folder_tree.try_lock(handle)
        with is_abandoned(tree, (STAGING, "left")) as is_left:
            assert not is_left
    finally:
        os.close(handle)


# ── hands in the folder ──────────────────────────────────────────────────────────────────────────


def test_a_file_changed_after_its_hash_was_taken_is_detected(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    saved = files.save("x", b"12345")
    with (tmp_path / "x").open("r+b") as file:
        file.write(b"9")
    with pytest.raises(FileChanged, match="SHA-256 is"):
        files.read("x")
    with pytest.raises(FileChanged):
        files.read("x", expect=saved)
    (tmp_path / "x").write_bytes(b"123456")
    with pytest.raises(FileChanged, match="it has 6 bytes, but 5 were saved"):
        files.open("x")
    assert files.info("x") == saved
    assert files.read(files.save("x", b"again").key) == b"again"


def test_a_file_put_there_by_hand_is_listed_read_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "drawing.pdf").write_bytes(b"abc")
    files = open_files(tmp_path)
    info = files.info("drawing.pdf")
    assert (info.size, info.content_type) == (3, "application/pdf")
    assert info.sha256.startswith("ba7816bf")
    assert files.read("drawing.pdf", expect=info) == b"abc"
    assert [one.key for one in files.list()] == ["drawing.pdf"]


def test_a_file_removed_by_hand_is_missing_and_told_as_lost(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    saved = files.save("a/x", b"1")
    (tmp_path / "a/x").unlink()
    with pytest.raises(FileMissing):
        files.read("a/x")
    assert list(files.missing("a/")) == [saved]
    assert list(files.missing("b/")) == []
    assert files.sweep(older_than_seconds=0).leftovers == 1
    assert list(files.missing()) == []


def test_a_copied_folder_keeps_its_hashes(tmp_path: Path) -> None:
    saved = open_files(tmp_path / "one").save("a/x", b"12345")
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    assert open_files(tmp_path / "two").info("a/x") == saved
    assert open_files(tmp_path / "two").read("a/x") == b"12345"


def test_versions_saved_while_the_clock_stands_still_are_told_apart(tmp_path: Path) -> None:
    files = open_files(tmp_path, clock=ManualClock())
    for content in (b"one", b"two", b"six"):
        saved = files.save("x", content)
        assert files.read("x") == content
        assert files.info("x") == saved
    assert saved.saved_at == "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"{}", b'{"key": "x", "versions": []}', b"\xff"])
def test_a_broken_entry_is_an_error_not_a_file_without_a_hash(tmp_path: Path, broken: bytes) -> None:
    files = open_files(tmp_path)
    files.save("x", b"1")
    [entry] = (tmp_path / ".penstock/manifest").glob("*/*.json")
    entry.write_bytes(broken)
    with pytest.raises(FileError, match="it is no entry of a manifest"):
        files.read("x")
    files.save("x", b"2")
    assert files.read("x") == b"2"
    entry.write_bytes(broken)
    files.delete("x")
    assert not files.exists("x") and not entry.exists()


def test_names_that_are_no_keys_are_passed_over(tmp_path: Path) -> None:
    for name in ("a\nb", "c:d", "_temp", "ok"):
        (tmp_path / name).write_bytes(b"1")
    assert [one.key for one in open_files(tmp_path).list()] == ["ok"]


# ── links ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    return tmp_path / "outside"


@pytest.fixture(params=[True, False], ids=["relative", "looked-at"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Linux and macOS, and as where folders cannot be opened."""
    monkeypatch.setattr(folder_tree, "_RELATIVE", request.param)


@pytest.mark.usefixtures("each_way")
def test_links_are_not_followed_out_of_the_folder(tmp_path: Path, outside: Path) -> None:
    root = tmp_path / "out"
    root.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    files = open_files(root)
    for key in ("folder/secret", "file"):
        assert not files.exists(key) if key == "file" else True
        with pytest.raises(FileError) as caught:
            files.read(key)
        assert isinstance(caught.value, FileMissing | FileInTheWay)
    with pytest.raises(FileInTheWay):
        files.save("folder/new", b"1")
    assert list(files.list()) == [] and list(files.list("folder/")) == []
    files.save("file", b"ours")
    files.sweep(lambda key: False, older_than_seconds=0)
    assert {path.name for path in outside.iterdir()} == {"secret"}
    assert (outside / "secret").read_bytes() == b"secret"


@pytest.mark.usefixtures("each_way")
def test_staging_and_manifest_are_not_followed_either(tmp_path: Path, outside: Path) -> None:
    for name in ("_temp", ".penstock"):
        root = tmp_path / f"out{name}"
        root.mkdir()
        (root / name).symlink_to(outside)
        with pytest.raises(FileInTheWay):
            open_files(root).save("x", b"1")
        assert open_files(root).sweep(older_than_seconds=0).leftovers == 0
    assert {path.name for path in outside.iterdir()} == {"secret"}


@pytest.mark.usefixtures("each_way")
def test_the_folder_itself_may_be_a_link_and_everything_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files = open_files(tmp_path / "link")
    saved = files.save("a/b", b"1")
    assert files.read("a/b") == b"1" and files.info("a/b") == saved
    assert [one.key for one in files.list("a")] == ["a/b"]
    files.delete("a/b")
    assert not files.exists("a/b")


def test_something_that_is_no_file_is_no_file(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    files.save("a/b", b"1")
    os.mkfifo(tmp_path / "pipe")
    for key in ("a", "pipe", "a/b/c"):
        assert not files.exists(key)
        with pytest.raises(FileMissing):
            files.read(key)
    with pytest.raises(FileInTheWay, match="a part of its name"):
        files.save("a", b"1")
    with pytest.raises(FileInTheWay, match="a part of its name"):
        files.save("a/b/c", b"1")
    assert [one.key for one in files.list()] == ["a/b"]
    assert list(files.missing()) == []


# ── no room ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may have more than 1 MB: as a full disk, the write itself fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_a_disk_without_room_is_told_and_nothing_is_visible(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    old = files.save("x", b"old")
    for key in ("x", "new"):
        with pytest.raises(NoSpace, match=r"it cannot be written: file too large\. Make room"):
            files.save(key, [b"1" * 900_000, b"2" * 900_000])
    assert files.read("x", expect=old) == b"old"
    assert not files.exists("new")
    assert staged(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_met_late_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """File systems that allot late say it only when they are asked to sync."""
    files = open_files(tmp_path)
    old = files.save("x", b"old")

    def full(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoSpace):
        files.save("x", b"new")
    monkeypatch.undo()
    assert files.read("x", expect=old) == b"old"
    assert staged(tmp_path) == []


def test_a_disk_that_fails_after_the_rename_leaves_a_whole_file_with_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = open_files(tmp_path)
    files.save("folder/other", b"1")
    real = os.fsync

    def failing(handle: int) -> None:
        if (tmp_path / "folder/x").exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(FileError, match="input/output error"):
        files.save("folder/x", b"new")
    monkeypatch.undo()
    saved = files.saved_info("folder/x")
    assert saved is not None and files.read("folder/x", expect=saved) == b"new"
    assert staged(tmp_path) == []


def test_a_small_disk_that_fills_up(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can be mounted by root only; RLIMIT_FSIZE is tried instead")
    try:
        files = open_files(disk)
        old = files.save("x", b"old" * 100_000)
        with pytest.raises(NoSpace, match="no space left on device"):
            files.save("x", [b"1" * 500_000] * 10)
        assert files.read("x", expect=old) == b"old" * 100_000
        assert staged(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(NotAllowed, match="permission denied"):
        open_files(tmp_path).save("x", b"1")
    tmp_path.chmod(0o700)


def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    with pytest.raises(FileInTheWay):
        open_files(tmp_path / "file").save("x", b"1")
    assert not open_files(tmp_path / "file").exists("x")


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    files = open_files(tmp_path / "out")
    assert not files.exists("x") and list(files.list()) == []
    files.delete("x")
    files.sweep(lambda key: False, older_than_seconds=0)
    assert not (tmp_path / "out").exists()


def test_a_saved_file_of_another_home_is_compared_by_its_hash(tmp_path: Path) -> None:
    one, two = open_files(tmp_path / "1"), open_files(tmp_path / "2")
    saved: SavedFile = one.save("x", b"same")
    two.save("x", b"same")
    assert two.read("x", expect=saved) == b"same"
