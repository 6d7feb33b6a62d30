"""A worker whose database file is taken away ends with the reason: it can claim and end nothing any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import DatabaseLost
from penstock.jobs.app import App
from penstock.jobs.context import JobContext
from penstock.jobs.worker.worker import Worker

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows lets nobody delete a file that is open")

_APP = """
from pathlib import Path
from penstock.jobs.app import App
from penstock.jobs.context import JobContext

app = App("jobs.db")

@app.task()
def take_file_away(ctx: JobContext) -> None:
    Path("jobs.db").unlink()

if __name__ == "__main__":
    take_file_away.enqueue()
"""


def test_a_worker_whose_file_is_deleted_raises_and_runs_no_more(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    app = App(str(path))
    began: list[str] = []

    @app.task()
    def take_file_away(ctx: JobContext) -> None:
        began.append(ctx.id)
        path.unlink(missing_ok=True)

    for _ in range(5):
        take_file_away.enqueue()
    ends: list[str] = []
    worker = Worker(app, concurrency=1, grace_seconds=0.0, idle_seconds=0.05, on_end=lambda job, how: ends.append(how))
    with pytest.raises(DatabaseLost, match="the file was deleted or moved"):
        worker.run()
    app.close()
    assert len(began) == 1
    assert "completed" not in ends


def test_the_command_of_such_a_worker_ends_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "thief.py").write_text(_APP)
    subprocess.run([sys.executable, "thief.py"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "penstock", "worker", "thief:app", "--grace", "0", "--idle", "0.05"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "Error: jobs.db: the file was deleted or moved while this process had it open." in done.stderr
