"""An installation without extras: the core works, and each part that is missing says how to get it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.extras import ExtraMissing, extra, missing, require

LIBRARIES = [
    "cloudpickle",
    "cryptography",
    "dask",
    "distributed",
    "evoc",
    "fastapi",
    "jinja2",
    "matplotlib",
    "multipart",
    "numba",
    "numpy",
    "onnxruntime",
    "openpyxl",
    "opentelemetry",
    "pydantic",
    "pydantic_core",
    "pypdf",
    "pypdfium2",
    "rapidocr",
    "scipy",
    "sklearn",
    "starlette",
    "uvicorn",
    "yaml",
]
"""Every library that only an extra has."""

BLOCKED = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LIBRARIES}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())

from click.testing import CliRunner
from penstock.cli.main import cli

def run(*words):
    result = CliRunner().invoke(cli, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output
"""


def blocked(script: str, folder: Path) -> str:
    """What the script prints in an interpreter that finds none of the libraries."""
    code = BLOCKED + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_core_runs_without_any_extra(tmp_path: Path) -> None:
    script = """
        import penstock
        from penstock.jobs.worker.worker import Worker

        app = penstock.App("jobs.db")

        @app.task()
        def double(ctx, n: int) -> int:
            return 2 * n

        job = double.enqueue(n=4)
        Worker(app, burst=True).run()
        assert app.result(job.id) == 8
        app.close()
        for words in (
            ["--help"],
            ["quickstart"],
            ["tables", "apply", "excel-reports", "--db", "tables.db", "--yes"],
            ["tables", "plan", "delphi", "--db", "tables.db"],
            ["jobs", "list", "--db", "jobs.db"],
            ["serve", "--help"],
            ["worker", "--help"],
            ["records", "process", "--help"],
        ):
            code, output = run(*words)
            assert code == 0, (words, output)
        print(sorted(name for name in sys.modules if name in {"pydantic", "starlette", "numpy", "openpyxl"}))
    """
    assert blocked(script, tmp_path) == "[]\n"


def test_a_command_that_needs_an_extra_says_which(tmp_path: Path) -> None:
    script = """
        from pathlib import Path

        for words in ("up", "excel generate p --db r.db", "excel serve --db r.db", "security serve", "delphi run x",
                      "excel worker --burst --db r.db", "security worker --once", "security resume",
                      "delphi poller --burst"):
            code, output = run(*words.split())
            assert code == 1, (words, output)
            print(output.strip())
        assert list(Path().iterdir()) == []
    """
    assert blocked(script, tmp_path).splitlines() == [
        "Error: The dashboard needs starlette: pip install 'penstock[web]'",
        "Error: An Excel report needs pydantic: pip install 'penstock[systems]'",
        "Error: An Excel report needs pydantic: pip install 'penstock[systems]'",
        "Error: The security assistant needs fastapi: pip install 'penstock[systems]'",
        "Error: Delphi needs numpy: pip install 'penstock[delphi]'",
        "Error: An Excel report needs pydantic: pip install 'penstock[systems]'",
        "Error: The security assistant needs pypdf: pip install 'penstock[systems]'",
        "Error: The security assistant needs pypdf: pip install 'penstock[systems]'",
        "Error: Delphi needs numpy: pip install 'penstock[delphi]'",
    ]


def test_a_demo_that_was_asked_for_and_is_not_run_is_a_failure(tmp_path: Path) -> None:
    script = """
        for words in ("--only delphi", "--only delphi --only account-records", "--only account-records"):
            code, output = run("demo", *words.split())
            print(code, "numpy" in output)
    """
    assert blocked(script, tmp_path).splitlines() == ["1 True", "1 True", "0 False"]


def test_the_help_of_every_command_needs_no_extra(tmp_path: Path) -> None:
    script = """
        import click

        def pages(group, path=()):
            with click.Context(group) as context:
                for name in group.list_commands(context):
                    command = group.get_command(context, name)
                    yield (*path, name)
                    if isinstance(command, click.Group):
                        yield from pages(command, (*path, name))

        for path in pages(cli):
            code, output = run(*path, "--help")
            assert code == 0 and output.startswith("Usage: "), (path, output)
        print("help")
    """
    assert blocked(script, tmp_path) == "help\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [("penstock ", "plain,excel"), ("penstock excel ", "plain,generate"), ("penstock up --", "plain,--db")],
)
def test_completion_needs_no_extra(words: str, completed: str, tmp_path: Path) -> None:
    script = f"""
        import os
        os.environ.update(_PENSTOCK_COMPLETE="bash_complete", COMP_WORDS={words!r}, COMP_CWORD="{words.count(" ")}")
        cli.main(prog_name="penstock")
    """
    assert completed in blocked(script, tmp_path).splitlines()


def test_a_call_that_needs_an_extra_says_which(tmp_path: Path) -> None:
    script = """
        import penstock
        from penstock.client.wrappers.tracing import Tracing
        from penstock.errors import PenstockError
        from penstock.systems.security_assistant.drawing.pdf import read_drawing
        from penstock.systems.security_assistant.drawing.sample import Building
        from penstock.systems.security_assistant.drawing.schedule import read_schedule
        from penstock.registry import job_source_types, systems

        def api():
            import penstock.web.api

        db = penstock.connect(":memory:")
        for call in (
            api,
            lambda: Tracing(db.transport),
            lambda: read_drawing(Building(levels=1, doors=2).pdf()),
            lambda: read_schedule(b""),
        ):
            try:
                call()
            except PenstockError as error:
                print(error)
        print([one.name for one in systems().values() if one.missing_libraries])
        print(len(job_source_types()))
    """
    assert blocked(script, tmp_path).splitlines() == [
        "The HTTP API needs fastapi: pip install 'penstock[web]'",
        "Tracing needs opentelemetry: pip install 'penstock[otel]'",
        "The security assistant needs pypdf: pip install 'penstock[systems]'",
        "The security assistant needs openpyxl: pip install 'penstock[systems]'",
        "['delphi', 'excel-reports', 'security-assistant']",
        "6",
    ]


def test_commands_that_need_no_model_do_not_import_pydantic(tmp_path: Path) -> None:
    """It is installed here: it must not even be loaded, for a command's start is timed."""
    code = """if True:
        import sys
        from click.testing import CliRunner
        import penstock
        import penstock.engine.engine, penstock.server.server, penstock.jobs.worker.worker
        from penstock.cli.main import cli
        for words in ("jobs list --help", "serve --help", "worker --help", "tables --help", "up --help", "quickstart"):
            result = CliRunner().invoke(cli, words.split())
            assert result.exit_code == 0, result.output
        print([name for name in ("pydantic", "fastapi") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_a_library_of_ours_that_is_not_there_is_no_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"penstock\.nothing"), extra("web", "The dashboard"):
        import penstock.nothing  # noqa: F401


def test_an_extra_that_includes_another_names_itself() -> None:
    with pytest.raises(ExtraMissing) as error, extra("systems", "An Excel report"):
        require("no_such_library", extra="web", what="The HTTP API")
    assert str(error.value) == "An Excel report needs no_such_library: pip install 'penstock[systems]'"
    assert (error.value.library, error.value.install) == ("no_such_library", "pip install 'penstock[systems]'")


def test_what_is_missing_is_found_without_importing_it() -> None:
    assert missing("sys", "no_such_library", "json.tool") == ["no_such_library"]
