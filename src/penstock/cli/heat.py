"""`penstock heat`: the hottest keys and partitions of a run, as bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click
import orjson

from penstock.client.served_heat import NoHeat, read_heat
from penstock.engine.capacity import hot_keys
from penstock.errors import PenstockError

_BAR = 24
_LABEL = 40
_TIMEOUT_SECONDS = 10
_SWITCH_ON = "Start it with `penstock serve --heat`, or --throttle, and run your load again."


@click.command("heat")
@click.option("--db", metavar="FILE", help="The database file of the run.")
@click.option("--url", metavar="URL", help="A running server, such as http://127.0.0.1:8000.")
@click.option("--top", type=click.IntRange(1, hot_keys.KEYS), default=10, show_default=True, help="How many of each.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(db: str | None, url: str | None, top: int, as_json: bool) -> None:
    """Show the hottest keys and partitions of a run: what would be throttled in production.

    \b
    Examples:
      penstock serve --db orders.db --throttle
      penstock heat --db orders.db
      penstock heat --url http://127.0.0.1:8000 --json

    A file shows its latest run. Keys are counted in bounded memory: "at most" marks a count that may be too high.
    """
    if (db is None) == (url is None):
        raise click.UsageError("Give either --db FILE or --url URL.")
    told = _from_file(db) if db is not None else _from_server(str(url))
    shown = {**told, "resources": [_cut(resource, top) for resource in told["resources"]]}
    if as_json:
        click.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
        return
    for line in _lines(shown, "█" if _can_show("█") else "#"):
        click.echo(line)


def _from_file(path: str) -> dict[str, Any]:
    told = hot_keys.load(path)
    if told is None:
        raise PenstockError(f"{path} has no heat: it was not counted. {_SWITCH_ON}")
    return told


def _from_server(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {url}: a URL begins with http:// or https://.")
    try:
        return read_heat(url, _TIMEOUT_SECONDS)
    except NoHeat as error:
        raise PenstockError(f"{error} {_SWITCH_ON}" if error.status else str(error)) from error


def _cut(resource: dict[str, Any], top: int) -> dict[str, Any]:
    return {**resource, "keys": resource["keys"][:top], "partitions": resource["partitions"][:top]}


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _lines(told: dict[str, Any], block: str) -> Iterator[str]:
    if not told["resources"]:
        yield "Nothing was read or written in this run."
    for resource in told["resources"]:
        yield from _resource(resource, block)
        yield ""


def _resource(resource: dict[str, Any], block: str) -> Iterator[str]:
    name = resource["table"] + (f" / {resource['index']}" if resource["index"] else "")
    yield f"{name}: {resource['reads']:,.1f} read and {resource['writes']:,.1f} write units{_throttled(resource)}"
    total = resource["reads"] + resource["writes"]
    for title, rows in (
        ("keys", [(_short(one["key"]), one) for one in resource["keys"]]),
        ("partitions", [(f"{one['low'][:4]}…{one['high'][:4]}", one) for one in resource["partitions"]]),
    ):
        if rows:
            yield f"  hottest {title}"
            yield from _bars(rows, total, block)


def _bars(rows: list[tuple[str, dict[str, Any]]], total: float, block: str) -> Iterator[str]:
    width = max(len(label) for label, _ in rows)
    most = max(_units(one) for _, one in rows) or 1.0
    for label, one in rows:
        units = _units(one)
        bar = (block * round(_BAR * units / most)).ljust(_BAR)
        share = 100 * units / total if total else 0.0
        at_most = "at most " if one["over"] else ""
        yield f"    {label.ljust(width)}  {bar}  {share:5.1f} %  {at_most}{units:,.1f} units{_throttled(one)}"


def _units(one: dict[str, Any]) -> float:
    units: float = one["reads"] + one["writes"]
    return units


def _throttled(one: dict[str, Any]) -> str:
    return f", {one['throttled']:,} throttled" if one["throttled"] else ""


def _short(key: str) -> str:
    """A key on one line: control characters would move a terminal's cursor."""
    clean = "".join(character if character.isprintable() else "?" for character in key)
    return clean if len(clean) <= _LABEL else clean[: _LABEL - 1] + "…"
