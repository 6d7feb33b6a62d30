"""docs/README.md, read: every page by purpose. llms.txt and the site's navigation are made from it.

llms.txt is for programs that read documentation (llmstxt.org).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_SECTION = re.compile(r"^## (.+)$")
_GROUP = re.compile(r"^### (.+)$")
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\)(?:: (.+))?$")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)

_HEAD = """# Penstock

> Durable jobs on DynamoDB, tables as code, and a durable DynamoDB inside Python to run them on: in your process or on a
> port, on one SQLite file. No Docker, no Java, no account. The same code talks to AWS.

- Python 3.11 or later; `import penstock` has the whole front door, `penstock --help` every command.
- `penstock.connect(url)`, `penstock.App(url)` and `--db` take a file name, `:memory:`, `http://…` or `aws://region`.
- Every example of these pages is run by tests.
"""


@dataclass(frozen=True)
class Entry:
    """A page or, where `path` ends with a slash, a folder of pages; `path` counts from the root."""

    title: str
    path: str
    about: str


@dataclass
class Group:
    """Entries under one heading; the first ones of a section may have none."""

    title: str
    entries: list[Entry] = field(default_factory=list)


@dataclass
class Section:
    title: str
    groups: list[Group] = field(default_factory=list)


def sections(root: Path, made: set[str]) -> list[Section]:
    """The sections of docs/README.md, with a page's entry for each page of a folder.

    `made` are the pages that the generator writes: they are there, whether they lie on the disk yet or not.
    """
    read: list[Section] = []
    for line in (root / "docs" / "README.md").read_text(encoding="utf-8").splitlines():
        if section := _SECTION.match(line):
            read.append(Section(section[1], [Group("")]))
        elif group := _GROUP.match(line):
            read[-1].groups.append(Group(group[1]))
        elif item := _ITEM.match(line):
            entry = Entry(item[1], _from_root(item[2]), item[3] or "")
            read[-1].groups[-1].entries += _pages_of(entry, root, made)
    return read


def llms_text(root: Path, made: set[str]) -> str:
    lines = [_HEAD, "- [README](README.md): what it is, with one example of each part"]
    for section in sections(root, made):
        lines += ["", f"## {section.title}", ""]
        lines += [_line(entry) for group in section.groups for entry in group.entries]
    return "\n".join(lines) + "\n"


def _line(entry: Entry) -> str:
    return f"- [{entry.title}]({entry.path})" + (f": {entry.about}" if entry.about else "")


def _from_root(link: str) -> str:
    return link[3:] if link.startswith("../") else f"docs/{link}"


def _pages_of(entry: Entry, root: Path, made: set[str]) -> Iterator[Entry]:
    """The entry or, of a folder, every page by its title."""
    if not entry.path.endswith("/"):
        yield entry
        return
    there = {str(page.relative_to(root)) for page in (root / entry.path).glob("*.md")}
    for page in sorted({*there, *(one for one in made if one.startswith(entry.path))}):
        if not page.endswith("/README.md"):
            yield Entry(title_of(root / page), page, "")


def title_of(page: Path) -> str:
    found = _TITLE.search(page.read_text(encoding="utf-8")) if page.is_file() else None
    return found[1].replace("[", "").replace("]", "") if found else page.stem
