"""What the tests of Delphi share: our own conversation, and a run of it in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from penstock.jobs.app import App
from penstock.systems.delphi.analysis.topics import KeywordNamer, Topic
from penstock.systems.delphi.pipeline import Delphi
from penstock.systems.delphi.results import Results
from penstock.systems.delphi.tables import RANGES

SAMPLE = Path(str(files("penstock.systems.delphi"))) / "sample" / "comments.csv"
TIMES = ("processed_date", "created_at")
"""What two runs of one conversation may differ in."""


class DeadlyNamer(KeywordNamer):
    """Ends its process as a power cut would, at the fifth name."""

    def __init__(self) -> None:
        self._named = 0

    def name(self, topic: Topic, comments: Sequence[str]) -> str:
        self._named += 1
        if self._named == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().name(topic, comments)


def everything(results: Results, job_id: str) -> dict[str, list[dict[str, Any]]]:
    """All items of a job, without times."""
    return {
        table: [{name: item[name] for name in item if name not in TIMES} for item in results.of_job(table, job_id)]
        for table in RANGES
    }


def main(database: str, job_id: str, how: str) -> None:
    with App(database) as app:
        delphi = Delphi(app.store, DeadlyNamer() if how == "killed" else KeywordNamer())
        report = delphi.run(SAMPLE, conversation_id="town", job_id=job_id, lease_seconds=2, wait_seconds=120)
    print(",".join(report.ran), ",".join(report.reused))


if __name__ == "__main__":
    main(*sys.argv[1:])
