"""Known mistakes in definitions and in stored items, each with how to mend it.

A rule is a function from a table to findings; a definition may switch it off, with a reason (`allow`). Its name is in
definitions/doctor_rules.py. Rules about stored items (`ItemRule`) are asked by `examine_items`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Index, Key, Naming, Table, Throughput
from penstock.tables.indexes import fit, sample
from penstock.tables.plan.failures import Failure, TablesUnreadable, failure_of
from penstock.tables.plan.survey import WORKERS, Live, inspect_every, side_by_side

Severity = Literal["warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: which rule, where, what is wrong with it and how to mend it."""

    rule: str
    table: str
    index: str | None
    severity: Severity
    text: str
    mend: str
    reason: str = ""
    """Why the definition has switched the rule off; '' if it has not."""

    def __str__(self) -> str:
        place = self.table if self.index is None else f"{self.table}, index {self.index}"
        if self.reason:
            return f"{place}: [{self.rule}] switched off: {self.reason}"
        return f"{self.severity}: {place}: {self.text}. {self.mend}. [{self.rule}]"


Rule = Callable[[Table], Iterable[Finding]]
Item = Mapping[str, Any]
ItemRule = Callable[[Table, Iterable[Item]], Iterable[Finding]]


def examine(tables: Iterable[Table]) -> tuple[Finding, ...]:
    """Everything that the rules find in definitions, table by table; what `allow` switches off has its reason."""
    return tuple(_switched(finding, table.allow) for table in tables for rule in RULES for finding in rule(table))


def _switched(finding: Finding, allow: Mapping[str, str]) -> Finding:
    reason = allow.get(finding.rule, "")
    return replace(finding, reason=reason) if reason else finding


def examine_items(table: Table, items: Iterable[Item], rules: Iterable[ItemRule] = ()) -> tuple[Finding, ...]:
    """Everything that rules about items find in a sample of a table's."""
    sample = tuple(items)
    return tuple(finding for rule in rules for finding in rule(table, sample))


# ── words in attribute names ─────────────────────────────────────────────────────────────────────

_FEW_VALUES = frozenset(
    [
        "active",
        "archived",
        "category",
        "deleted",
        "enabled",
        "flag",
        "kind",
        "level",
        "priority",
        "processed",
        "stage",
        "state",
        "status",
        "type",
    ]
)
_TIMES = frozenset(["bucket", "date", "day", "hour", "month", "week", "year"])
_TENANTS = frozenset(
    ["account", "company", "customer", "org", "organisation", "organization", "team", "tenant", "workspace"]
)
_SHARED = frozenset(["client", "name", "project", "tag", "title"])
_SPREAD = frozenset(["hash", "id", "key", "shard", "slot", "uuid"])
_GROWING = frozenset(
    ["audit", "dlq", "event", "events", "history", "log", "logs", "session", "sessions", "webhook", "webhooks"]
)


def words(name: str) -> frozenset[str]:
    """`companyId` → company, id; `date_bucket` → date, bucket."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    return frozenset(part.lower() for part in parts)


def _all_words(key: Key) -> frozenset[str]:
    return frozenset[str]().union(*(words(one.name) for one in key.hash))


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def hot_index_key(table: Table) -> Iterator[Finding]:
    """A partition key of a few values puts an index on a few partitions of 1,000 writes a second each."""
    for index in table.global_indexes:
        found = _all_words(index.key)
        if found & _SPREAD or len(index.key.hash) > 1:
            continue
        name = index.key.hash[0].name
        if found & _FEW_VALUES:
            yield _finding(
                "hot-index-key",
                table,
                index,
                f"{name!r} has few values, and each is one partition of 1,000 writes a second",
                _shard_advice(name),
            )
        elif found & _TIMES:
            yield _finding(
                "hot-index-key",
                table,
                index,
                f"everything written in one period of {name!r} goes to one partition of 1,000 writes a second",
                _shard_advice(name),
            )


def _shard_advice(name: str) -> str:
    return f"Use an attribute such as '{name}#shard', the value and a small number, and query every shard"


def tenant_leak(table: Table) -> Iterator[Finding]:
    """An index by something that two tenants may share shows one the other's items."""
    owners = _TENANTS & frozenset[str]().union(*(words(one) for one in table.key.names))
    if not owners:
        return
    for index in table.global_indexes:
        found = _all_words(index.key)
        if found & _SHARED and not found & (_TENANTS | {"id"}):
            owner, name = sorted(owners)[0], index.key.hash[0].name
            yield _finding(
                "tenant-leak",
                table,
                index,
                f"two tenants can have the same {name!r}, and a query then returns the items of both",
                f"Put the {owner} into the partition key, for example '{owner}#{name}'",
            )


def ttl_name(table: Table) -> Iterator[Finding]:
    """Names such as expiresAt are usually given to ISO texts, and TTL ignores whatever is no number."""
    if table.ttl is not None and (table.ttl.endswith(("At", "_at", "Date", "_date")) or "time" in table.ttl.lower()):
        yield _finding(
            "string-ttl",
            table,
            None,
            f"TTL attribute {table.ttl!r} has a name that one gives to texts; an item with a text there never expires",
            "Write seconds since 1970 as a Number",
            severity="note",
        )


def missing_pitr(table: Table) -> Iterator[Finding]:
    if not table.pitr:
        yield _finding(
            "no-pitr",
            table,
            None,
            "what is deleted or overwritten by mistake cannot be had back",
            "Set pitr=True",
            severity="note" if table.ttl is not None else "warning",
        )


def missing_protection(table: Table) -> Iterator[Finding]:
    if not table.deletion_protection:
        yield _finding(
            "no-deletion-protection",
            table,
            None,
            "one call deletes the table",
            "Set deletion_protection=True in production",
            severity="note",
        )


def redundant_index(table: Table) -> Iterator[Finding]:
    """An index that answers nothing that its table, or another index, does not."""
    seen: dict[Key, str] = {table.key: "the table"}
    for index in table.global_indexes:
        other = seen.get(index.key)
        if other is not None:
            text = f"it has the same key as {other}, and every write is paid for twice"
            yield _finding("redundant-index", table, index, text, "Remove it")
        seen.setdefault(index.key, f"index {index.name}")


def slow_index(table: Table) -> Iterator[Finding]:
    """An index that cannot take the table's writes throttles the table."""
    if not isinstance(table.billing, Throughput):
        return
    for index in table.global_indexes:
        if index.throughput is not None and index.throughput.write < table.billing.write:
            text = f"it takes {index.throughput.write} writes a second, its table {table.billing.write}"
            yield _finding(
                "slow-index", table, index, f"{text}: the table is throttled by it", "Give it the table's write units"
            )


def endless_table(table: Table) -> Iterator[Finding]:
    found = words(table.name) & _GROWING
    if found and table.ttl is None:
        text = f"a table of {sorted(found)[0]} without TTL grows for ever"
        yield _finding("endless-table", table, None, text, 'Set ttl="ttl" and write it', severity="note")


def many_indexes(table: Table) -> Iterator[Finding]:
    number = len(table.global_indexes)
    if number >= 10:
        text = f"{number} global indexes: a write may be paid for {number + 1} times"
        yield _finding(
            "many-indexes", table, None, text, "Join those whose keys can share an attribute", severity="note"
        )


def _finding(
    rule: str, table: Table, index: Index | None, text: str, mend: str, severity: Severity = "warning"
) -> Finding:
    return Finding(rule, table.name, None if index is None else index.name, severity, text, mend)


RULES: tuple[Rule, ...] = (
    hot_index_key,
    tenant_leak,
    ttl_name,
    missing_pitr,
    missing_protection,
    redundant_index,
    slow_index,
    endless_table,
    many_indexes,
)


MILLISECONDS_FROM = 100_000_000_000
"""In seconds this is the year 5138: a larger number counts milliseconds."""


def misfit_index(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """Items that an index cannot hold: they are not in it, and cannot be written again."""
    sample = tuple(items)
    for index in table.global_indexes:
        for misfit in fit(index, sample).misfits:
            text = f"{misfit} of {len(sample):,} sampled items: they are missing from it and cannot be written again"
            mend = f"Rewrite {misfit.attribute!r} in them, or make an index by another attribute"
            yield _finding("index-type", table, index, text, mend)


def unused_index(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """An index by an attribute that no item has is empty."""
    sample = tuple(items)
    for index in table.global_indexes:
        unknown = fit(index, sample).unknown
        if unknown:
            text = f"none of {len(sample):,} sampled items has {', '.join(unknown)}: it is empty, or nearly so"
            yield _finding("empty-index", table, index, text, "Check the attribute's spelling", severity="note")


def text_ttl(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """TTL ignores whatever is no number."""
    sample = tuple(items)
    if table.ttl is None:
        return
    wrong = sum(table.ttl in item and "N" not in item[table.ttl] for item in sample)
    if wrong:
        text = f"{table.ttl!r} is no Number in {wrong:,} of {len(sample):,} sampled items: they never expire"
        yield _finding("string-ttl", table, None, text, "Write seconds since 1970 as a Number")


def late_ttl(table: Table, items: Iterable[Item]) -> Iterator[Finding]:
    """TTL counts seconds."""
    sample = tuple(items)
    if table.ttl is None:
        return
    late = sum(_is_milliseconds(item.get(table.ttl, {}).get("N")) for item in sample)
    if late:
        text = f"{table.ttl!r} counts milliseconds in {late:,} of {len(sample):,} sampled items: they never expire"
        yield _finding("millisecond-ttl", table, None, text, "Write seconds: divide by 1,000")


def _is_milliseconds(number: str | None) -> bool:
    return number is not None and float(number) >= MILLISECONDS_FROM


ITEM_RULES: tuple[ItemRule, ...] = (misfit_index, unused_index, text_ttl, late_ttl)


def examine_definitions(tables: Iterable[Table], naming: Naming) -> tuple[Finding, ...]:
    """What is wrong with definitions, under their full names."""
    return examine(naming.with_full_name(table) for table in tables)


def examine_live(db: Database, tables: Iterable[Table], naming: Naming, *, policy: str = "") -> tuple[Finding, ...]:
    """What is wrong with live tables and their items; a table that is missing is examined as it is defined.

    Raises TablesUnreadable with every table that could not be looked at.
    """
    wanted = {naming.full_name(table.name): naming.with_full_name(table) for table in tables}
    found = inspect_every(db, wanted, policy=policy)

    def one(name: str) -> tuple[Finding, ...] | Failure:
        live = found[name]
        if live is None:
            missing = Finding("missing", name, None, "note", "the table is not there", "Run `penstock tables apply`")
            return (missing, *examine([wanted[name]]))
        examined = _examine_table(db, live, policy)
        if isinstance(examined, Failure):
            return examined
        return tuple(_switched(finding, wanted[name].allow) for finding in examined)

    rounds = side_by_side(one, list(wanted), WORKERS)
    failures = [one for one in rounds if isinstance(one, Failure)]
    if failures:
        raise TablesUnreadable(failures)
    return tuple(finding for several in rounds if not isinstance(several, Failure) for finding in several)


def _examine_table(db: Database, live: Live, policy: str) -> tuple[Finding, ...] | Failure:
    table = live.table
    attributes = {one.name for one in table.attributes} | ({table.ttl} if table.ttl else set())
    try:
        items = sample(db, live.facts.name, attributes)
    except PenstockError as error:
        return failure_of(live.facts.name, "reading a sample", error, operation="Scan", policy=policy)
    return (*examine([table]), *examine_items(table, items, ITEM_RULES))
