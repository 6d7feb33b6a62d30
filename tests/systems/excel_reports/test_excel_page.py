"""docs/excel-reports.md says what is so: its example and its commands print what stands below them."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.systems.excel_reports.book.template import ColumnTemplate, SheetTemplate, read_template

PAGE = (Path(__file__).parents[3] / "docs" / "excel-reports.md").read_text()
JOB = re.compile(r"job_[0-9a-z]{8}_[0-9a-z]{6}")
VARYING = re.compile(
    r"job_[0-9a-z]{8}_[0-9a-z]{6}|\d{4}-\d\d-\d\dT[\d:.]+Z|file://\S+|_\d{4}-\d\d-\d\d\.xlsx|fileSize[= ][\d,]+"
    r"|made in (\d+[hms] ?)+"
)


def test_the_example_prints_what_it_says() -> None:
    ((code, expected),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, flags=re.DOTALL)
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(code, "excel-reports.md", "exec"), {})
    assert re.sub(r"completed \ds", "completed 0s", said.getvalue()) == expected


def test_the_commands_print_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("JOBS_TABLE", "JOB_TTL_HOURS", "PENSTOCK_FILES", "PENSTOCK_DB"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "data").mkdir()
    (csv,) = re.findall(r"```\n(sku,name.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "data" / "products.csv").write_text(csv)
    consoles = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    made = ""
    for part in "".join(consoles).split("$ penstock ")[1:]:
        command, expected = part.split("\n", 1)
        told = CliRunner().invoke(cli, shlex.split(JOB.sub(made, command)))
        assert VARYING.sub("…", told.output) == VARYING.sub("…", expected), command
        if command.startswith("excel generate"):
            made = JOB.search(told.output)[0]  # type: ignore[index]


def test_the_template_that_is_shown_is_one(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "report.toml").write_text(shown)
    template = read_template(tmp_path / "report.toml")
    assert set(ColumnTemplate.model_fields) - {"above"} == set(template.sheets[0].columns[0].model_fields_set)
    assert set(SheetTemplate.model_fields) == set(template.sheets[0].model_fields_set)
