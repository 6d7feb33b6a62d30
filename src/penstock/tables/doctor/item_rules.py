"""Known mistakes that only stored items show; each a rule for `doctor.examine_items`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.tables.definitions.definition import Index, Table
from penstock.tables.doctor.rules import Finding, Item, ItemRule, Severity
from penstock.tables.indexes.item_sample import fit

MILLISECONDS_FROM = 100_000_000_000
"""In seconds this is the year 5138: a larger number counts milliseconds."""


def misfit_index(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """Items that an index cannot hold: they are not in it, and cannot be written again."""
    sample = tuple(items)
    for index in table.global_indexes:
        for misfit in fit(index, sample).misfits:
            text = f"{misfit} of {len(sample):,} sampled items: they are missing from it and cannot be written again"
            mend = f"Rewrite {misfit.attribute!r} in them, or make an index by another attribute"
            yield _found("index-type", table, index, text, mend)


def unused_index(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """An index by an attribute that no item has is empty."""
    sample = tuple(items)
    for index in table.global_indexes:
        unknown = fit(index, sample).unknown
        if unknown:
            text = f"none of {len(sample):,} sampled items has {', '.join(unknown)}: it is empty, or nearly so"
            yield _found("empty-index", table, index, text, "Check the attribute's spelling", severity="note")


def text_ttl(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """TTL ignores whatever is no number."""
    sample = tuple(items)
    if table.ttl is None:
        return
    wrong = sum(table.ttl in item and "N" not in item[table.ttl] for item in sample)
    if wrong:
        text = f"{table.ttl!r} is no Number in {wrong:,} of {len(sample):,} sampled items: they never expire"
        yield _found("string-ttl", table, None, text, "Write seconds since 1970 as a Number")


def late_ttl(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """TTL counts seconds."""
    sample = tuple(items)
    if table.ttl is None:
        return
    late = sum(_is_milliseconds(item.get(table.ttl, {}).get("N")) for item in sample)
    if late:
        text = f"{table.ttl!r} counts milliseconds in {late:,} of {len(sample):,} sampled items: they never expire"
        yield _found("millisecond-ttl", table, None, text, "Write seconds: divide by 1,000")


def _is_milliseconds(number: str | None) -> bool:
    return number is not None and float(number) >= MILLISECONDS_FROM


def _found(
    rule: str, table: Table, index: Index | None, text: str, mend: str, severity: Severity = "warning"
) -> Finding:
    return Finding(rule, table.name, None if index is None else index.name, severity, text, mend)


ITEM_RULES: tuple[ItemRule, ...] = (misfit_index, unused_index, text_ttl, late_ttl)
