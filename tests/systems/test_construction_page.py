"""docs/construction-expenses.md says what is so: its commands and examples print what stands below them."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "construction-expenses.md"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
EVENT = {
    "event_id": "evt_01",
    "event_type": "subscription.updated",
    "occurred_at": "2025-06-16T21:19:33.789Z",
    "data": {"id": "sub_7", "customer_id": "sample-ctm-0001", "status": "past_due"},
}


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ENVIRONMENT", "TABLE_PREFIX", "AWS_REGION", "PENSTOCK_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "event.json").write_text(json.dumps(EVENT, indent=1) + "\n")
    text = PAGE.read_text()
    assert MOMENT.sub("…", played(text)) == MOMENT.sub("…", text)


def played(page: str) -> str:
    """The page with the output of its commands and examples as it is now."""
    names: dict[str, object] = {}

    def block(found: re.Match[str]) -> str:
        if found["console"] is not None:
            return f"```console\n{''.join(_console(found['console']))}```"
        return f"```python\n{found['code']}```\n\n```\n{_printed(found['code'], names)}```"

    console = r"^```console\n(?P<console>.*?)^```$"
    python = r"^```python\n(?P<code>.*?)^```\n\n```\n.*?^```$"
    return re.sub(f"{console}|{python}", block, page, flags=re.MULTILINE | re.DOTALL)


def _printed(code: str, names: dict[str, object]) -> str:
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(code, PAGE.name, "exec"), names)
    return said.getvalue()


def _console(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n{_output(shlex.split(line[2:]))}"


def _output(words: list[str]) -> str:
    run: dict[str, Callable[[list[str]], str]] = {
        "penstock": lambda rest: CliRunner().invoke(cli, rest, prog_name="penstock").output,
        "cat": lambda rest: Path(rest[0]).read_text(),
    }
    return run[words[0]](words[1:])
