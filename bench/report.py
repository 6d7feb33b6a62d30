"""Tables as text, and RESULTS.md: one section a benchmark, so that one can be measured again alone."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sqlite3
import sys
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def markdown(self) -> str:
        widths = [max(len(row[i]) for row in (self.columns, *self.rows)) for i in range(len(self.columns))]
        aligned = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in (self.columns, ["-" * width for width in widths], *self.rows)
        ]
        return "\n".join([f"**{self.title}**", "", *aligned])


@dataclass
class Section:
    """One benchmark's part of RESULTS.md."""

    name: str
    command: str
    tables: list[Table]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        parts = [f"## {self.name}", f"`{self.command}`, {now()}"]
        parts += [table.markdown() for table in self.tables]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> str:
    """The machine in one line, without its name."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = re.findall(r"model name\s*:\s*(.+)", info)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{os.cpu_count()} cores ({models[0] if models else platform.machine()}), {pages / 2**30:.0f} GiB, "
        f"{platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def show(section: Section) -> None:
    sys.stdout.write(section.markdown() + "\n\n")


def save(sections: list[Section]) -> None:
    """Put the sections in RESULTS.md in place of those of the same name."""
    kept = _sections(RESULTS.read_text() if RESULTS.exists() else "")
    kept.update({section.name: section.markdown() for section in sections})
    head = (
        "# Results\n\nMade by `python -m bench`; figures are from one machine and mean something only beside each "
        f"other. See README.md for what each one is.\n\nMachine: {machine()}."
    )
    RESULTS.write_text("\n\n".join([head, *kept.values()]) + "\n")


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: f"## {name}\n\n{body.strip()}" for name, body in pairs}


def times(ratio: float) -> str:
    return f"{ratio:.2f} ×"


def count(number: float) -> str:
    return f"{number:,.0f}"
