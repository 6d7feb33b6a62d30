"""Task modules that a worker discovers: which are imported, and what is said of one that cannot be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock import user_modules
from penstock.errors import PenstockError
from penstock.user_modules import import_task_modules, load_attribute

JOBS = "import penstock\napp = penstock.App(':memory:', discover='{package}')\n"
TASK = "from {package}.jobs import app\n\n@app.task()\ndef {name}() -> int:\n    return 1\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A package with a name of its own, with its app in `jobs` and no tasks yet."""
    name = f"shop_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "jobs.py").write_text(JOBS.format(package=name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def add(package: Path, place: str, text: str) -> None:
    file = package / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def task(package: Path, name: str) -> str:
    return TASK.format(package=package.name, name=name)


def test_a_worker_imports_the_task_modules_of_a_package_and_of_those_below(package: Path) -> None:
    add(package, "tasks.py", task(package, "one"))
    add(package, "billing/__init__.py", "")
    add(package, "billing/tasks.py", task(package, "two"))
    add(package, "without_init/tasks.py", task(package, "three"))
    add(package, "mail/tasks/__init__.py", task(package, "four"))
    add(package, "mail/other.py", "raise RuntimeError('no task module: nobody imports it')")
    add(package, "data-2026/tasks.py", "raise RuntimeError('no package')")
    app = sys.modules.get(f"{package.name}.jobs") or __import__(f"{package.name}.jobs", fromlist=["app"])
    assert app.app.tasks == {}
    jobs: penstock.App = app.app
    penstock.Worker(jobs, burst=True).run()
    assert sorted(jobs.tasks) == ["four", "one", "three", "two"]
    penstock.Worker(jobs, burst=True)  # a second one imports nothing twice
    jobs.close()


def test_a_task_module_that_cannot_be_imported_is_named_with_its_line(package: Path) -> None:
    add(package, "billing/tasks.py", "import datetime\nimport no_such_library\n")
    with pytest.raises(penstock.PenstockError) as raised:
        import_task_modules(package.name)
    assert str(raised.value).startswith(f"{package.name}.billing.tasks cannot be imported:")
    assert "line 2" in str(raised.value) and "No module named 'no_such_library'" in str(raised.value)


def test_a_library_whose_name_begins_like_the_module_is_what_is_missing(package: Path) -> None:
    add(package, "tasks.py", f"import {package.name[:4]}\n")
    with pytest.raises(penstock.PenstockError, match=r"tasks cannot be imported"):
        import_task_modules(package.name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package", "There is no module no_such_package"),
        ("{package}.jobs", "is a module, not a package"),
        ("{package}", "There is no module named tasks in"),
    ],
)
def test_a_package_without_tasks_is_refused(package: Path, name: str, message: str) -> None:
    with pytest.raises(penstock.PenstockError, match=message):
        import_task_modules(name.format(package=package.name))


def test_a_package_with_too_many_folders_is_refused(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_modules, "_MOST_FOLDERS", 2)
    add(package, "a/b/c.py", "")
    with pytest.raises(penstock.PenstockError, match="name a package further down"):
        import_task_modules(package.name)


def test_the_word_of_celery_is_answered_with_ours() -> None:
    with pytest.raises(AttributeError, match="discover='myproject'"):
        penstock.App(":memory:").autodiscover_tasks()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("./{0}/jobs.py", "write {0}.jobs."),
        ("{0}/jobs", "write {0}.jobs."),
        ("../other/jobs.py", "write jobs in ../other, or with PYTHONPATH=../other."),
        ("top.py", "write top."),
    ],
)
def test_a_file_instead_of_a_module_is_told_what_to_write(package: Path, given: str, told: str) -> None:
    Path("top.py").touch()
    name = given.format(package.name)
    with pytest.raises(PenstockError) as caught:
        load_attribute(f"{name}:app", what="app", example="reports:app")
    assert str(caught.value) == f"{name} is a file; a module has its name with dots: {told.format(package.name)}"
