"""docs/security-assistant.md says what is so: its commands and its example print what stands below them."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner
from security_world import BUILDING, storage_of

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.jobs.model.state import State
from penstock.systems.security_assistant import demo as demo_module
from penstock.systems.security_assistant.demo import ask_model, demo

PAGE = (Path(__file__).parents[3] / "docs" / "security-assistant.md").read_text()
JOB = re.compile(r"job_[a-z0-9]+_[a-z0-9]{6}")
VARYING = (
    (JOB, "JOB"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\s+[\d.]+ (s|ms)  "), " TOOK  "),
    (re.compile(r"size \d+|13,\d\d\d bytes"), "SIZE"),
)


def in_order(text: str) -> str:
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("STORAGE_MODE", "LOCAL_OUTPUT_DIR", "PENSTOCK_DB", "PENSTOCK_FILES", "DYNAMODB_TABLE"):
        monkeypatch.delenv(name, raising=False)
    console = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    job = ""
    for part in console.split("$ penstock ")[1:]:
        command, expected = part.split("\n", 1)
        told = CliRunner().invoke(cli, shlex.split(JOB.sub(job, command)))
        assert in_order(told.output) == in_order(expected), command
        found = JOB.search(told.output)
        job = job or (found.group() if found else "")
    ((code, expected),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, flags=re.DOTALL)
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(code, "security-assistant.md", "exec"), {})
    assert said.getvalue() == expected


def test_the_showing_runs_twice_on_one_database(tmp_path: Path) -> None:
    told: list[float] = []
    with connect(str(tmp_path / "demo.db")) as db:
        demo(db, tmp_path, lambda part, text: told.append(part))
        facts = demo(db, tmp_path, lambda part, text: told.append(part))
    assert told[-1] == 1.0 and told[: len(told) // 2] == sorted(told[: len(told) // 2])
    assert (facts["completed"], facts["workers for the first"], facts["stages done twice"]) == (3, 5, 0)
    assert (facts["jobs of 7central"], facts["in jobs.json"]) == (4, 6)
    assert Path(str(facts["schedule"])).read_bytes().startswith(b"PK")
    assert re.fullmatch(
        r"context stage: 2 lines, 1 fact, 1 requirement; 1 request, \d+ tokens", str(facts["a language model as agent"])
    )


def test_a_stage_of_the_showing_is_a_language_models(tmp_path: Path) -> None:
    with storage_of("local", tmp_path) as storage:
        job, told = ask_model(storage, "acme", BUILDING)
    assert job.state is State.COMPLETED
    assert job.metadata["token_usage"]["by_agent"]["context"] > 0, "a model's answer has its cost; the rules' has none"
    assert told.endswith("tokens")


def test_without_the_extra_the_showing_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "missing", lambda *modules: list(modules))
    with storage_of("local", tmp_path) as storage:
        job, told = ask_model(storage, "acme", BUILDING)
    assert (job.state, told) == (State.COMPLETED, "not run: pip install 'penstock[models]'")
