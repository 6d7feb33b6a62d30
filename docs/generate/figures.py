"""The tables of figures in docs/compare.md, from bench/results.json.

They stand between two comments of the page. `--check` does not ask for them: figures are renewed on a machine that is
idle, the tables tell when, and a page with the figures of the run before is not wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

Figures = dict[str, float]

_PLACE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_SERVERS = {
    "dynamodb-local": "DynamoDB Local",
    "dynoxide": "Dynoxide",
    "dynalite": "dynalite",
    "moto": "moto",
    "ministack": "ministack",
}
_LOADS = ("GetItem", "PutItem", "Query of 100", "BatchWriteItem of 25")
_JOBS = {
    "huey": "Huey",
    "rq": "RQ",
    "celery-prefork": "Celery",
    "dramatiq": "Dramatiq",
    "arq": "arq",
    "procrastinate": "Procrastinate",
    "dbos": "DBOS",
}
_CLIENTS = {
    "boto3": "boto3",
    "aiobotocore": "aiobotocore",
    "pynamodb": "PynamoDB",
    "aiodynamo": "aiodynamo",
    "pydynox": "pydynox",
}
_CALLS = {"GetItem": "GetItem", "PutItem": "PutItem", "BatchWriteItem": "batch of 25", "Query": "Query of 250"}


def with_figures(page: str, results: Path) -> str:
    """The page with the tables of the last run."""
    sections = {one["name"]: one for one in json.loads(results.read_text(encoding="utf-8"))["sections"]}
    makers: dict[str, Callable[[], list[str]]] = {
        "engines": lambda: _engines(_of(sections, "http"), _of(sections, "footprint"), _when(sections, "http")),
        "jobs": lambda: _jobs(_of(sections, "jobs"), _when(sections, "jobs")),
        "clients": lambda: _clients(_of(sections, "clients"), _when(sections, "clients")),
    }
    return _PLACE.sub(lambda found: found[1] + "\n".join(makers[found[2]]()) + "\n" + found[3], page)


def _of(sections: dict[str, dict[str, Figures]], name: str) -> Figures:
    return sections.get(name, {}).get("figures", {})


def _when(sections: dict[str, dict[str, str]], name: str) -> str:
    return str(sections.get(name, {}).get("measured", "")).partition(" ")[0]


def _engines(http: Figures, starts: Figures, when: str) -> list[str]:
    rows = [
        [
            name,
            *(_times(http, f"{load}/penstock", f"{load}/{key}") for load in _LOADS),
            _seconds(starts, f"start/{key}"),
        ]
        for key, name in _SERVERS.items()
    ]
    ours = ["Penstock itself", *["1"] * len(_LOADS), _seconds(starts, "start/penstock")]
    return _table([f"times faster than, {when}", *_LOADS, "starts in"], [*rows, ours])


def _jobs(jobs: Figures, when: str) -> list[str]:
    rows = [
        [
            name,
            *(_times(jobs, f"{what}/penstock", f"{what}/{key}") for what in ("enqueued", "executed")),
            _end(jobs, key),
        ]
        for key, name in _JOBS.items()
    ]
    ours = ["Penstock itself", "1", "1", _end(jobs, "penstock")]
    heads = [f"times faster than, {when}", "enqueued", "executed", "a killed worker's job continues after"]
    return _table(heads, [*rows, ours])


def _end(jobs: Figures, key: str) -> str:
    if jobs.get(f"completions/{key}", 0) < 1:
        return "not within a minute"
    return _seconds(jobs, f"resumed/{key}")


def _clients(clients: Figures, when: str) -> list[str]:
    rows = [
        [name, *(_times(clients, f"{call}/{key}/cpu", f"{call}/penstock-table/cpu") for call in _CALLS)]
        for key, name in _CLIENTS.items()
    ]
    return _table([f"times our CPU, {when}", *_CALLS.values()], rows)


def _times(figures: Figures, above: str, below: str) -> str:
    if not figures.get(above) or not figures.get(below):
        return "–"
    return _digits(figures[above] / figures[below])


def _seconds(figures: Figures, key: str) -> str:
    return f"{_digits(figures[key])} s" if key in figures else "–"


def _digits(value: float) -> str:
    """Two digits that mean something: what a busy machine leaves of a ratio."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)]
