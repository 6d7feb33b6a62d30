"""A state diagram of Mermaid's as a table: GitHub draws it, and the site needs no script for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_CHANGE = re.compile(r"^ *(?P<from>\[\*\]|\w+) --> (?P<to>\[\*\]|\w+)(?:: (?P<event>.+))?$")


def state_table(diagram: Iterable[str]) -> Iterator[str]:
    """A row for each change of the state; the ends of the diagram are not rows."""
    yield from ("", "| state before | event | state after |", "|---|---|---|")
    for line in diagram:
        change = _CHANGE.match(line)
        if change and change["to"] != "[*]":
            before = "–" if change["from"] == "[*]" else change["from"]
            yield f"| {before} | {change['event'] or ''} | {change['to']} |"
    yield ""
