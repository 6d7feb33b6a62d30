"""docs/pipelines.md says what is so: its examples print what stands below them."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
VARYING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z| *\d+\.\d s")
"""Moments, and how long steps took."""


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORDS_JOB_ID", "words_1")
    names: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(examples) == PAGE.count("```python")
    try:
        for code, expected in examples:
            said = io.StringIO()
            with redirect_stdout(said):
                exec(compile(code, "pipelines.md", "exec"), names)
            assert VARYING.sub("…", said.getvalue()) == VARYING.sub("…", expected)
    finally:
        for name in ("store", "app"):
            if name in names:
                getattr(names[name], "store", names[name]).db.close()
