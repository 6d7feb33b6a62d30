"""`python -m tools.walk`: the files that a call goes through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.walk import CALLS, Walk, walk_of

ROOT = Path(__file__).parents[2]


def test_a_return_is_a_hop_to_a_file_that_was_left() -> None:
    walk = Walk()
    for file in ("a.py", "a.py", "b.py", "a.py", "c.py", "b.py"):
        walk.enter(file)
    assert walk.hops == ["a.py", "b.py", "a.py", "c.py", "b.py"]
    assert walk.files == ["a.py", "b.py", "c.py"]
    assert walk.returns == 2
    assert walk.visits("a.py") == 2


@pytest.mark.parametrize(
    ("call", "files"),
    [
        ("put-item", {"server/connection.py", "engine/engine.py", "engine/items/usual_puts.py"}),
        ("enqueue", {"jobs/tasks.py", "jobs/store/store.py", "engine/engine.py"}),
        ("work", {"jobs/worker/worker.py", "jobs/worker/fetcher.py", "jobs/store/store.py"}),
        ("apply", {"tables/plan/plan.py", "tables/apply/apply.py", "engine/operations/tables.py"}),
    ],
)
def test_a_walk_goes_through_the_files_that_do_the_work(call: str, files: set[str]) -> None:
    assert files <= set(walk_of(call).files)


def test_the_command_prints_the_walk_and_its_figures() -> None:
    command = [sys.executable, "-m", "tools.walk", next(iter(CALLS))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" returns")
