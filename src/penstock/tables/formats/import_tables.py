"""Live tables read into definitions, and the files that hold them.

1. Read-only: nothing in the database changes.
2. What was imported and is planned at once is "Nothing to do".
3. What Penstock does not manage is named for each table, in the report and in the file; what could not be asked is
   named, too.
4. A file that exists is not overwritten unless the caller says so; all files are checked before the first is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.definitions.export_file import export_text, exported_tags
from penstock.tables.definitions.own_tables import own_tables
from penstock.tables.definitions.problems import problems_of
from penstock.tables.formats import cloudformation, python_source, terraform
from penstock.tables.formats.export import write_whole
from penstock.tables.plan.failures import Failure, WrongState, failure_of
from penstock.tables.plan.survey import NOT_YET, WORKERS, Live, inspect_all, side_by_side
from penstock.tables.plan.unmanaged import not_managed

Format = Literal["python", "json", "cloudformation", "terraform"]
DEFAULT_OUT: Mapping[Format, str] = {
    "python": "tables.py",
    "json": "schemas",
    "cloudformation": "template.json",
    "terraform": "tables.tf",
}
NOTES_FILE = "not-compared.txt"


class FileExists(PenstockError):
    """Files that an import would overwrite."""

    def __init__(self, files: Sequence[Path]) -> None:
        super().__init__(tuple(files))
        self.files = tuple(files)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.files[:3])) + (" and others" if len(self.files) > 3 else "")
        return f"{names}: the file exists. Nothing was written: give --force to overwrite it, or another --out."


@dataclass(frozen=True, slots=True)
class Imported:
    """Tables under their full names, by name; `not_compared` has what is not managed, by table."""

    tables: tuple[Table, ...]
    not_compared: Mapping[str, tuple[str, ...]]
    failures: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    """Members that the endpoint does not tell: they are in no definition."""


def read_tables(
    db: Database,
    names: Sequence[str] = (),
    *,
    prefix: str = "",
    tags: Mapping[str, str] | None = None,
    warm: bool = False,
    policy: str = "",
) -> Imported:
    """The tables of these names, else all that begin with the prefix; with tags, only those that have them."""
    wanted = list(dict.fromkeys(names)) or sorted(set(db.tables()) - own_tables())
    wanted = [name for name in wanted if name.startswith(prefix)]
    tables: list[Table] = []
    failures: list[Failure] = []
    unsupported: set[str] = set()
    found = inspect_all(db, wanted, policy=policy, with_policies=lambda name: "ask")
    for name, live in found.items():
        if isinstance(live, Failure):
            failures.append(live)
        elif live is not None and live.facts.status in NOT_YET:
            failures.append(failure_of(name, "importing it", WrongState(live.facts.status)))
        elif live is not None and (tags or {}).items() <= (live.table.tags or {}).items():
            unsupported |= live.unsupported
            table = _definition(live, warm=warm)
            problems = " ".join(map(str, problems_of(table)))
            if problems:
                refused = PenstockError(f"No definition can say it: {problems}")
                failures.append(failure_of(name, "importing it", refused))
            else:
                tables.append(table)
    unmanaged = side_by_side(lambda name: not_managed(db, name), [one.name for one in tables], WORKERS)
    notes = {table.name: told for table, told in zip(tables, unmanaged, strict=True) if told}
    missing = tuple(name for name, live in found.items() if live is None)
    return Imported(tuple(tables), notes, tuple(failures), missing, tuple(sorted(unsupported)))


def _definition(live: Live, *, warm: bool) -> Table:
    """Without what the endpoint does not tell: that it is off would be a guess."""
    table = live.table.replace(**dict.fromkeys(live.unsupported))
    table = table.replace(resource_policy=table.resource_policy or None)
    if warm:
        return table
    return table.replace(warm=None, indexes=tuple(replace(one, warm=None) for one in table.indexes))


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def files_of(found: Imported, kind: Format, out: Path) -> dict[Path, str]:
    """The files of an import and their texts; `out` is a folder for json."""
    if kind != "json":
        return {out: text_of(found, kind)}
    files = {out / f"{table.name}.json": export_text(table, warm=True) for table in found.tables}
    if found.not_compared:
        lines = [f"{name}: {one}\n" for name, several in found.not_compared.items() for one in several]
        files[out / NOTES_FILE] = "".join(lines)
    return files


def text_of(found: Imported, kind: Format) -> str:
    """All tables as one text. Terraform and CloudFormation manage every tag, so that theirs keep Penstock's own."""
    comments = {name: [f"Not compared: {one}" for one in several] for name, several in found.not_compared.items()}
    match kind:
        case "python":
            return python_source.module_text(map(_without_own_tags, found.tables), comments)
        case "json":
            forms = [json.loads(export_text(table, warm=True)) for table in found.tables]
            return json.dumps(forms, indent=2, ensure_ascii=False) + "\n"
        case "cloudformation":
            template = cloudformation.template(found.tables, Naming())
            for resource in template["Resources"].values():
                told = found.not_compared.get(resource["Properties"]["TableName"])
                if told:
                    resource["Metadata"] = {"NotCompared": list(told)}
            return json.dumps(template, indent=2, ensure_ascii=False) + "\n"
        case "terraform":
            lines = [f"# {name}: {one}\n" for name, several in comments.items() for one in several]
            return "".join(lines) + terraform.template_text(found.tables, Naming(), imports=True)


def _without_own_tags(table: Table) -> Table:
    return table if table.tags is None else table.replace(tags=exported_tags(table.tags))


def write_files(files: Mapping[Path, str], *, force: bool) -> None:
    """Raises FileExists before anything is written (4); a file with the same text is no obstacle."""
    if not force:
        taken = [file for file, text in files.items() if file.exists() and not _has(file, text)]
        if taken:
            raise FileExists(taken)
    for file, text in files.items():
        write_whole(file, text)


def _has(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode()


def check_selection(found: Imported, given: Iterable[str]) -> None:
    """Raises PenstockError if the selection leads to no table, so that no empty file is written."""
    if not found.tables and not found.failures and not found.missing:
        raise PenstockError(f"No table is selected by {' '.join(given)}. Check the prefix, the tags and the region.")
