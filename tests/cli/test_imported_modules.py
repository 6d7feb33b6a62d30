"""What a start imports, counted: modules are the same on a busy machine, seconds are not.

The bounds are a little above what is imported today. Who needs another module asks first whether it can wait until it
is used; `python -X importtime` says what brings it in, `python -m bench coldstart` what it costs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock


def imported(code: str, *words: str) -> list[str]:
    """The modules that the code leaves imported, beyond those that Python starts with."""
    script = (
        "import sys\nbefore = set(sys.modules)\nimport atexit\n"
        "atexit.register(lambda: print('\\nmodules', *sorted(set(sys.modules) - before)))\n" + code
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.splitlines()[-1].split()[1:]


def ours(modules: list[str]) -> list[str]:
    return [name for name in modules if name.startswith("penstock")]


COMMAND = "from penstock.cli.main import main\nmain()"


def test_the_import_of_penstock_brings_in_nothing_else():
    assert ours(imported("import penstock")) == ["penstock"]
    assert len(imported("import penstock")) <= 10


def test_the_help_page_reads_no_package_metadata_and_opens_no_database():
    modules = imported(COMMAND, "--help")
    unneeded = {
        "importlib.metadata",
        "email",
        "dataclasses",
        "logging",
        "pathlib",
        "orjson",
        "difflib",
        "decimal",
        "signal",
    }
    unneeded |= {"click.shell_completion"}
    assert not unneeded & set(modules)
    assert len(ours(modules)) <= 20
    assert len(modules) <= 105


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("starts") / "jobs.db"
    with penstock.connect(place) as db:
        app = penstock.App(db)

        @app.task()
        def work() -> None: ...

        work.enqueue()
    return place


def test_a_list_of_jobs_imports_no_system_and_nothing_that_changes_tables(file: Path):
    modules = imported(COMMAND, "jobs", "list", "--db", str(file))
    not_needed = ("asyncio", "ssl", "http", "multiprocessing", "boto3", "botocore", "penstock.web.", "penstock.server")
    assert not [name for name in modules if name.startswith(not_needed)]
    assert not [name for name in modules if name.startswith("penstock.systems.") and name.count(".") > 2]
    apart = ("penstock.tables.apply", "penstock.tables.plan", "penstock.engine.transfers", "penstock.records.run.")
    assert not [name for name in modules if name.startswith(apart)]
    asked_elsewhere = {"penstock.jobs.explain", "penstock.webhooks", "penstock.client.transports.credentials"}
    assert not {"hashlib", "hmac", "secrets", "socket", "shutil", "fractions", *asked_elsewhere} & set(modules)
    assert "penstock.files" not in modules
    assert "penstock.engine.recovery.backups" not in modules
    assert len(ours(modules)) <= 148
    assert len(modules) <= 270


def test_a_server_that_is_ready_has_imported_no_job_and_no_client():
    script = (
        "import os\nimport penstock.cli.database.serve as serve\n"
        "def told(*_):\n"
        "    print('modules', *sorted(set(sys.modules) - before), flush=True)\n"
        "    os._exit(0)\n"
        "serve._ready_line = told\n" + COMMAND
    )
    modules = imported(script, "serve", "--memory", "--port", "0")
    apart = (
        "penstock.jobs",
        "penstock.records",
        "penstock.web",
        "penstock.systems.",
        "boto",
        "email",
        "importlib.metadata",
        "h11",
        "hashlib",
        "penstock.engine.recovery",
    )
    assert not [name for name in modules if name.startswith(apart)]
    assert len(ours(modules)) <= 88
    assert len(modules) <= 265
