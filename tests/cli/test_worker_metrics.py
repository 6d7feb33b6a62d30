"""`penstock worker --metrics-port` and `--log-format json`; `penstock jobs … --tag`; `penstock up --api`."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.jobs.worker import Supervisor
from penstock.cli.kit.logs import JsonFormatter
from penstock.cli.main import cli as main

APP = """
import logging
import penstock

app = penstock.App("shop.db")

@app.task(retries=penstock.RetryPolicy(1, base_seconds=0))
def load(file: str) -> str:
    logging.getLogger("shop").warning("odd file %s", file)
    if file == "bad.csv":
        raise ConnectionError("no such file")
    return file
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def enqueue(*files: str) -> list[str]:
    with penstock.App("shop.db") as app:
        return [app.task_named("load").options(tags=[file[:3]]).enqueue(file=file).id for file in files]


def penstock_command(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_worker_writes_its_log_as_json(folder: Path):
    good, bad = enqueue("a.csv", "bad.csv")
    process = penstock_command("worker", "shop:app", "--burst", "--log-format", "json")
    _, errors = process.communicate(timeout=120)
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    ends = {(line["job_id"], line["outcome"]): line for line in lines if "outcome" in line}
    assert set(ends) == {(good, "completed"), (bad, "retried"), (bad, "failed")}
    assert ends[bad, "failed"]["level"] == "ERROR" and "no such file" in ends[bad, "failed"]["message"]
    own = [line for line in lines if line["logger"] == "shop"]
    assert {(line["job_id"], line["message"]) for line in own} == {(good, "odd file a.csv"), (bad, "odd file bad.csv")}


def test_a_worker_serves_its_metrics_while_it_works(folder: Path):
    enqueue("a.csv")
    process = penstock_command("worker", "shop:app", "--metrics-port", "0")
    try:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            if line.startswith("Metrics are at "):
                url = line.split()[-1]
            if " completed" in line:
                break
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
        assert 'penstock_attempts_ended_total{task="load",outcome="completed"} 1\n' in text
        with urllib.request.urlopen(url.replace("metrics", "healthz"), timeout=60) as answer:
            assert json.load(answer)["status"] == "ok"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_each_supervised_process_has_its_own_port_and_the_one_after_it_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[list[str]] = []

    class Child:
        def __init__(self, command: list[str], **options: Any) -> None:
            started.append(command)
            self.pid = len(started)

    monkeypatch.setattr(subprocess, "Popen", Child)
    supervisor = Supervisor(["worker", "shop:app", "--metrics-port", "9400"], 2, 1.0, metrics_port=9400)
    first, second = supervisor._start(), supervisor._start()
    supervisor._places.pop(second.pid)
    supervisor._start()
    assert first.pid in supervisor._places
    assert [command[-2:] for command in started] == [
        ["--metrics-port", "9400"],
        ["--metrics-port", "9401"],
        ["--metrics-port", "9401"],
    ]


def test_a_record_is_one_line_of_json_whatever_it_holds():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("shop", logging.ERROR, "", 0, "a\n%s", (b"\xff",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    form = json.loads(line)
    assert form["message"] == "a\nb'\\xff'" and form["error"]["kind"] == "ValueError"


def test_jobs_are_listed_retried_and_cancelled_by_their_tag(folder: Path):
    first, second = enqueue("eu1.csv", "us1.csv")
    run = CliRunner().invoke
    listed = run(main, ["jobs", "list", "--db", "shop.db", "--tag", "eu1", "--json"])
    (job,) = json.loads(listed.output)["jobs"]
    assert (job["id"], job["tags"]) == (first, ["eu1"])
    done = run(main, ["jobs", "cancel", "--tag", "us1", "--db", "shop.db", "--yes", "--json"])
    assert json.loads(done.output.splitlines()[-1]) == [{"id": second, "state": "cancelled"}]


def test_the_api_is_served_beside_the_dashboard(folder: Path):
    (job_id,) = enqueue("a.csv")
    environment = {**os.environ, "PENSTOCK_DASHBOARD_TOKEN": "t0ken"}
    process = penstock_command("up", "--db", "shop.db", "--api", "--port", "0", "--json", env=environment)
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"].partition("/login")[0]
        request = urllib.request.Request(f"{url}/api/v1/jobs", headers={"Authorization": "Bearer t0ken"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert [job["id"] for job in json.load(answer)["jobs"]] == [job_id]
        with urllib.request.urlopen(f"{url}/healthz", timeout=60) as answer:
            assert json.load(answer)["status"] == "ok"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
