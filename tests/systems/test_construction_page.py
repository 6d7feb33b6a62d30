"""docs/construction-expenses.md says what is so: its commands and examples print what stands below them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from played_page import played

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
