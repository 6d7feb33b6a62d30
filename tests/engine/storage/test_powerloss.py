"""trust.powerloss: the states that it takes a power cut to leave, and a short run where strace is to be had."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FILE, LOG, FOLDER = "/d/a.db", "/d/a.db-wal", "/d"
LINE = b"try 1\n"


@pytest.fixture
def ev(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("trust.power_events")


@pytest.fixture
def st(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("trust.power_states")


def after(st: ModuleType, happened: list[Any], start: dict[str, bytes] | None = None) -> list[dict[str, bytes]]:
    """Many of the states that a cut after these events may leave."""
    disk = st.Disk({FILE: b"old!"} if start is None else start)
    for event in happened:
        disk.follow(event)
    return [disk.state(Random(seed)) for seed in range(200)]


def test_what_is_synced_is_there_and_what_is_not_may_be(ev: ModuleType, st: ModuleType) -> None:
    synced = [ev.Written(FILE, 0, b"new"), ev.SyncBegun(FILE, 1), ev.Synced(1)]
    assert {state[FILE] for state in after(st, synced)} == {b"new!"}
    assert {state[FILE] for state in after(st, synced[:2])} == {b"old!", b"new!"}, "a sync that has not ended"
    more = [*synced, ev.Written(FILE, 1, b"a"), ev.Written(FILE, 2, b"b")]
    assert {state[FILE] for state in after(st, more)} == {b"new!", b"naw!", b"neb!", b"nab!"}, "in any order"
    late = [ev.SyncBegun(FILE, 1), ev.Written(FILE, 0, b"new"), ev.Synced(1)]
    assert {state[FILE] for state in after(st, late)} == {b"old!", b"new!"}, "written while the sync ran"


def test_a_large_write_is_torn_at_sectors(ev: ModuleType, st: ModuleType) -> None:
    found = {state[FILE] for state in after(st, [ev.Written(FILE, 256, b"x" * 1024)], {FILE: bytes(1280)})}
    parts = [(256, 512), (512, 1024), (1024, 1280)]
    assert len(found) > 4
    for data in found:
        assert all(len(set(data[low:high])) == 1 for low, high in parts)


def test_a_file_is_cut_and_lengthened(ev: ModuleType, st: ModuleType) -> None:
    assert {state[FILE] for state in after(st, [ev.Cut(FILE, 2)])} == {b"old!", b"ol"}
    beyond = [ev.Written(FILE, 6, b"z"), ev.SyncBegun(FILE, 1), ev.Synced(1)]
    assert {state[FILE] for state in after(st, beyond)} == {b"old!\0\0z"}


def test_a_name_is_certain_when_its_folder_is_synced(ev: ModuleType, st: ModuleType) -> None:
    made = [ev.Made(LOG), ev.Written(LOG, 0, b"w"), ev.SyncBegun(LOG, 1), ev.Synced(1)]
    assert {state.get(LOG) for state in after(st, made)} == {None, b"w"}
    named = [*made, ev.SyncBegun(FOLDER, 2), ev.Synced(2)]
    assert {state.get(LOG) for state in after(st, named)} == {b"w"}
    assert {state.get(LOG) for state in after(st, [*named, ev.Unlinked(LOG)])} == {None, b"w"}, "it may come back"
    gone = [*named, ev.Unlinked(LOG), ev.SyncBegun(FOLDER, 3), ev.Synced(3)]
    assert {state.get(LOG) for state in after(st, gone)} == {None}


def test_straces_account_is_read(ev: ModuleType) -> None:
    def text(raw: bytes) -> str:
        return "".join(f"\\x{byte:02x}" for byte in raw)

    lines = [
        f'7 openat(AT_FDCWD, "{text(b"/d/a.db")}", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3',
        f'7 openat(AT_FDCWD, "{text(b"/d/a.db-wal")}", O_RDWR|O_CREAT, 0644) = 4',
        f'7 openat(AT_FDCWD, "{text(b"/d/none")}", O_RDONLY) = -1 ENOENT (No such file or directory)',
        f'7 pwrite64(3, "{text(b"ab")}", 2, 4096) = 2',
        "7 fdatasync(3 <unfinished ...>",
        f'8 pwrite64(4, "{text(b"cd")}", 2, 0 <unfinished ...>',
        "7 <... fdatasync resumed>)          = 0",
        "8 <... pwrite64 resumed>)           = 1",
        "8 ftruncate(4, 10)                  = 0",
        f'7 write(1, "{text(LINE)}", 6) = 6',
        f'7 write(2, "{text(b"noise")}", 5) = 5',
        "7 close(4) = 0",
        "8 ftruncate(4, 0) = -1 EBADF (Bad file descriptor)",
        f'7 unlink("{text(b"/d/a.db-wal")}") = 0',
        "7 +++ exited with 0 +++",
    ]
    assert list(ev.events(lines, [FILE])) == [
        ev.Made(LOG),
        ev.Written(FILE, 4096, b"ab"),
        ev.SyncBegun(FILE, 1),
        ev.Synced(1),
        ev.Written(LOG, 0, b"c"),
        ev.Cut(LOG, 10),
        ev.Said("try 1"),
        ev.Unlinked(LOG),
    ]


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False, timeout=60)
    return tried.returncode == 0


def powerloss(sync: str) -> subprocess.CompletedProcess[str]:
    options = ["--seed", "5", "--writes", "25", "--states", "20", "--sync", sync]
    command = [sys.executable, "-m", "trust.powerloss", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.crash
def test_a_power_cut_damages_nothing_and_with_full_sync_loses_nothing() -> None:
    if not can_trace():
        pytest.skip("strace is not here or not allowed: it records what a process writes and syncs")
    ended = powerloss("both")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "--sync full: 20 power cuts, 0 failures" in ended.stdout
    assert "no acknowledged write was missing" in ended.stdout.splitlines()[1]
