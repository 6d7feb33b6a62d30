"""The public suite against our server: `python -m bench conformance --suite DIR`.

The suite is a checkout that you have, installed with npm; nothing of it is kept here.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from bench.options import Options
from bench.report import Section, Table
from bench.servers import Subject, find_peers, penstock, running

LIMIT_SECONDS = 1800


def run(options: Options) -> Section:
    suite = options.suite
    if suite is None:
        raise SystemExit("give --suite DIR, a checkout of the suite; README.md says how to get it")
    runner = suite / "node_modules" / ".bin" / "vitest"
    if not runner.exists():
        raise SystemExit(f"{runner} does not exist: run `npm install` in the suite's folder")
    subjects = {"penstock, file": penstock(), "penstock, memory": penstock(memory=True)}
    peers, missing = find_peers(options)
    subjects.update({peer.name: peer for peer in peers if peer.name in options.against})
    columns = ["server", "passed", "failed", "skipped", "tier 1", "tier 2", "tier 3"]
    table = Table(f"The suite in {suite.resolve().name}", columns)
    section = Section("conformance", "Conformance", [table])
    section.missing = [name for name in options.against if name in missing]
    for name, subject in subjects.items():
        try:
            outcomes, failures = _run(suite.resolve(), subject)
        except RuntimeError as error:
            section.notes.append(f"{name}: could not be measured ({str(error).strip().splitlines()[-1][:200]}).")
            continue
        table.rows.append(_row(name, outcomes))
        section.figures[f"passed/{name}"] = sum(n for (_, ended), n in outcomes.items() if ended == "passed")
        if subject.name == "penstock":
            section.notes += [f"{name} fails: {failure}" for failure in failures]
    return section


def _run(suite: Path, subject: Subject) -> tuple[Counter[tuple[str, str]], list[str]]:
    """How many tests of each tier ended how, and the names of those that failed."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        result = Path(directory) / "result.json"
        with running(subject, Path(directory) / "data") as server:
            words = ["node_modules/.bin/vitest", "run", "--reporter=json", f"--outputFile={result}"]
            credentials = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
            subprocess.run(
                words,
                cwd=suite,
                env={**os.environ, **credentials, "DYNAMODB_ENDPOINT": server.url},
                capture_output=True,
                timeout=LIMIT_SECONDS,
                check=False,
            )
        files = json.loads(result.read_text())["testResults"]
    outcomes: Counter[tuple[str, str]] = Counter()
    failures = []
    for file in files:
        tier = file["name"].rpartition("/tests/")[2].split("/")[0]
        for test in file["assertionResults"]:
            outcomes[tier, test["status"]] += 1
            if test["status"] == "failed":
                failures.append(test["fullName"])
    return outcomes, failures


def _row(name: str, outcomes: Counter[tuple[str, str]]) -> list[str]:
    def total(status: str) -> int:
        return sum(number for (_, ended), number in outcomes.items() if ended == status)

    def tier(number: int) -> str:
        ran = sum(counted for (place, _), counted in outcomes.items() if place == f"tier{number}")
        return f"{outcomes[f'tier{number}', 'passed']} of {ran}"

    skipped = total("skipped") + total("pending")
    return [name, str(total("passed")), str(total("failed")), str(skipped), tier(1), tier(2), tier(3)]
