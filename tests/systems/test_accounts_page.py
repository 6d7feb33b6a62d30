"""docs/account-records.md says what is so: its commands and examples print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from played_page import played

from penstock.systems.account_records.config import DEFAULTS

PAGE = Path(__file__).parents[2] / "docs" / "account-records.md"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\d{3}Z")


def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (*DEFAULTS, "PENSTOCK_URL"):
        monkeypatch.delenv(name, raising=False)
    text = PAGE.read_text()
    assert MOMENT.sub("…", played(text)) == MOMENT.sub("…", text)
