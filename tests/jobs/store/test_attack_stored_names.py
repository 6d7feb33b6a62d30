"""What is stored runs nothing: no name in a job imports, no text becomes an option, no bytes become objects."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import penstock
from penstock.jobs.model.job import Job, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import Worker
from penstock.systems.delphi.queue.poller import JobQueue

SOURCES = Path(penstock.__file__).parent


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[penstock.App]:
    """One that knows a single task, beside a module that says when it is imported."""
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\ndef run(*a, **b): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with penstock.App(str(tmp_path / "jobs.db")) as made:

        @made.task()
        def known(ctx: penstock.JobContext) -> str:
            return "done"

        yield made


def test_the_name_of_a_jobs_task_imports_nothing(app: penstock.App, tmp_path: Path) -> None:
    known = app.store.create(NewJob("known", {}))[0]
    table = app.store.db.table(app.store.db.execute("ListTables", {})["TableNames"][0])
    strange: list[Job] = []
    for name in ("planted:run", "planted.run", "planted", "os:system", "builtins.eval"):
        made = app.store.create(NewJob("known", {"a": name}))[0]
        # As whoever can write to the table would: past all checks of ours.
        for item in list(table.scan()):
            if made.id in str(item.values()):
                changed = {key: name if value == "known" else value for key, value in item.items()}
                table.put(changed)
        strange.append(made)
    Worker(app, burst=True, idle_seconds=0.05, concurrency=1).run()
    assert app.get(known.id).state is State.COMPLETED
    assert all(app.get(job.id).state is not State.COMPLETED for job in strange)
    assert not (tmp_path / "imported").exists()
    assert "planted" not in sys.modules


@pytest.mark.parametrize("comments", ["--namer=planted:run", "--help", "-h", "--", "--db=http://evil.example", "a b;c"])
def test_a_job_of_delphi_gives_its_child_a_files_name_and_no_option(tmp_path: Path, comments: str) -> None:
    queue = JobQueue(str(tmp_path / "delphi.db"))
    try:
        command = queue._pipeline_command("j1", {"comments": comments, "conversation_id": "c", "seed": "--namer"})
    finally:
        queue.close()
    assert command[-2:] == ["--", comments]


# ── our own sources ──

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MEMBERS = {
    ("os", "system"), ("os", "popen"), ("pickle", "load"), ("pickle", "loads"), ("marshal", "load"),
    ("marshal", "loads"),
    ("yaml", "load"), ("yaml", "unsafe_load"), ("shelve", "open"), ("tempfile", "mktemp"), ("subprocess", "getoutput"),
    ("cloudpickle", "load"), ("cloudpickle", "loads"), ("joblib", "load"), ("dill", "loads"),
}  # fmt: skip
IMPORTERS = {  # who imports by a name that is not written there: tables of our own modules, and the command line's word
    "__init__.py", "records/__init__.py", "engine/maintenance.py", "engine/operations/__init__.py",
    "cli/kit/groups.py", "registry.py", "testing/__init__.py", "entry_points.py",
    "systems/delphi/analysis/libraries.py", "user_modules.py",
}  # fmt: skip


# Only files with one of these words are parsed: it takes a tenth of the time.
SUSPICIOUS = re.compile(
    r"(?<![\w.])(eval|exec|compile|__import__)\(|import_module|pickle|marshal|yaml|shelve|mktemp|joblib|dill"
    r"|os\.(system|popen)|getoutput|shell"
)


@cache
def calls() -> list[tuple[str, ast.Call]]:
    return [
        (path.relative_to(SOURCES).as_posix(), node)
        for path in sorted(SOURCES.rglob("*.py"))
        if SUSPICIOUS.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]


def _is_forbidden(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in FORBIDDEN_CALLS:
        return True
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        member = (call.func.value.id, call.func.attr)
        if member in FORBIDDEN_MEMBERS:
            return True
    allowed = [word for word in call.keywords if word.arg in ("shell", "allow_pickle")]
    return any(ast.unparse(word.value) != "False" for word in allowed)


def test_no_source_of_ours_makes_code_or_objects_of_data() -> None:
    assert [f"{file}:{call.lineno}" for file, call in calls() if _is_forbidden(call)] == []


def test_names_are_imported_only_where_they_are_our_own_or_the_command_lines() -> None:
    found = {
        file
        for file, call in calls()
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "import_module"
        and not (call.args and isinstance(call.args[0], ast.Constant))
    }
    assert found <= IMPORTERS
