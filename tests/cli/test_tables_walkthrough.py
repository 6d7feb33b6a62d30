"""docs/tables-walkthrough.md: its files are written, its commands run, and their output is what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "tables-walkthrough.md"


def test_the_page_shows_what_really_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ENVIRONMENT", "TABLE_PREFIX", "AWS_REGION", "PENSTOCK_URL"):
        monkeypatch.delenv(name, raising=False)
    text = PAGE.read_text()
    assert played(text) == text


def played(page: str) -> str:
    """The page with the output of its commands as it is now."""
    return re.sub(r"^```(python|console)\n(.*?)^```$", _block, page, flags=re.MULTILINE | re.DOTALL)


def _block(found: re.Match[str]) -> str:
    kind, body = found[1], found[2]
    if kind == "python":
        name = body.split("\n", 1)[0].removeprefix("# ")
        Path(name).write_text(body)
        return found[0]
    return f"```console\n{''.join(_console(body))}```"


def _console(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n{_output(shlex.split(line[2:]))}"


def _output(words: list[str]) -> str:
    match words:
        case ["penstock", *arguments]:
            return CliRunner().invoke(cli, arguments, prog_name="penstock").output
        case ["python", script]:
            return subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout
        case ["cat", file]:
            return Path(file).read_text()
        case _:
            raise AssertionError(f"the page has a command that is not known here: {words}")
