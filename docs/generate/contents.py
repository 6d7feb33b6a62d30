"""llms.txt, made from docs/README.md: the pages by purpose, for programs that read documentation (llmstxt.org)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_SECTION = re.compile(r"^## (.+)$")
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\)(?:: (.+))?$")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)

_HEAD = """# Penstock

> Durable jobs on DynamoDB, tables as code, and a durable DynamoDB inside Python to run them on: in your process or on a
> port, on one SQLite file. No Docker, no Java, no account. The same code talks to AWS.

- Python 3.11 or later; `import penstock` has the whole front door, `penstock --help` every command.
- `penstock.connect(url)`, `penstock.App(url)` and `--db` take a file name, `:memory:`, `http://…` or `aws://region`.
- Every example of these pages is run by tests.
"""


def llms_text(root: Path, made: set[str]) -> str:
    """`made` are the pages that the generator writes: they are there, whether they lie on the disk yet or not."""
    lines = [_HEAD, "## Start", "", "- [README](README.md): what it is, with one example of each part"]
    for line in (root / "docs" / "README.md").read_text(encoding="utf-8").splitlines():
        lines += _line(line, root, made)
    return "\n".join(lines).rstrip("\n") + "\n"


def _line(line: str, root: Path, made: set[str]) -> Iterator[str]:
    section, item = _SECTION.match(line), _ITEM.match(line)
    if section:
        yield from ("", f"## {section[1]}", "")
    elif item:
        path = _from_root(item[2])
        if path.endswith("/"):
            yield from _folder(root, path, made)
        else:
            yield f"- [{item[1]}]({path})" + (f": {item[3]}" if item[3] else "")


def _from_root(link: str) -> str:
    return link[3:] if link.startswith("../") else f"docs/{link}"


def _folder(root: Path, path: str, made: set[str]) -> Iterator[str]:
    """Every page of a folder, by its title."""
    there = {str(page.relative_to(root)) for page in (root / path).glob("*.md")}
    for page in sorted({*there, *(one for one in made if one.startswith(path))}):
        if not page.endswith("/README.md"):
            yield f"- [{_title(root / page)}]({page})"


def _title(page: Path) -> str:
    found = _TITLE.search(page.read_text(encoding="utf-8")) if page.is_file() else None
    return found[1].replace("[", "").replace("]", "") if found else page.stem
