"""`penstock jobs pull`, `debug` and `fork` from the outside: a job has failed in production."""

from __future__ import annotations

import json
import os
import pty
import runpy
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.engine import Engine
from penstock.files import open_files
from penstock.jobs.app import App
from penstock.jobs.worker.worker import Worker
from penstock.server.server import running_server

PROGRAM = """
import os
import urllib.request
import penstock

app = penstock.App(os.environ.get("SHOP_DB", "http://127.0.0.1:1"), files=os.environ.get("SHOP_FILES"))

@app.task()
def prices() -> dict:
    return {"box": 12}

@app.task()
def ship(ctx: penstock.JobContext, order: str, token: str) -> dict:
    paid = ctx.step("charge", lambda: 12)
    parts = ctx.step("reserve", lambda: ["box", "lamp"])
    ctx.files.save("slip.txt", b"a packing slip")
    print("packing for", order)
    [price] = ctx.results.values()
    total = sum(price[part] for part in parts)
    return ctx.step("pack", lambda: {"total": total, "paid": paid})

@app.task()
def call_home() -> str:
    try:
        urllib.request.urlopen("http://prod.example.org/")
    except Exception:
        return "nobody answers"
    return "answered"
"""
FIXED = PROGRAM.replace("price[part]", "price.get(part, 5)")


class Shop:
    """Production: a server with a job that has failed at its third step, and a folder on a laptop."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        (folder / "shop.py").write_text(PROGRAM)
        self.app = self._load()

    def _load(self) -> App:
        os.environ["SHOP_DB"], os.environ["SHOP_FILES"] = self.url, str(self.folder / "production.files")
        try:
            source = runpy.run_path(str(self.folder / "shop.py"))
        finally:
            del os.environ["SHOP_DB"], os.environ["SHOP_FILES"]
        app: App = source["app"]
        return app

    def deploy(self, program: str) -> None:
        (self.folder / "shop.py").write_text(program)
        self.app.close()
        self.app = self._load()

    def work(self) -> None:
        Worker(self.app, concurrency=1, burst=True).run()

    def fail(self) -> str:
        parent = self.app.tasks["prices"].enqueue()
        job = self.app.tasks["ship"].options(depends_on=[parent.id]).enqueue(order="o-17", token="hunter2")
        self.work()
        return job.id

    def penstock(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", *words]
        given = {"capture_output": True, "text": True, "timeout": 120, "stdin": subprocess.DEVNULL, **options}
        if "input" in given:
            del given["stdin"]
        return subprocess.run(command, cwd=self.folder, **given)

    def pull(self, job_id: str, *options: str) -> Result:
        files = str(self.folder / "production.files")
        words = ["jobs", "pull", job_id, "--db", self.url, "--to", str(self.folder / "debug.db"), "--files", files]
        return CliRunner().invoke(cli, [*words, *options])

    def debug(self, job_id: str, *options: str, **how: Any) -> subprocess.CompletedProcess[str]:
        return self.penstock("jobs", "debug", job_id, "shop:app", "--db", "debug.db", *options, **how)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    monkeypatch.delenv("PENSTOCK_FILES", raising=False)
    with Engine() as engine, running_server(engine) as server:
        shop = Shop(tmp_path, server.url)
        yield shop
        shop.app.close()


def test_a_job_that_failed_in_production_is_brought_home_repaired_and_forked(shop: Shop) -> None:
    job_id = shop.fail()
    pulled = shop.pull(job_id)
    assert pulled.exit_code == 0, pulled.output
    assert "1 parent, 1 file of 14 bytes" in pulled.output
    assert "read units" in pulled.output

    broken = shop.debug(job_id)
    assert broken.returncode == 3
    assert "packing for o-17" in broken.stdout
    assert "failed       KeyError: 'lamp'" in broken.stdout
    assert 'File "' in broken.stderr and "worker.py" not in broken.stderr
    assert "reused       charge, reserve" in broken.stderr

    shop.deploy(FIXED)
    repaired = shop.debug(job_id, "--json")
    assert repaired.returncode == 0, repaired.stderr
    said = json.loads(repaired.stdout)
    assert (said["outcome"], said["result"]) == ("completed", {"total": 17, "paid": 12})
    assert said["written"]["checkpoints"] == ["pack"]
    assert "packing for o-17" in repaired.stderr
    assert shop.app.get(job_id).attempt == 1

    files = str(shop.folder / "production.files")
    words = ["jobs", "fork", job_id, "--db", shop.url, "--files", files, "--json"]
    forked = CliRunner().invoke(cli, words)
    assert forked.exit_code == 0, forked.output
    new = json.loads(forked.output)["job"]["id"]
    shop.work()
    assert shop.app.result(new) == {"total": 17, "paid": 12}


def test_pdb_stops_at_the_first_line_and_where_it_raises(shop: Shop) -> None:
    job_id = shop.fail()
    shop.pull(job_id)
    done = shop.debug(job_id, "--pdb", "--step", "reserve", input="p order\nc\nup\np parts, price\nq\n")
    assert done.returncode == 3, done.stderr
    assert "-> paid = ctx.step" in done.stdout
    assert "'o-17'" in done.stdout
    assert "(['box', 'lamp'], {'box': 12})" in done.stdout
    assert "forgotten    reserve" in done.stderr


def test_whoever_leaves_pdb_leaves_the_copy_queued(shop: Shop) -> None:
    job_id = shop.fail()
    shop.pull(job_id)
    done = shop.debug(job_id, "--pdb", input="n\nn\nq\n")
    assert done.returncode == 130
    with connect(shop.folder / "debug.db") as db:
        shown = CliRunner().invoke(cli, ["jobs", "show", job_id, "--db", db.name, "--json"])
    assert json.loads(shown.output)["state"] == "queued"


def test_connections_are_blocked_and_told_although_the_task_caught_the_error(shop: Shop) -> None:
    job = shop.app.tasks["call_home"].enqueue()
    shop.pull(job.id)
    done = shop.debug(job.id)
    assert done.returncode == 0
    assert 'completed    "nobody answers"' in done.stdout
    assert "blocked      prod.example.org:80; --network allows it" in done.stderr


def test_what_was_masked_is_asked_for_on_a_terminal_and_shown_nowhere(shop: Shop) -> None:
    shop.deploy(FIXED)
    job_id = shop.fail()
    assert "left out     token" in shop.pull(job_id, "--mask", "token").output
    refused = shop.debug(job_id)
    assert refused.returncode == 2
    assert "--arg NAME=VALUE, or set PENSTOCK_ARG_TOKEN" in refused.stderr
    by_variable = shop.debug(job_id, env={**os.environ, "PENSTOCK_ARG_TOKEN": "mine"})
    assert by_variable.returncode == 0
    said = _on_terminal(shop, job_id, b"typed-in\n")
    assert "token (left out by --mask; not shown, not stored):" in said
    assert '"token":"***"' in said
    assert "completed" in said
    assert "typed-in" not in said


def _on_terminal(shop: Shop, job_id: str, answer: bytes) -> str:
    """What a terminal shows of a debugged job; the answer is typed when it asks."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "penstock", "jobs", "debug", job_id, "shop:app", "--db", "debug.db"]
    process = subprocess.Popen(
        command, cwd=shop.folder, stdin=other, stdout=other, stderr=other, start_new_session=True
    )
    os.close(other)
    said, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([main], [], [], 0.2)[0]:
            try:
                some = os.read(main, 4096)
            except OSError:  # the other side is closed
                break
            said += some
            if answer and b"not stored" in said:
                os.write(main, answer)
                answer = b""
        elif process.poll() is not None:
            break
    process.wait(timeout=60)
    os.close(main)
    return said.decode()


def test_a_bare_mask_needs_secrets_that_are_declared(shop: Shop) -> None:
    job_id = shop.fail()
    refused = shop.pull(job_id, "--mask")
    assert refused.exit_code == 2
    assert "name them, --mask NAME" in refused.output


def test_what_is_declared_secret_of_a_result_is_not_shown(shop: Shop) -> None:
    declared = FIXED.replace("@app.task()\ndef ship", '@app.task(secret=("token", "return.total"))\ndef ship')
    shop.deploy(declared.replace("price.get(part, 5)", "price[part]"))
    job_id = shop.fail()
    (shop.folder / "shop.py").write_text(declared)
    assert "left out     token" in shop.pull(job_id, "--mask").output
    shown = shop.debug(job_id, "--json", "--arg", "token=hunter3")
    assert orjson.loads(shown.stdout)["result"] == {"total": "***", "paid": 12}
    text = shop.debug(job_id, "--arg", "token=hunter3").stdout
    assert 'completed    {"total":"***","paid":12}' in text


def test_an_app_that_opens_a_file_of_its_own_at_import_is_refused(shop: Shop) -> None:
    job_id = shop.fail()
    shop.pull(job_id)
    opened = PROGRAM.replace('os.environ.get("SHOP_DB", "http://127.0.0.1:1")', 'penstock.connect("shop.db")')
    (shop.folder / "shop.py").write_text(opened)
    refused = shop.debug(job_id)
    assert refused.returncode == 1
    assert "was given shop.db when its module was imported" in refused.stderr
    assert "PENSTOCK_DB" in refused.stderr
    by_variable = PROGRAM.replace(
        'os.environ.get("SHOP_DB", "http://127.0.0.1:1")', 'penstock.connect(os.environ["PENSTOCK_DB"])'
    )
    (shop.folder / "shop.py").write_text(by_variable)
    assert "failed       KeyError: 'lamp'" in shop.debug(job_id).stdout


@pytest.mark.parametrize("place", ["aws://eu-west-2", "http://127.0.0.1:1", ":memory:"])
def test_a_job_is_pulled_into_a_file_only(shop: Shop, place: str) -> None:
    refused = CliRunner().invoke(cli, ["jobs", "pull", "job_x", "--db", shop.url, "--to", place])
    assert refused.exit_code == 2
    assert "--to is a file" in refused.output


def test_jobs_that_are_not_there_end_with_4(shop: Shop) -> None:
    job_id = shop.fail()
    assert shop.pull("job_none").exit_code == 4
    assert not (shop.folder / "debug.db").exists()
    shop.pull(job_id)
    assert shop.debug("job_none").returncode == 4
    forked = CliRunner().invoke(cli, ["jobs", "fork", "job_none", "--db", shop.url])
    assert forked.exit_code == 4


def test_a_fork_is_shown_before_it_is_made(shop: Shop) -> None:
    job_id = shop.fail()
    words = ["jobs", "fork", job_id, "--db", shop.url, "--from", "reserve", "--dry-run"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0
    assert shown.output == f"{job_id} would be forked:\ncheckpoints  charge\nruns again   reserve\n"
    assert len(shop.app.store.find().jobs) == 2
    refused = CliRunner().invoke(cli, [*words[:-1], "--args", "[1]"])
    assert refused.exit_code == 2


def test_items_are_named_on_the_command_line(shop: Shop) -> None:
    job_id = shop.fail()
    shop.app.store.db.execute(
        "CreateTable",
        {
            "TableName": "orders",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    shop.app.store.db.table("orders").put({"id": "o-17", "weight": 3})
    assert json.loads(shop.pull(job_id, "--items", "orders:id=o-17", "--json").output)["items"] == 1
    with connect(shop.folder / "debug.db") as db:
        assert db.table("orders").get({"id": "o-17"}) == {"id": "o-17", "weight": 3}
    assert open_files(shop.folder / "debug.db.files").exists(f"{job_id}/slip.txt")
