"""What a benchmark reports: tables for people, figures for promises and plots, and what could not be had."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sqlite3
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Figures = dict[str, float]


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
    """One benchmark's part of RESULTS.md.

    `figures` are the measured numbers by names such as "GetItem/penstock", without units or rounding; `missing` are
    the peers that were not found. `command`, `measured`, `busy` (the load average before), `cores` and `seconds` are
    filled in by whoever ran it.
    """

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    command: str = ""
    measured: str = ""
    busy: float = 0.0
    cores: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        told = asdict(self)
        told["figures"] = {name: float(f"{value:.6g}") for name, value in self.figures.items()}
        told |= {"busy": round(self.busy, 2), "seconds": round(self.seconds, 1)}
        return told

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Section:
        return cls(**{**told, "tables": [Table(**one) for one in told["tables"]]})


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


def times(ratio: float) -> str:
    return f"{ratio:.2f} ×"


def count(number: float) -> str:
    return f"{number:,.0f}"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
