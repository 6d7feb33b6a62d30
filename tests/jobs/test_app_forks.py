"""An app that has been used before a fork works in the child: Gunicorn's preload, multiprocessing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

PROGRAM = """
import multiprocessing, os, sys
import penstock

app = penstock.App(sys.argv[1])

@app.task()
def add(a: int, b: int) -> int:
    return a + b

def enqueue_ten(number):
    for one in range(10):
        add.enqueue(number, one)

if __name__ == "__main__":
    enqueue_ten(0)
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=enqueue_ten, args=(number,)) for number in range(1, 4)]
    for child in children:
        child.start()
        enqueue_ten(9)  # in the same millisecond, perhaps: their ids must differ
    pid = os.fork()
    if not pid:
        code = 1
        try:
            job = add.enqueue(4, 4)
            penstock.Worker(app, burst=True, concurrency=2).run()
            code = int(app.result(job.id, timeout_seconds=60) != 8)
        finally:
            os._exit(code)
    for child in children:
        child.join()
    codes = [child.exitcode for child in children] + [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
    penstock.Worker(app, burst=True).run()
    app.close()
    sys.exit(max(codes))
"""


@pytest.mark.parametrize("kind", ["file", "http"])
def test_an_app_that_was_used_before_a_fork_works_in_the_child(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "jobs.db") if kind == "file" else request.getfixturevalue("penstock_server")
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = subprocess.run(
        [sys.executable, "program.py", url], cwd=tmp_path, timeout=120, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    with penstock.App(url) as app:
        jobs = app.store.find(limit=200).jobs
    assert len(jobs) == 71
    assert {job.state.value for job in jobs} == {"completed"}
