"""Proof that a process of this machine has ended (processes.py), and that the machine has slept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import processes
from penstock.processes import SleepWatch, has_ended, has_noted_stop, is_of_this_machine, note_stop, this_process

pytestmark = pytest.mark.skipif(not this_process(), reason="there is no /proc here: leases decide")

NAME_AND_WAIT = "from penstock.processes import this_process; print(this_process(), flush=True); input()"


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", NAME_AND_WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def wait_for_state(pid: int, state: str) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        time.sleep(0.01)


def test_a_process_is_known_to_another_of_this_machine(child: tuple[subprocess.Popen[str], str]) -> None:
    _, name = child
    assert is_of_this_machine(name)
    assert name != this_process()
    assert not has_ended(name)
    assert not has_ended(this_process())


def test_a_killed_process_has_ended_also_while_nobody_has_waited_for_it(
    child: tuple[subprocess.Popen[str], str],
) -> None:
    process, name = child
    process.kill()
    wait_for_state(process.pid, "Z")
    assert has_ended(name)
    process.wait()
    assert has_ended(name)


def test_a_frozen_process_has_not_ended(child: tuple[subprocess.Popen[str], str]) -> None:
    process, name = child
    process.send_signal(signal.SIGSTOP)
    wait_for_state(process.pid, "T")
    assert not has_ended(name)


def test_a_pid_that_is_used_again_is_another_process(child: tuple[subprocess.Popen[str], str]) -> None:
    _, name = child
    place, pid, began = name.split(":")
    assert has_ended(f"{place}:{pid}:{int(began) - 1}")


def test_a_process_whose_first_thread_has_ended_lives_on_in_the_others(
    monkeypatch: pytest.MonkeyPatch, child: tuple[subprocess.Popen[str], str]
) -> None:
    _, name = child
    began = name.split(":")[2]
    monkeypatch.setattr(processes, "_status", lambda pid: processes._Status("Z", 3, began))
    assert not has_ended(name)
    monkeypatch.setattr(processes, "_status", lambda pid: processes._Status("Z", 1, began))
    assert has_ended(name)


@pytest.mark.parametrize("name", ["", "0123456789abcdef:1:1", "0123456789abcdef:999999999:1"])
def test_of_a_process_of_another_machine_nothing_is_known(name: str) -> None:
    assert not is_of_this_machine(name)
    assert not has_ended(name)


@pytest.mark.parametrize("part", ["boot_id", "ns/pid", "hostname"])
def test_another_boot_pid_namespace_or_host_name_is_another_machine(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_process()
    processes._place.cache_clear()
    read_text, readlink = Path.read_text, Path.readlink
    if part == "hostname":
        monkeypatch.setattr("socket.gethostname", lambda: "another")
    monkeypatch.setattr(Path, "read_text", lambda path: "another" if part in str(path) else read_text(path))
    monkeypatch.setattr(Path, "readlink", lambda path: Path("another") if part in str(path) else readlink(path))
    try:
        assert processes._place(os.getpid()) != here.partition(":")[0]
        assert not has_ended(here)
    finally:
        processes._place.cache_clear()


def test_a_sleep_of_the_machine_and_a_clock_set_forward_are_noticed_and_a_clock_set_back_is_not() -> None:
    wall, steady = [1_000.0], [0.0]
    watch = SleepWatch(lambda: wall[0], lambda: steady[0])

    def pass_time(of_wall: float, of_steady: float) -> float:
        wall[0] += of_wall
        steady[0] += of_steady
        return watch.awake_seconds()

    assert pass_time(60, 60) == float("inf")
    assert pass_time(3_600, 0) == 0
    assert pass_time(5, 5) == 5
    assert pass_time(-3_600, 1) == 6
    assert pass_time(1, 1) == 7


def test_a_note_of_a_stop_is_of_one_worker_and_believed_only_in_a_folder_of_this_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    process = this_process()
    assert not has_noted_stop(process, "one")
    note_stop(process, "one")
    assert has_noted_stop(process, "one")
    assert not has_noted_stop(process, "two")
    next(tmp_path.iterdir()).chmod(0o777)
    assert not has_noted_stop(process, "one")
