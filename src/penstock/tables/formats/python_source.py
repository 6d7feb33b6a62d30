"""Definitions as a Python module: `all` is a list of its tables, which `penstock tables plan tables:all` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.tables.definitions.definition import PITR_DAYS, Attribute, Index, Maximum, Table, Throughput, VectorIndex
from penstock.tables.definitions.resource_policy import policy_document


def module_text(tables: Iterable[Table], comments: Mapping[str, Sequence[str]] | None = None) -> str:
    """The module's text; `comments` are lines that stand over a table, by its name."""
    said = comments or {}
    bodies = [_commented(said.get(table.name, ()), _table(table)) for table in tables]
    text = "".join(f"{body},\n" for body in bodies)
    names = ("Index", "Maximum", "Table", "Throughput", "VectorIndex")
    used = ", ".join(name for name in names if _is_used(name, text))
    return f"from penstock import {used}\n\nall = [\n{text}]\n"


def _is_used(name: str, text: str) -> bool:
    return any(f"{before}{name}(" in text for before in (" ", "="))


def _commented(lines: Sequence[str], body: str) -> str:
    # A line break in a comment would make code of what follows it.
    return "".join(f"    # {' '.join(line.split())}\n" for line in lines) + body


def _table(table: Table) -> str:
    members: list[tuple[str, str]] = [("", _literal(table.name)), ("", _attributes(table.key.attributes))]
    if table.indexes:
        inner = "".join(f"            {_index(one, table)},\n" for one in table.indexes)
        members.append(("indexes", f"[\n{inner}        ]"))
    if table.vector_indexes:
        inner = "".join(f"            {_vector_index(one)},\n" for one in table.vector_indexes)
        members.append(("vector_indexes", f"[\n{inner}        ]"))
    members += [
        (name, _literal(getattr(table, name))) for name in ("ttl", "stream") if getattr(table, name) is not None
    ]
    if table.pitr is not None:
        members.append(("pitr", {0: "False", PITR_DAYS: "True"}.get(table.pitr, str(table.pitr))))
    if table.tags is not None:
        members.append(("tags", _literal(dict(table.tags))))
    if isinstance(table.billing, Throughput):
        members.append(("billing", _throughput(table.billing)))
    if table.on_demand_max is not None:
        members.append(("on_demand_max", _maximum(table.on_demand_max)))
    if table.warm is not None:
        members.append(("warm", _throughput(table.warm)))
    settings = ("table_class", "deletion_protection", "sse")
    members += [(name, _literal(getattr(table, name))) for name in settings if getattr(table, name) is not None]
    if table.ignore:
        members.append(("ignore", _literal(list(table.ignore))))
    if table.resource_policy is not None:
        members.append(("resource_policy", _document(policy_document(table.resource_policy), "        ")))
    if table.allow:
        members.append(("allow", _literal(dict(table.allow))))
    lines = "".join(f"        {f'{name}=' if name else ''}{value},\n" for name, value in members)
    return f"    Table(\n{lines}    )"


def _index(index: Index, table: Table) -> str:
    words = [_literal(index.name), _attributes(index.key.hash)]
    words += [_attributes(index.key.range)] if index.key.range else []
    if index.projection != "ALL":
        kept = index.projection if isinstance(index.projection, str) else list(index.projection)
        words.append(f"projection={_literal(kept)}")
    words += ["local=True"] if index.local else []
    if index.throughput is not None and index.throughput != table.billing:
        words.append(f"throughput={_throughput(index.throughput)}")
    if index.on_demand_max is not None:
        words.append(f"on_demand_max={_maximum(index.on_demand_max)}")
    if index.warm is not None:
        words.append(f"warm={_throughput(index.warm)}")
    return f"Index({', '.join(words)})"


def _vector_index(index: VectorIndex) -> str:
    words = [_literal(index.name), _literal(index.attribute), f"dimensions={index.dimensions}"]
    words.append(f"distance={_literal(index.distance)}")
    if index.partition is not None:
        words.append(f"partition={_literal(str(index.partition))}")
    if index.filters:
        words.append(f"filters={_literal([str(one) for one in index.filters])}")
    if index.projection != "ALL":
        kept = index.projection if isinstance(index.projection, str) else list(index.projection)
        words.append(f"projection={_literal(kept)}")
    return f"VectorIndex({', '.join(words)})"


def _attributes(several: Sequence[Attribute]) -> str:
    texts = [_literal(str(one)) for one in several]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _literal(value: Any) -> str:
    """A text, a flag, or a list or mapping of texts; texts in double quotes, as formatters write them."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)  # whose escapes are Python's, too
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case dict():
            return f"{{{', '.join(f'{_literal(key)}: {_literal(one)}' for key, one in value.items())}}}"
        case _:
            return repr(value)


def _document(value: Any, indent: str) -> str:
    """Nested values, a member a line."""
    inner = indent + "    "
    match value:
        case dict() if value:
            rows = "".join(f"{inner}{_literal(key)}: {_document(one, inner)},\n" for key, one in value.items())
            return f"{{\n{rows}{indent}}}"
        case list() if any(isinstance(one, dict | list) for one in value):
            rows = "".join(f"{inner}{_document(one, inner)},\n" for one in value)
            return f"[\n{rows}{indent}]"
        case _:
            return _literal(value)


def _throughput(units: Throughput) -> str:
    return f"Throughput({units.read}, {units.write})"


def _maximum(limit: Maximum) -> str:
    return f"Maximum({limit.read}, {limit.write})"
