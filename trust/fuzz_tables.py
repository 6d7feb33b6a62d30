"""What `trust.fuzz` does with definitions, their files, migrations and files of items.

What is read has to be of use: a definition is planned, shown and examined, and written in every format; our own must
give the same text again.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from penstock.tables.data.item_text import csv_lines, line_of, read_csv, read_items
from penstock.tables.definitions.definition import Index, Maximum, Naming, Table, Throughput, VectorIndex
from penstock.tables.definitions.export_file import export_text, read_export
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.readers.definition_file import read_definition_file
from penstock.tables.doctor import examine
from penstock.tables.formats import cloudformation, python_source, terraform
from penstock.tables.migrations.migration import load_folder
from penstock.tables.plan.plan import plan_of, plan_table
from penstock.tables.plan.render import render_text
from penstock.tables.plan.saved_plan import Place, SavedPlan, read_saved_plan, saved_text
from penstock.tables.plan.survey import Survey, survey_table
from trust.fuzz_seeds import POLICY


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="penstock-fuzz-"))


def sample_hcl() -> bytes:
    return terraform.template_text([_sample()], Naming()).encode()


def sample_plan() -> bytes:
    surveyed = Survey((survey_table("jobs", _sample(), None),), Naming())
    place = Place("jobs.db", "jobs.db", "us-east-1")
    return saved_text(SavedPlan(surveyed, place, "mytables:all", "", "", "", "")).encode()


def _sample() -> Table:
    indexes = [Index("by-g", "g:S", "h:N", projection=["a"]), Index("local", "pk:S", "h:N", local=True)]
    near = VectorIndex("near", "v", dimensions=4, partition="p:S")
    table = Table("jobs", ("pk:S", "sk:N"), indexes=indexes, ttl="t", tags={"a": "b"}, sse="alias/x", pitr=7)
    return table.replace(vector_indexes=[near], on_demand_max=Maximum(5, None), resource_policy=POLICY)


def read_stack(data: bytes) -> None:
    """A CloudFormation template in YAML."""
    _read_file("stack.yaml", data)


def read_json(data: bytes) -> None:
    """A template, what `terraform show -json` prints, or descriptions of tables."""
    _read_file("tables.json", data)


def _read_file(name: str, data: bytes) -> None:
    path = _folder() / name
    path.write_bytes(data)
    for table in read_definition_file(path).tables:
        _use(table)


def read_definition(data: bytes) -> None:
    """`Table(…)` with members of any kind: `{"Index": {…}}` is an Index."""
    members = orjson.loads(data)
    if not isinstance(members, dict):
        raise DefinitionError(())
    _use(Table(**{name: _made(value) for name, value in members.items()}))


_KINDS = {one.__name__: one for one in (Index, Maximum, Throughput, VectorIndex)}


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(one) for one in value]
    if isinstance(value, dict) and len(value) == 1:
        ((name, members),) = value.items()
        if name in _KINDS and isinstance(members, dict):
            return _KINDS[name](**{member: _made(one) for member, one in members.items()})
    return value


def _use(table: Table) -> None:
    render_text(plan_of([plan_table(table.name, None, table)]))
    examine([table])
    text = export_text(table)
    if export_text(read_export(text, "again.json")) != text:
        raise AssertionError(f"the export of {table} is another table")
    naming = Naming()
    for text in (
        python_source.module_text([table]),
        cloudformation.template_text([table], naming),
        terraform.template_text([table], naming),
    ):
        text.encode()


def read_plan(data: bytes) -> None:
    path = _folder() / "tables.plan"
    path.write_bytes(data)
    read_saved_plan(path)


def read_migrations(data: bytes) -> None:
    """A file's name and members, as JSON: values only, for a fuzzer must not run what it has made up."""
    form = orjson.loads(data)
    if not isinstance(form, Mapping):
        return
    folder = Path(tempfile.mkdtemp(dir=_folder()))
    path = folder / f"{str(form.get('file', 1)).encode('ascii', 'ignore').decode()[:100]}.py".translate(
        {0: None, 47: None}
    )
    members = [f"{name} = {value!r}" for name, value in form.items() if name.isidentifier() and name != "file"]
    try:
        path.write_text("\n".join([*members, "def up(item):", "    return item"]), encoding="utf-8", errors="replace")
        load_folder(folder)
    finally:
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def read_csv_items(data: bytes) -> None:
    """What was read and is written again is the same."""
    text = data.decode("utf-8", "replace")
    items = [item for _, item in read_csv(io.StringIO(text, newline=""), {"id": "S", "n": "N"}, name="fuzz.csv")]
    again = io.StringIO("".join(csv_lines(items)), newline="")
    if [item for _, item in read_csv(again, {}, name="again.csv")] != [one for one in items if one]:
        raise AssertionError("what was written is read as other items")


def read_lines(data: bytes) -> None:
    """Plain and exact JSON lines; what was read exactly and is written again is the same."""
    lines = data.split(b"\n")
    for exact in (True, False):
        items = [item for _, item in read_items(lines, exact=exact, name="fuzz.jsonl")]
        again = [line_of(item, exact=True) for item in items]
        if [item for _, item in read_items(again, exact=True, name="again.jsonl")] != items:
            raise AssertionError("what was written is read as other items")
