"""`python -m bench` as people call it, on the smallest plan there is."""

import ast
import importlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )


def test_help_lists_every_section() -> None:
    done = bench("--help")
    assert done.returncode == 0
    for name in ("http", "growth", "jobs", "--quick", "--peers", "python -m bench kills"):
        assert name in done.stdout


def test_a_section_that_is_not_there_is_named_with_those_that_are() -> None:
    done = bench("htpp")
    assert done.returncode == 2
    assert "'htpp' is no section; there are http, synced" in done.stderr


def test_one_section_runs_and_is_saved_where_it_is_asked_for(tmp_path: Path) -> None:
    done = bench("tables", "--set", "rounds=1", "--set", "index_seconds=0.02", "--save", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "13 tables on the embedded engine" in done.stdout
    (section,) = json.loads((tmp_path / "results.json").read_text())["sections"]
    assert section["figures"]["tables"] == 13
    assert section["command"] == "python -m bench tables --set rounds=1 --set index_seconds=0.02"
    assert "| 13 tables planned, applied and verified" in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["walks", "--set", "runs=1"], "| `put-item`"),
        (["migrations", "--set", "items=200"], "200 changed of 200 items"),
        (["tail", "--quick", "--only", "penstock"], "| penstock"),
    ],
)
def test_a_small_section_runs(words: list[str], shown: str) -> None:
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_a_section_that_cannot_be_measured_ends_with_1_and_says_why() -> None:
    done = bench("conformance")
    assert done.returncode == 1
    assert "give --suite DIR" in done.stderr


@pytest.mark.parametrize(
    "part", ["get", "put", "stream-put", "query", "http-get", "http-put", "enqueue", "job", "record"]
)
def test_what_is_counted_under_valgrind_runs_without_it_too(part: str) -> None:
    words = [sys.executable, "-m", "bench.instructions", "--run", part, "14"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_part_that_is_not_there_is_named_with_those_that_are() -> None:
    words = [sys.executable, "-m", "bench.instructions", "gets"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "there is no part gets: choose from get, put, stream-put, query, http-get" in done.stderr


def test_every_section_finds_the_names_that_it_imports() -> None:
    """A section that nobody has run for a while fails with the first name that was changed since."""
    for path in sorted((ROOT / "bench").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("penstock"):
                continue
            found = importlib.import_module(node.module or "")
            for name in (one.name for one in node.names):
                is_there = hasattr(found, name) or find_spec(f"{node.module}.{name}") is not None
                assert is_there, f"{path.name} imports {name} from {node.module}, which has none"
