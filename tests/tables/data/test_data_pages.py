"""docs/rekey.md and docs/moving-data.md say what is so: their commands print what stands below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli

DOCS = Path(__file__).parents[3] / "docs"
ARN = re.compile(r"arn:aws:[\w:/-]+")
MADE = re.compile(r"made \S+Z")
BYTES = re.compile(r"[\d,]+ bytes")  # zlib's versions compress differently


@pytest.mark.parametrize("page", ["rekey.md", "moving-data.md"])
def test_the_commands_print_what_the_page_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    (setup,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(setup, page, "exec"), {})
    arn, shown = "", 0
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for part in block.split("$ penstock ")[1:]:
            command, expected = part.split("\n", 1)
            told = CliRunner().invoke(cli, shlex.split(command.replace("arn:aws:…", arn)))
            found = ARN.search(told.output)
            arn = found.group() if found else arn
            assert _steady(told.output) == _steady(expected)
            shown += 1
    assert shown > 2


def _steady(text: str) -> str:
    return MADE.sub("made", BYTES.sub("N bytes", ARN.sub("arn:aws:…", text)))
