"""A plan as Markdown, for the comment of a pull request. Everything here is pure.

1. The first line is a marker, a comment that nobody sees: a bot finds its own comment by it, and writes over it. It is
   the same for the same definitions and environment, so that each environment has a comment of its own.
2. Names come from definitions and from live tables, and are not trusted: they stand in code blocks, whose fence is
   longer than any in them, or are escaped. None ends a line, mentions a person, or becomes HTML.
3. A comment of GitHub's has at most 65,536 characters: tables that do not fit are counted, not shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

from penstock.tables.plan.changes import count
from penstock.tables.plan.estimate import estimate
from penstock.tables.plan.orphans import Orphans
from penstock.tables.plan.plan import Plan, TablePlan
from penstock.tables.plan.render import render_summary, render_text
from penstock.tables.plan.survey import Survey

MARKER: Final = "penstock-plan"
MOST_CHARACTERS: Final = 60_000

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def marker_of(survey: Survey, source: str) -> str:
    """`<!-- penstock-plan: mytables:all production -->`"""
    naming = survey.naming
    text = " ".join(filter(None, (source, naming.prefix, naming.environment)))
    # Two dashes end a comment in some readers, and ">" in others.
    return f"<!-- {MARKER}: {re.sub('[-<>]*[<>][-<>]*|-{2,}', '-', _one_line(text)).strip('-')} -->"


def plan_markdown(
    survey: Survey, source: str, target: str, orphans: Orphans | None = None, warnings: Iterable[str] = ()
) -> str:
    """The whole comment. `warnings` is what was found out beside the plan."""
    plan = survey.plan
    head = [marker_of(survey, source), f"### Tables: {_headline(plan)}", _place(source, target, survey), ""]
    tail = [*_totals(survey), *_notes(survey), *_warnings(warnings), *_orphans(orphans)]
    room = MOST_CHARACTERS - sum(len(line) + 1 for line in (*head, *tail))
    lines, left = [], 0
    for table in sorted((one for one in plan.tables if one.changes), key=lambda one: not one.destructive):
        block = "\n".join(_table_block(table))
        if len(block) > room:
            left += 1
            continue
        lines.append(block)
        room -= len(block) + 1
    if left:
        lines.append(f"… and {count(left, 'table')} more: `penstock tables plan` shows them.\n")
    return "\n".join([*head, *lines, *tail]).rstrip() + "\n"


def _headline(plan: Plan) -> str:
    text = render_summary(plan).removeprefix("Plan: ")
    losing = sum(bool(table.destructive) for table in plan.tables)
    return f"{text} :warning: {count(losing, 'table')} with changes that destroy something." if losing else text


def _place(source: str, target: str, survey: Survey) -> str:
    return f"{_code(source)} → {_code(target)}, {_code(survey.naming.environment)}"


def _table_block(table: TablePlan) -> Iterator[str]:
    words = {"create": "create", "delete": "delete", "refused": "refused"}.get(table.fate)
    told = words or count(len(table.changes), "change")
    losing = f" :warning: {len(table.destructive)} destroying something" if table.destructive else ""
    yield f"<details{' open' if table.destructive else ''}><summary>{_code(table.name)}: {told}{losing}</summary>"
    yield ""
    shown = render_text(Plan((table,))).splitlines()[:-1]
    yield _fenced([_one_line(line) for line in shown])
    yield "</details>"
    yield ""


def _totals(survey: Survey) -> Iterator[str]:
    for line in estimate(survey).lines:
        yield f"- {html.escape(_one_line(line), quote=False)}"


def _notes(survey: Survey) -> Iterator[str]:
    for one in survey.tables:
        if one.note:
            yield f"- {_code(one.name)}: {_code(one.note)}"


def _warnings(warnings: Iterable[str]) -> Iterator[str]:
    for text in warnings:
        yield f"- :warning: {_code(text)}"


def _orphans(orphans: Orphans | None) -> Iterator[str]:
    if orphans is not None and orphans.text:
        yield f"- {_code(orphans.text)}"


def _code(text: str) -> str:
    return f"<code>{_escaped(_one_line(text))}</code>"


def _escaped(text: str) -> str:
    """As HTML, with everything that Markdown would read as its own."""
    return re.sub(r"[`*_\[\]|\\@#~!$]", lambda found: f"&#{ord(found[0])};", html.escape(text, quote=False))


def _one_line(text: str) -> str:
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _fenced(lines: list[str]) -> str:
    longest = max((len(found) for line in lines for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])
