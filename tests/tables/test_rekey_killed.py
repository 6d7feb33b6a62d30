"""A rekey in a process of its own, killed at any moment while another process's table is in use."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rekey_world import Writer, check_new_table, filled_world, rekeyed

from penstock.tables.rekey import Options, Rekey
from penstock.tables.rekey_state import JobStore


@pytest.mark.crash
def test_killed_again_and_again_it_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "world.db")
    chance = random.Random(3)
    with filled_world(path, count=1_000) as db:
        writer = Writer(db, 1_000)
        writer.start()
        phases = []
        for _ in range(3):
            _start_and_kill(path, chance.uniform(0.1, 0.6))
            found = JobStore(db).read("old")
            phases.append(None if found is None else found.phase)
        rekeyed(db, Options(page_items=200))
        writer.finish()
        Rekey(db, JobStore(db), Options()).confirm("old", quiet_seconds=0.0)
        check_new_table(db, writer.known)
        assert phases[0] != "ready", "the kill came too late to prove anything"


def _start_and_kill(path: str, after_seconds: float) -> None:
    program = Path(__file__).with_name("rekey_world.py")
    child = subprocess.Popen([sys.executable, str(program), path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    time.sleep(after_seconds)
    child.kill()
    child.wait()
    child.stdout.close()
