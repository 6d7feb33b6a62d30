"""docs/files.md says what is so: its examples and commands print what stands below them."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    examples = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(examples) == 4
    for code, expected in examples:
        said = io.StringIO()
        with redirect_stdout(said):
            exec(compile(code, "files.md", "exec"), names)
        assert said.getvalue() == expected
    (console,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    for part in console.split("$ penstock ")[1:]:
        command, expected = part.split("\n", 1)
        told = CliRunner().invoke(cli, shlex.split(command))
        assert MOMENT.sub("…", told.output) == MOMENT.sub("…", expected), command
