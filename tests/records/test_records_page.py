"""docs/records.md says what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from penstock import records
from penstock.client.database import connect
from penstock.systems.account_records.tables import tables
from penstock.tables.apply.apply import make

PAGE = (Path(__file__).parents[2] / "docs" / "records.md").read_text()


def test_the_first_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    example = next(one for one in examples if one.startswith("# billing.py"))
    (tmp_path / "billing.py").write_text(example)
    with connect(tmp_path / "billing.db") as db:
        make(db, tables("compat")[1], "Records")
        for number in range(1, 21):
            at = str(date(2026, 1, 1) + timedelta(days=number - 1))
            price = {} if number == 3 else {"price": number}
            db.table("Records").put({"AccountId": f"a{number % 9}", "RunTime": at, "Processed": 0, **price})
    command = [sys.executable, "billing.py"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert answer.stdout in PAGE, answer.stderr
    assert answer.stdout.startswith("19 done, 1 failed\n")


def test_the_names_of_records_are_there() -> None:
    for name in records.__all__:
        assert getattr(records, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        records.nothing  # noqa: B018
