"""A rekey in a process of its own, killed at any moment while another process's table is in use."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rekey_world import NEW_KEY, Writer, check_new_table, comment, filled_world, rekeyed

from penstock.client.database import connect
from penstock.tables.rekey.phases import Options, Rekey
from penstock.tables.rekey.state import RekeyStore


@pytest.mark.crash
def test_killed_again_and_again_it_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "world.db")
    chance = random.Random(3)
    with filled_world(path, count=1_000) as db:
        writer = Writer(db, 1_000)
        writer.start()
        phases = []
        for _ in range(3):
            _start_and_kill(path, chance.randrange(1, 25))
            found = RekeyStore(db).read("old")
            phases.append(None if found is None else found.phase)
        rekeyed(db, Options(page_items=200))
        writer.finish()
        Rekey(db, RekeyStore(db), Options()).confirm("old", quiet_seconds=0.0)
        check_new_table(db, writer.known)
        assert phases[0] != "ready", "the kill came too late to prove anything"


def _start_and_kill(path: str, after_lines: int) -> None:
    """Kills it when it has saved how far it is so many times, or is ready."""
    program = Path(__file__).with_name("rekey_world.py")
    child = subprocess.Popen([sys.executable, str(program), path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(after_lines):
        child.stdout.readline()
    child.kill()
    child.wait()
    child.stdout.close()


@pytest.mark.crash
def test_ctrl_c_leaves_a_job_that_goes_on_and_says_how(tmp_path: Path) -> None:
    path = str(tmp_path / "world.db")
    filled_world(path, count=600).close()
    program = Path(sys.executable).with_name("penstock")
    words = ["tables", "rekey", "old", "--db", path, "--key", NEW_KEY, "--into", "new"]
    child = subprocess.Popen(
        [program, *words, "--rate", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with connect(path) as db:
        _wait_until(lambda: RekeyStore(db).holder("old") is not None)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=30)
        assert child.returncode == 130, told
        assert "To continue, run it again" in told
        assert RekeyStore(db).holder("old") is None
        assert rekeyed(db).phase == "ready"
        check_new_table(db, {number: comment(number) for number in range(600)})


def _wait_until(true: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends_at
        time.sleep(0.05)
