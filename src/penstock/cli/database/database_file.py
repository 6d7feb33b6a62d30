"""Commands on a database file: `penstock backup`, `penstock repair` and `penstock heat`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from penstock.cli.kit import groups
from penstock.cli.kit.exit_codes import INTERRUPTED, WORK_FAILED, end_with
from penstock.cli.kit.options import confirm, db_option, json_option, yes_option
from penstock.cli.kit.output import ByteLine, ProgressLine, count_text, print_json, print_result, size_text
from penstock.client.remote_heat import NoHeat, read_heat
from penstock.engine.capacity import hot_keys
from penstock.engine.repair.examine import Findings, IndexFindings, TableFindings, examine
from penstock.engine.repair.rescue import Rescued, rescue
from penstock.engine.storage.file_copy import copy_file, open_to_look, refuse_place
from penstock.errors import PenstockError, StorageError

_BAR_WIDTH = 24
_LABEL_CHARACTERS = 40
_HEAT_SECONDS = 10
_SWITCH_ON = "Start it with `penstock serve --heat`, or --throttle, and run your load again."


def _point_to_table_backup(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        raise click.UsageError(
            "This command copies a file, SOURCE to DEST, and has no --db. "
            f"For one table, use `penstock tables backup TABLE --db {value}`.",
            ctx,
        )


@groups.command("backup")
@click.argument("source")
@click.argument("dest")
@click.option("--db", hidden=True, expose_value=False, callback=_point_to_table_backup)
@yes_option
@json_option
def backup(source: str, dest: str, yes: bool, as_json: bool) -> None:
    """Copy the database file SOURCE to DEST, with all its tables, while other processes use it.

    It copies a file. For a backup of one table that DynamoDB keeps, also in AWS, see `penstock tables backup`.

    \b
    Examples:
      penstock backup jobs.db backups/jobs-monday.db
      penstock backup jobs.db /mnt/nas/jobs.db --yes --json

    The copy is SOURCE at one moment, checked page by page. Open it like any other database. Other processes do not wait
    for the copy. If it fails or is interrupted, DEST is as it was before.
    """
    _check_source(source)
    refuse_place(source, dest, replace=True)
    if Path(dest).exists():
        confirm(f"{dest} exists already. Replace it?", yes=yes)
        yes = True
    line = ByteLine(Path(source).stat().st_size, quiet=as_json)
    done = 0

    def progress(now: int, _total: int) -> None:
        nonlocal done
        line.add(now - done)
        done = now

    try:
        copied = copy_file(source, dest, replace=yes, progress=progress)
    except KeyboardInterrupt:
        click.echo("\nInterrupted: no copy was left.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        line.end()
    what = f"{count_text(copied.tables, 'table')}, {size_text(copied.bytes)}"
    text = f"{copied.copy}: {what}, copied from {copied.source} and checked, in {copied.seconds:.1f} s"
    print_result(asdict(copied), text, as_json=as_json)


def _check_source(source: str) -> None:
    """A file that can be copied; a word that is no file may be a table's name."""
    try:
        open_to_look(source).close()
    except StorageError as error:
        if "://" in source or not (Path(source).exists() or Path(source).suffix):
            table = f"TABLE --db {source}" if "://" in source else f"{source} --db TARGET"
            raise StorageError(
                f"{error} This command copies a file; for a table, use `penstock tables backup {table}`."
            ) from error
        raise


@groups.command(
    "repair",
    exit_codes={
        0: "sound, or everything was saved",
        1: "it could not be examined",
        WORK_FAILED: "damaged, or something was lost",
    },
)
@click.argument("file")
@click.option("--into", metavar="NEW", help="Write everything that can be read to this new file.")
@yes_option
@json_option
def repair(file: str, into: str | None, yes: bool, as_json: bool) -> None:
    """Look for damage in the database FILE: in its pages, and between its tables and their indexes.

    \b
    Examples:
      penstock repair jobs.db
      penstock repair jobs.db --into jobs-repaired.db

    FILE is never changed, and may be in use. --into saves what can be read, rebuilds the indexes from the items, and
    reports what is lost. Then replace the old file yourself, while no process uses it.
    """
    line = ProgressLine(quiet=as_json)
    try:
        if into is None:
            _print_examination(examine(file, lambda what: line.tell(f"examining {what}")), as_json, line)
        else:
            _rescue_into(file, into, yes, as_json, line)
    except KeyboardInterrupt:
        click.echo("\nInterrupted: nothing was changed, and nothing is left.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _print_examination(findings: Findings, as_json: bool, line: ProgressLine) -> None:
    line.end()
    if as_json:
        print_json(_findings_form(findings))
    else:
        _print_findings(findings)
    if not findings.sound:
        end_with(WORK_FAILED)


def _rescue_into(file: str, into: str, yes: bool, as_json: bool, line: ProgressLine) -> None:
    if Path(file).is_file():
        refuse_place(file, into, replace=True)
    if Path(into).exists():
        confirm(f"{into} exists already. Replace it?", yes=yes)
        yes = True
    done = rescue(file, into, replace=yes, tell=lambda what: line.tell(f"at {what}"))
    line.end()
    if as_json:
        form = asdict(done)
        print_json(form | {"before": _findings_form(done.before), "complete": done.complete})
    else:
        _print_rescue(done)
    if not done.complete:
        end_with(WORK_FAILED)


def _findings_form(findings: Findings) -> dict[str, Any]:
    return asdict(findings) | {"sound": findings.sound}


def _print_findings(findings: Findings) -> None:
    size = f"{size_text(findings.bytes)}, {count_text(len(findings.tables), 'table')}"
    verdict = click.style("sound", fg="green") if findings.sound else click.style("damaged", fg="red")
    click.echo(f"{findings.path}: {verdict} ({size})")
    width = max((len(_table_name(table)) for table in findings.tables), default=0)
    for table in findings.tables:
        first, *others = _table_lines(table)
        click.echo(f"  {_table_name(table):<{width}}   {first}")
        for other in others:
            click.echo(f"  {'':<{width}}   {other}")
    for other in findings.others:
        click.echo(f"  {other}")
    if not findings.sound:
        if findings.sqlite and all(table.sound for table in findings.tables) and not findings.others:
            click.echo(f"  no table is concerned; SQLite says: {findings.sqlite[0]}")
        click.echo("Nothing was changed. To save what can be read into a new file:")
        click.echo(f"  penstock repair {findings.path} --into NEW")


def _table_name(table: TableFindings) -> str:
    """With its account and region, unless they are a single user's."""
    if table.account == "000000000000" and table.region == "us-east-1":
        return table.name
    return f"{table.account}/{table.region}/{table.name}"


def _table_lines(table: TableFindings) -> Iterator[str]:
    items = count_text(table.items, "item")
    yield f"{items}, sound" if table.sound else f"{items} can be read in place"
    if table.lost_pages:
        yield f"{count_text(table.lost_pages, 'page')} of items cannot be read, nor what is below them"
    if table.loose:
        yield f"{count_text(table.loose, 'item')} can be saved from pages that nothing leads to"
    if table.broken:
        yield f"{count_text(table.broken, 'item')} cannot be what was written"
    if table.known_lost:
        yield f"{count_text(table.known_lost, 'item')} lost, that an index knows of"
    if table.resized:
        yield f"{count_text(table.resized, 'item')} of another size than was noted: something in them may have changed"
    if table.keys:
        yield f"  {_keys_text(table.keys, table.broken + table.known_lost + table.resized)}"
    if table.expiries:
        yield f"times to live: {table.expiries}"
    for index in table.indexes:
        if not index.sound:
            yield from _index_lines(index)


def _index_lines(index: IndexFindings) -> Iterator[str]:
    faults = []
    if index.lost_pages:
        faults.append(f"{count_text(index.lost_pages, 'page')} cannot be read")
    if index.missing:
        faults.append(f"{count_text(index.missing, 'item')} without a row")
    if index.dangling:
        faults.append(f"{count_text(index.dangling, 'row')} that point at no item")
    if index.wrong:
        faults.append(f"{count_text(index.wrong, 'row')} with other values than the item has")
    yield f"index {index.name}: {', '.join(faults)}"
    if index.keys:
        yield f"  {_keys_text(index.keys, index.missing + index.dangling + index.wrong)}"


def _keys_text(keys: list[str], total: int) -> str:
    first = "; ".join(keys[:3])
    return f"{first} and {total - 3:,} more" if total > 3 else first


def _print_rescue(done: Rescued) -> None:
    width = max((len(table.name) for table in done.tables), default=0)
    for table in done.tables:
        text = f"{count_text(table.items, 'item')} saved"
        text += "".join(f", {rows:,} rows in {name}" for name, rows in table.index_rows.items())
        if table.lost or table.lost_pages:
            text += click.style(f"; lost: {_lost_text(table.lost, table.lost_pages)}", fg="red")
        click.echo(f"  {table.name:<{width}}   {text}")
    for note in done.notes:
        click.echo(f"  {note}")
    what = "everything was saved" if done.complete else "what could be read was saved"
    click.echo(f"{done.copy}: {what} from {done.source}, which is as it was. The new file was examined and is sound.")


def _lost_text(known: int, pages: int) -> str:
    if not known:
        return f"what was in {count_text(pages, 'page')} of items (no index knows what)"
    return f"{count_text(known, 'item')} at least" if pages else count_text(known, "item")


@groups.command("heat")
@db_option(help="The database of the run, a file or a running server")
@click.option("--top", type=click.IntRange(1, hot_keys.KEYS), default=10, show_default=True, help="How many of each.")
@json_option
def heat(target: str, top: int, as_json: bool) -> None:
    """Show the hottest keys and partitions of a run: what would be throttled in production.

    \b
    Examples:
      penstock serve --db orders.db --throttle
      penstock heat --db orders.db
      penstock heat --db http://127.0.0.1:8000 --json

    A file shows its latest run. Keys are counted in bounded memory: "at most" marks a count that may be too high.
    """
    counted = _heat_of_server(target) if "://" in target else _heat_of_file(target)
    hottest = {**counted, "resources": [_hottest(resource, top) for resource in counted["resources"]]}
    if as_json:
        print_json(hottest)
        return
    for line in _heat_lines(hottest, "█" if _can_show("█") else "#"):
        click.echo(line)


def _heat_of_file(path: str) -> dict[str, Any]:
    counted = hot_keys.load(path)
    if counted is None:
        raise PenstockError(f"{path} has no heat: it was not counted. {_SWITCH_ON}")
    return counted


def _heat_of_server(url: str) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--db {url}: heat is counted in a file, or by a server at http:// or https://.")
    try:
        return read_heat(url, _HEAT_SECONDS)
    except NoHeat as error:
        raise PenstockError(f"{error} {_SWITCH_ON}" if error.status else str(error)) from error


def _hottest(resource: dict[str, Any], top: int) -> dict[str, Any]:
    return {**resource, "keys": resource["keys"][:top], "partitions": resource["partitions"][:top]}


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _heat_lines(counted: dict[str, Any], block: str) -> Iterator[str]:
    if not counted["resources"]:
        yield "Nothing was read or written in this run."
    for resource in counted["resources"]:
        yield from _resource_lines(resource, block)
        yield ""


def _resource_lines(resource: dict[str, Any], block: str) -> Iterator[str]:
    name = resource["table"] + (f" / {resource['index']}" if resource["index"] else "")
    yield f"{name}: {resource['reads']:,.1f} read and {resource['writes']:,.1f} write units{_throttled_text(resource)}"
    total = resource["reads"] + resource["writes"]
    for title, rows in (
        ("keys", [(_short_key(one["key"]), one) for one in resource["keys"]]),
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
        bar = (block * round(_BAR_WIDTH * units / most)).ljust(_BAR_WIDTH)
        share = 100 * units / total if total else 0.0
        at_most = "at most " if one["over"] else ""
        yield f"    {label.ljust(width)}  {bar}  {share:5.1f} %  {at_most}{units:,.1f} units{_throttled_text(one)}"


def _units(one: dict[str, Any]) -> float:
    units: float = one["reads"] + one["writes"]
    return units


def _throttled_text(one: dict[str, Any]) -> str:
    return f", {one['throttled']:,} throttled" if one["throttled"] else ""


def _short_key(key: str) -> str:
    """A key on one line: control characters would move a terminal's cursor."""
    clean = "".join(character if character.isprintable() else "?" for character in key)
    return clean if len(clean) <= _LABEL_CHARACTERS else clean[: _LABEL_CHARACTERS - 1] + "…"
