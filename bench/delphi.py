"""Delphi's write stage, `python -m bench delphi`: vectors and graph into their tables.

What the pipeline does (`Results.write`: looks for leftovers, then the client's batch writer; packed vectors, whose
index has keys only) is measured beside boto3's batch writer with vectors as lists of numbers and an index on all
attributes, as the seed has it. Both on the embedded engine in a file, and over HTTP to `penstock serve` in a process of
its own. CPU is that of the writing process.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3

import penstock
from bench.options import Options
from bench.report import Section, Table, count
from bench.sections import alone
from penstock.client.database import Database
from penstock.systems.delphi import tables
from penstock.systems.delphi.analysis.clusters import Layers
from penstock.systems.delphi.analysis.projection import Edge, Projection
from penstock.systems.delphi.converter import DataConverter
from penstock.systems.delphi.results import EMBEDDINGS, GRAPH, Results
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.definition import Naming
from penstock.tables.plan.survey import survey

DIMENSIONS = 384
"""As MiniLM has; the default embedder has up to 512."""
NEIGHBORS = 8
TITLES = {"penstock": "penstock delphi (packed, batch)", "boto3": "boto3 batch_writer, number lists"}


@dataclass(frozen=True)
class Plan:
    comments: int
    rounds: int


PLANS = {"full": Plan(comments=2_000, rounds=2), "quick": Plan(comments=60, rounds=1)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    items = made(plan.comments)
    number = sum(map(len, items.values()))
    table = Table(f"{number:,} items", ["", "", "seconds", "items a second", "µs of CPU an item"])
    section = Section("delphi", "Delphi's write stage", [table])
    for where, place in (("embedded", in_a_file), ("HTTP", served)):
        for how, layout, write in (
            ("penstock", "safe", ours),
            ("boto3", "compat", theirs),
        ):
            seconds, cpu = min(measured(place, layout, write, items) for _ in range(plan.rounds))
            section.figures |= {f"cpu/{where}/{how}": 1e6 * cpu / number, f"rate/{where}/{how}": number / seconds}
            cells = [f"{seconds:.2f}", count(number / seconds), f"{1e6 * cpu / number:.0f}"]
            table.rows.append([where, TITLES[how], *cells])
    sizes = ", ".join(f"{len(some):,} items of {name}" for name, some in items.items())
    section.notes.append(
        f"{plan.comments:,} comments: {sizes}; vectors of {DIMENSIONS} dimensions. Best of {plan.rounds}. CPU is that "
        "of the writing process."
    )
    return section


def made(comments: int) -> dict[str, list[dict[str, Any]]]:
    """The items of a run: invented, with the sizes of real ones."""
    chance = random.Random(1)
    vectors = [[chance.gauss(0, 0.05) for _ in range(DIMENSIONS)] for _ in range(comments)]
    pairs = sorted({tuple(sorted(chance.sample(range(comments), 2))) for _ in range(comments * NEIGHBORS)})
    edges = tuple(Edge(first, second, chance.random(), chance.random(), False) for first, second in pairs)
    positions = tuple((chance.gauss(0, 5), chance.gauss(0, 5)) for _ in range(comments))
    labels = tuple(chance.randrange(40) for _ in range(comments))
    layers = Layers((labels,), ((1.0,) * comments,))
    ids = range(comments)
    graph = DataConverter.batch_convert_umap_edges("c", ids, Projection(positions, edges, {}), layers, job_id="j")
    return {
        EMBEDDINGS: DataConverter.batch_convert_embeddings("c", ids, vectors, model="m", job_id="j"),
        GRAPH: graph,
    }


def measured(
    place: Callable[[Path], Any], layout: Any, write: Callable[[Database, Any], None], items: Any
) -> tuple[float, float]:
    """Seconds, and CPU seconds of this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "delphi.db"
        with place(path) as url, penstock.connect(url) as db:
            apply(db, survey(db, tables.tables(layout), Naming(prefix="")))
            began, used = time.perf_counter(), time.process_time()
            write(db, items)
            seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return seconds, cpu


def ours(db: Database, items: dict[str, list[dict[str, Any]]]) -> None:
    results = Results(db)
    for table, some in items.items():
        results.write("j", table, some)


def theirs(db: Database, items: dict[str, list[dict[str, Any]]]) -> None:
    """As programs of this kind do: every component a Decimal, every item through the resource's batch writer."""
    resource = _resource(db.name)
    for name, some in items.items():
        with resource.Table(name).batch_writer() as batch:
            for item in some:
                batch.put_item(Item=_decimals(item))


def _resource(url: str) -> Any:
    if "://" not in url:
        return penstock.boto3_resource(url)
    return boto3.resource(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def _decimals(value: Any) -> Any:
    if isinstance(value, bytes):
        from penstock.systems.delphi.analysis.embeddings import unpack_vector

        return [Decimal(str(component)) for component in unpack_vector(value, len(value) // 4)]
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {name: _decimals(one) for name, one in value.items()}
    return [_decimals(one) for one in value] if isinstance(value, list) else value


@contextmanager
def in_a_file(path: Path) -> Iterator[str]:
    yield str(path)


@contextmanager
def served(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--db", str(path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "http://" in line:
                break
        yield "http://" + line.partition("http://")[2].split()[0].rstrip(".,")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    alone("delphi")
