"""The pages about jobs say what is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.jobs.model.state import diagram
from penstock.leases import allowance_seconds

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def run(folder: Path, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_DB"}
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_first_job_runs_as_it_is_written(tmp_path: Path) -> None:
    first, _plain, _async, _logging, further, fan_in = blocks("first-job.md", "python")
    (tmp_path / "reports.py").write_text(first.replace("time.sleep(0.5)", "time.sleep(0.01)"))
    job = run(tmp_path, sys.executable, "reports.py").strip()
    assert re.fullmatch(r"job_[0-9a-z]+_[0-9a-z]{6}", job)
    penstock = [sys.executable, "-m", "penstock"]
    assert "no worker is running now" in run(tmp_path, *penstock, "jobs", "why", job)
    run(tmp_path, *penstock, "worker", "reports:app", "--concurrency", "4", "--burst")
    watched = run(tmp_path, *penstock, "jobs", "watch", job).splitlines()
    assert watched[0].endswith("checkpoint rows")
    assert watched[-1].endswith("saved report.txt")
    # And what may be said of a task and of a job: `after` names a job that is there.
    text = further.replace("job_mwigqirm_4gur5b", job)
    (tmp_path / "more.py").write_text(f"import penstock\nfrom reports import app, monthly_report\n{text}")
    run(tmp_path, sys.executable, "more.py")
    assert "is due in" in run(tmp_path, *penstock, "jobs", "why", _newest(tmp_path, penstock))
    (tmp_path / "summary.py").write_text(f"import penstock\nfrom reports import app, monthly_report\n{fan_in}")
    run(tmp_path, sys.executable, "summary.py")
    assert "waits for 2 of 2 jobs: job_" in run(tmp_path, *penstock, "jobs", "why", _newest(tmp_path, penstock))


def _newest(folder: Path, penstock: list[str]) -> str:
    return run(folder, *penstock, "jobs", "list", "--limit", "1").split()[0]


def test_the_workflow_runs_as_it_is_written(tmp_path: Path) -> None:
    program, _loop, testing = blocks("workflows.md", "python")
    (tmp_path / "orders.py").write_text(program)
    (tmp_path / "test_orders.py").write_text(testing)
    penstock = [sys.executable, "-m", "penstock"]
    job = run(tmp_path, sys.executable, "orders.py").strip()
    assert run(tmp_path, *penstock, "worker", "orders:app", "--burst", "--quiet") == "charged\n"
    why = run(tmp_path, *penstock, "jobs", "why", job)  # "3d" in the second in which the wait began
    assert re.fullmatch(
        rf"{job} waits for the event 'approval', for another (2d 23h|3d): `.* send {job} approval`.\n", why
    )
    assert run(tmp_path, *penstock, "jobs", "send", job, "approval", '{"by": "ada"}') == f"{job} queued\n"
    run(tmp_path, *penstock, "worker", "orders:app", "--burst", "--quiet")
    assert re.search(r"sleeps for another (29d 23h|30d), until 20", run(tmp_path, *penstock, "jobs", "why", job))
    assert run(tmp_path, sys.executable, "test_orders.py") == "charged\nmail to ada\n"


def test_the_picture_of_the_states_is_made_from_their_table() -> None:
    assert blocks("life-of-a-job.md", "mermaid") == [diagram()]


def test_the_allowance_is_what_the_page_says() -> None:
    page = (DOCS / "when-a-worker-dies.md").read_text()
    assert "a tenth of its length" in page
    assert allowance_seconds(5) == 0.5
    assert allowance_seconds(600) == 2.0
