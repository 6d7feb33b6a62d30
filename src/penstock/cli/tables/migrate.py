"""`penstock tables migrate`: the items of tables brought into a new shape, by files with numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from penstock.cli.kit import groups
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import DIFFERENT, WORK_FAILED, end_with
from penstock.cli.kit.options import confirm, db_option, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import ProgressLine, one_line, print_json, print_result
from penstock.cli.tables.options import env_option, naming_of, pacer_of, policy_hint, rate_option, segments_option
from penstock.client.wrappers.metering import DEFAULT_PRICES
from penstock.clock import utc_text
from penstock.tables.migrations.migration import DEFAULT_FOLDER, Migration, load_folder, write_new
from penstock.tables.migrations.migrator import Migrator, Options, Status, counts_text
from penstock.tables.migrations.preview import SAMPLE, Preview, diff_lines, key_text
from penstock.tables.migrations.run import SEGMENTS
from penstock.tables.migrations.store import Progress

_SHOWN_FAILED = 5

_HELP = """Bring the items of tables into a new shape, by files with numbers.

\b
Examples:
  penstock tables migrate new split_name --table users
  penstock tables migrate plan --db aws://eu-west-2
  penstock tables migrate up --db aws://eu-west-2

A migration is a Python file, migrations/0001_split_name.py, with a function up(item) that returns the item in its new
shape. It runs in parallel while the table is in use, and continues after a kill. What was applied is in the table
penstock-state.
"""

command = groups.Group(
    "migrate",
    help=_HELP,
    exit_codes={WORK_FAILED: "some items failed", DIFFERENT: "items of the old shape (verify)"},
)

folder_option = click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER, show_default=True,
    metavar="DIR", help="Where the migrations are.",
)  # fmt: skip
prefix_option = click.option("--prefix", metavar="TEXT", default="", help="What the tables' names begin with.")
to_option = click.option("--to", metavar="NUMBER", help="Up to this migration, by number or name.")
sample_option = click.option(
    "--sample", type=click.IntRange(1, 100_000), default=SAMPLE, show_default=True, help="Items to try, at most."
)
workers_option = click.option(
    "--workers", type=click.IntRange(1, 256), help="Calls in flight at once. [what the database is worth]"
)
backup_option = click.option("--backup/--no-backup", default=True, help="A backup or a point in time before. [on]")
ids_option = click.option("--only", "ids", multiple=True, metavar="NUMBER", help="Only this migration; repeatable.")


def common_options(function: Callable[..., None]) -> Callable[..., None]:
    """--folder, --table, --env, --prefix, --db and --json; the migrations are given as `migrations`."""

    @wraps(function)
    def with_migrations(folder: Path, only: tuple[str, ...], env: str | None, prefix: str, **rest: Any) -> None:
        naming = naming_of(prefix, env)
        migrations = load_folder(folder)
        known = {one.table for one in migrations}
        names = {name if name in known else naming.suffix(name) or name for name in only}
        unknown = names - known
        if unknown:
            have = ", ".join(sorted(known)) or "none"
            raise click.BadParameter(f"no migration is for {', '.join(sorted(unknown))}; there are some for {have}",
                                     param_hint="--table")  # fmt: skip
        chosen = tuple(one for one in migrations if not names or one.table in names)
        function(migrations=chosen, naming=naming, **rest)

    only_option = click.option("--table", "only", multiple=True, metavar="NAME", help="Only this table; repeatable.")
    for option in (json_option, db_option(), prefix_option, env_option, only_option, folder_option):
        with_migrations = option(with_migrations)
    return with_migrations


@contextmanager
def _migrator(target: str, migrations: tuple[Migration, ...], naming: Any, **options: Any) -> Iterator[Migrator]:
    rate = options.pop("rate", None)
    names = [naming.full_name(one) for one in dict.fromkeys(one.table for one in migrations)]
    with policy_hint("migrate", *names), open_database(target) as db:
        yield Migrator(db, migrations, naming, Options(pacer=pacer_of(db, rate), **options))


@command.command("new")
@click.argument("name")
@click.option("--table", required=True, metavar="NAME", help="The table, without prefix and environment.")
@folder_option
@json_option
def new(name: str, table: str, folder: Path, as_json: bool) -> None:
    """Write a template with the next number.

    \b
    Example:
      penstock tables migrate new split_name --table users
    """
    path = write_new(folder, name, table)
    print_result({"file": str(path)}, f"Written: {path}\nEdit it; then: penstock tables migrate plan", as_json=as_json)


@command.command("status")
@common_options
def status(migrations: tuple[Migration, ...], naming: Any, target: str, as_json: bool) -> None:
    """What is applied, what is pending, and which items failed.

    \b
    Example:
      penstock tables migrate status --db aws://eu-west-2
    """
    with _migrator(target, migrations, naming) as migrator:
        found = migrator.statuses()
    if as_json:
        print_json([one.form for one in found])
    else:
        _show_statuses(found)
    end_with(WORK_FAILED if any(one.failed for one in found) else 0)


def _show_statuses(found: list[Status]) -> None:
    if not found:
        click.echo("There are no migrations.")
    width = max((len(one.id) for one in found), default=0)
    tables = max((len(one.table) for one in found), default=0)
    for one in found:
        click.echo(f"{one.id.ljust(width)}  {one.table.ljust(tables)}  {_status_text(one)}".rstrip())
        if one.progress is not None and one.progress.mark:
            click.echo(f"    before it: {one.progress.mark}")
        _show_failed(one)


def _status_text(one: Status) -> str:
    if one.progress is None:
        return "pending"
    notes = [
        "its file is not there" if one.migration is None else "its file has changed since" if one.changed_file else ""
    ]
    notes.append(f"worked on by {one.holder}" if one.holder else "stopped" if one.state != "applied" else "")
    when = utc_text(one.progress.ended_at or one.progress.started_at)[:19]
    return "; ".join([f"{one.state} {when}Z, {counts_text(one.progress.counts)}", *filter(None, notes)])


def _show_failed(one: Status) -> None:
    for failed in one.failed[:_SHOWN_FAILED]:
        click.echo(one_line(f"    {key_text(failed.key)}: {failed.error.kind}: {failed.error.message}"))
    if len(one.failed) > _SHOWN_FAILED:
        click.echo(f"    … and {len(one.failed) - _SHOWN_FAILED:,} more (--json lists all)")


@command.command("plan")
@to_option
@sample_option
@common_options
def plan(
    migrations: tuple[Migration, ...], naming: Any, target: str, as_json: bool, to: str | None, sample: int
) -> None:
    """Try pending migrations on a sample, and show what they change and cost. Nothing is written.

    \b
    Example:
      penstock tables migrate plan --db aws://eu-west-2
    """
    with _migrator(target, migrations, naming, sample=sample) as migrator:
        _plan(migrator, migrator.to_apply(to), as_json)


def _plan(migrator: Migrator, chosen: list[Status], as_json: bool) -> None:
    found = [migrator.preview(one.migration) for one in chosen if one.migration is not None]
    if as_json:
        print_json([one.form() for one in found])
    elif not found:
        click.echo("Nothing to do: all migrations are applied.")
    for one in found if not as_json else ():
        _show_preview(one)
    end_with(WORK_FAILED if any(one.failed or one.is_refused for one in found) else 0)


def _show_preview(one: Preview) -> None:
    click.echo(f"{one.migration.id} on {one.table}: about {one.expected:,} of {one.items:,} items would change")
    click.echo(
        f"  tried on {one.scanned:,}: {one.changed:,} changed, {one.deleted:,} deleted, {len(one.failed):,} failed"
    )
    indexes = f", {one.indexes} indexes included" if one.indexes else ""
    click.echo(
        f"  about {one.read_units:,.0f} read and {one.write_units:,.0f} write units{indexes}: "
        f"${one.dollars:,.2f} on demand ({DEFAULT_PRICES.region}, {DEFAULT_PRICES.as_of})"
    )
    for example in one.examples:
        for line in diff_lines(example, one.key_names):
            colour = {"-": "red", "+": "green"}.get(line.strip()[:1])
            click.echo("  " + (click.style(one_line(line), fg=colour) if colour else one_line(line)))
    for key, error in one.failed[:_SHOWN_FAILED]:
        click.echo(one_line(f"  ! {key_text(key)}: {error.kind}: {error.message}"))
    if one.is_refused:
        click.echo(
            f"  ! up() is not idempotent: a second time changes {len(one.unstable):,} of them again, such as "
            f"{one_line(key_text(one.unstable[0]))}. Select the old shape with where = …, or name a version attribute."
        )
    elif one.migration.version is None and one.changed:
        click.echo("  a second time changes nothing")


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    """What `up` and `down` share."""
    options = (yes_option, dry_run_option, rate_option, workers_option, segments_option(SEGMENTS), backup_option)
    for option in (sample_option, *options):
        function = option(function)
    return function


@command.command("up")
@to_option
@click.option("--retry-failed", is_flag=True, help="Only the items that failed, once more.")
@click.option("--again", is_flag=True, help="Applied ones once more, for items of the old shape that came later.")
@click.option("--accept-changed", is_flag=True, help="Take the changed files of applied migrations as they are.")
@ids_option
@run_options
@common_options
def up(
    migrations: tuple[Migration, ...],
    naming: Any,
    target: str,
    as_json: bool,
    to: str | None,
    retry_failed: bool,
    again: bool,
    ids: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Apply what is pending, in order. Run it again to continue after an interruption.

    \b
    Examples:
      penstock tables migrate up --db aws://eu-west-2 --rate 500
      penstock tables migrate up --retry-failed --db aws://eu-west-2
    """
    if retry_failed and again:
        raise click.UsageError("Give one of --retry-failed and --again.")
    if ids and not again:
        raise click.UsageError("--only goes with --again; --to says where `up` ends.")
    line = _Line(quiet=as_json)
    with _migrator(target, migrations, naming, tell=line.show, say=line.say, **options) as migrator:
        if dry_run:
            _plan(migrator, migrator.to_apply(to), as_json)
            return
        if retry_failed:
            work = migrator.retry_failed()
        elif again:
            work = migrator.again(ids)
        else:
            chosen = migrator.to_apply(to)
            if chosen:
                confirm(f"Migrate {', '.join(f'{one.table} ({one.id})' for one in chosen)}?", yes=yes)
            work = migrator.up(to)
        _run(work, line, as_json, "Nothing to do.")


@command.command("down")
@click.option("--to", metavar="NUMBER", help="Undo all after this one (0: all); else only the last.")
@run_options
@common_options
def down(
    migrations: tuple[Migration, ...],
    naming: Any,
    target: str,
    as_json: bool,
    to: str | None,
    yes: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Undo the last migration, or all after --to, with its function down(item).

    \b
    Example:
      penstock tables migrate down --db aws://eu-west-2
    """
    line = _Line(quiet=as_json)
    with _migrator(target, migrations, naming, tell=line.show, say=line.say, **options) as migrator:
        chosen = migrator.to_revert(to)
        if dry_run:
            found = [migrator.preview(one, "down") for one in chosen]
            if as_json:
                print_json([one.form() for one in found])
            for one in found if not as_json else ():
                _show_preview(one)
            return
        if chosen:
            confirm(f"Undo {', '.join(one.id for one in chosen)}?", yes=yes)
        _run(migrator.down(to), line, as_json, "Nothing to undo.")


class _Line(ProgressLine):
    """`0003_split_name: 120,000 changed of 200,000 items, 9,000 a second`."""

    def show(self, progress: Progress) -> None:
        if self.is_due():
            rate = progress.counts.scanned / max(time.time() - progress.started_at, 0.001)
            self.tell(f"{progress.id}: {counts_text(progress.counts)}, {rate:,.0f} a second")

    def say(self, text: str) -> None:
        self.end()
        click.echo(text, err=True)


def _run(work: Iterator[Status], line: _Line, as_json: bool, nothing: str) -> None:
    done: list[Status] = []
    with resumable("what was done is kept."):
        for one in work:
            line.end()
            done.append(one)
            if not as_json:
                _show_done(one)
    if as_json:
        print_json([one.form for one in done])
    elif not done:
        click.echo(nothing)
    end_with(WORK_FAILED if any(one.failed for one in done) else 0)


def _show_done(one: Status) -> None:
    click.echo(f"{one.id}  {one.table}: {_status_text(one) if one.progress is not None else 'undone'}")
    if one.progress is not None and one.progress.mark:
        click.echo(f"    before it: {one.progress.mark}")
    _show_failed(one)
    if one.failed:
        click.echo("Mend them, or the file; then: penstock tables migrate up --retry-failed")


@command.command("verify", exit_codes={DIFFERENT: "there are items of the old shape"})
@ids_option
@segments_option(SEGMENTS)
@rate_option
@common_options
def verify(
    migrations: tuple[Migration, ...],
    naming: Any,
    target: str,
    as_json: bool,
    ids: tuple[str, ...],
    segments: int,
    rate: float | None,
) -> None:
    """Count items of the old shape that live writers have added since; reads the whole table.

    \b
    Example:
      penstock tables migrate verify --db aws://eu-west-2

    Of each table, the migration that was applied last is looked at; --only names others.
    """
    with (
        _migrator(target, migrations, naming, segments=segments, rate=rate) as migrator,
        resumable("nothing was changed."),
    ):
        found = migrator.verify(ids)
    if as_json:
        print_json([one.form for one in found])
    for one in found if not as_json else ():
        old = f"{one.old:,} of the old shape" + (f", {one.failing:,} that up() fails for" if one.failing else "")
        click.echo(f"{one.id}  {one.table}: {one.scanned:,} items, {old}")
        for key in one.keys:
            click.echo(one_line(f"    {key_text(key)}"))
    if not found and not as_json:
        click.echo("Nothing is applied.")
    if any(one.old for one in found) and not as_json:
        click.echo("Update what writes them; then: penstock tables migrate up --again")
    end_with(DIFFERENT if any(one.old or one.failing for one in found) else 0)
