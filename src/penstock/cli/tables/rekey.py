"""`penstock tables rekey`: a table's primary key changed, with its data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from penstock.cli.kit import groups
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import confirm, db_option, json_option, resumable, yes_option
from penstock.cli.kit.output import ProgressLine, print_json, print_result
from penstock.cli.tables.options import pacer_of, policy_hint, rate_option, segments_option
from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.definitions.export_file import read_export
from penstock.tables.rekey import rekey
from penstock.tables.rekey.rekey import plan_rekey
from penstock.tables.rekey.state import LEASE_SECONDS, RekeyRun, RekeyStore

_ACTIONS = ("status", "confirm", "rollback")


@groups.command("rekey")
@click.argument(
    "words", nargs=-1, required=True, metavar="[status|confirm|rollback] TABLE", shell_complete=complete_tables
)
@click.option("--key", metavar="KEY", help="The new key, such as job_id:S,conversation_id:S.")
@click.option("--into", metavar="NEW", help="The new table's name.")
@click.option(
    "--map", "mapping", metavar="MAP", help="module:function, or new=old,… ; without it items stay as they are."
)
@click.option("--index", "indexes", multiple=True, metavar="NAME=KEY", help="A further index of the new table.")
@segments_option(rekey.SEGMENTS)
@click.option(
    "--max-lag",
    type=float,
    default=rekey.MAX_LAG_SECONDS,
    show_default=True,
    help="Seconds that the new table may be behind.",
)
@click.option(
    "--lease",
    type=float,
    default=LEASE_SECONDS,
    show_default=True,
    help="Seconds that a killed run keeps its lease.",
)
@click.option("--force", is_flag=True, help="confirm: even if the old table is still written to.")
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@db_option()
@rate_option
@yes_option
@json_option
def command(words: tuple[str, ...], target: str, as_json: bool, **options: Any) -> None:
    """Change a table's primary key, with its data, while it is in use.

    \b
    Examples:
      penstock tables rekey Embeddings --key job_id:S,comment_id:N --into Embeddings2 --db aws://eu-west-2
      penstock tables rekey status Embeddings --db aws://eu-west-2
      penstock tables rekey confirm Embeddings --db aws://eu-west-2
      penstock tables rekey rollback Embeddings --db aws://eu-west-2

    The command creates a new table, fills it by a scan, and keeps it up to date from the old one's stream until you
    confirm; the old table is not changed. DynamoDB cannot rename a table: give your programs the new name. If the
    command is killed, run it again to continue. Until `confirm`, `rollback` deletes the new table.
    """
    action, table = _words(words)
    line = ProgressLine(quiet=as_json)
    with policy_hint("rekey", table, *filter(None, [options["into"]])), open_database(target) as db:
        run = rekey.Rekey(db, RekeyStore(db, lease_seconds=options["lease"]), _options(db, line, options))
        if action == "status":
            _status(db, table, as_json)
        elif options["dry_run"] and action != "work":
            _show_dry_run(db, action, table, as_json)
        elif action == "rollback":
            _rollback(db, run, table, as_json, yes=options["yes"])
        elif action == "confirm":
            with resumable("nothing was confirmed."):
                job = run.confirm(table, force=options["force"])
            line.end()
            _show(job, as_json, _CONFIRMED)
        else:
            _work(db, run, table, line, as_json, options)


def _words(words: tuple[str, ...]) -> tuple[str, str]:
    if len(words) == 1:
        return "work", words[0]
    if len(words) == 2 and words[0] in _ACTIONS:
        return words[0], words[1]
    raise click.UsageError(f"Give a TABLE, or one of {', '.join(_ACTIONS)} and a TABLE.")


def _options(db: Database, line: ProgressLine, given: dict[str, Any]) -> rekey.Options:
    return rekey.Options(
        segments=given["segments"],
        max_lag_seconds=given["max_lag"],
        pacer=pacer_of(db, given["rate"]),
        tell=lambda job: line.tell(_progress(job)),
    )


def _work(db: Database, run: rekey.Rekey, table: str, line: ProgressLine, as_json: bool, given: dict[str, Any]) -> None:
    found = RekeyStore(db).read(table)
    if found is not None and found.phase != "confirmed":
        _same_job(found, given)
        if given["dry_run"]:
            text = f"Would continue the rekey of {table} into {found.into}, which is {found.phase}."
            print_result(_form(found) | {"dry_run": True}, text, as_json=as_json)
            return
        with resumable("what was done is kept."):
            job = run.resume(table, given["mapping"])
    else:
        if not given["key"] or not given["into"]:
            raise click.UsageError(f"There is no rekey of {table} under way: give --key and --into to begin one.")
        planned = plan_rekey(
            db, table, given["into"], given["key"], map=given["mapping"] or "", indexes=given["indexes"]
        )
        if given["dry_run"]:
            print_result(_form(planned) | {"dry_run": True}, _plan(db, planned), as_json=as_json)
            return
        if not as_json:
            click.echo(_plan(db, planned))
        with resumable("what was done is kept."):
            job = run.start(planned)
    line.end()
    _show(job, as_json, _READY)


def _same_job(found: RekeyRun, given: dict[str, Any]) -> None:
    """A rekey that has begun keeps its options, except for its mapping."""
    for name, old in (("key", found.key), ("into", found.into)):
        if given[name] and given[name] != old:
            raise PenstockError(
                f"A rekey of {found.source} with --{name} {old} is {found.phase}. "
                f"Continue it, or end it with `penstock tables rekey rollback {found.source}`."
            )


def _plan(db: Database, job: RekeyRun) -> str:
    wanted = read_export(job.definition, "the plan")
    old = ", ".join(db.key_of(job.source).names)
    stream = "\n  ~ its stream is switched on until you confirm" if job.stream_is_ours else ""
    indexes = "".join(f"\n  + index {one.name} ({one.key})" for one in wanted.indexes)
    return (
        f"{job.source} ({old}) → {job.into} ({wanted.key}){indexes}{stream}\n  its items are copied; it is not changed"
    )


def _rollback(db: Database, run: rekey.Rekey, table: str, as_json: bool, *, yes: bool) -> None:
    job = RekeyStore(db).read(table)
    if job is not None and job.phase != "confirmed":
        confirm(f"This deletes {job.into}; {table} stays as it is. Go on?", yes=yes)
    with resumable("the rollback is not finished."):
        job = run.rollback(table)
    text = f"Rolled back: {job.into} is deleted, {table} is as it was."
    print_result({"source": table, "into": job.into, "phase": "rolled back"}, text, as_json=as_json)


def _show_dry_run(db: Database, action: str, table: str, as_json: bool) -> None:
    job = _job(db, table)
    deed = (
        f"delete {job.into}"
        if action == "rollback"
        else f"catch up, compare once more and put the settings on {job.into}"
    )
    text = f"Would {deed}; the rekey of {table} is {job.phase}."
    print_result(_form(job) | {"dry_run": True}, text, as_json=as_json)


def _job(db: Database, table: str) -> RekeyRun:
    job = RekeyStore(db).read(table)
    if job is None:
        raise PenstockError(f"There is no rekey of {table} in {db.name}. `--key` and `--into` begin one.")
    return job


def _status(db: Database, table: str, as_json: bool) -> None:
    store, job = RekeyStore(db), _job(db, table)
    _show(job, as_json, {"ready": _READY, "confirmed": _CONFIRMED}.get(job.phase, ""), held_by=store.holder(table))


def _progress(job: RekeyRun) -> str:
    lag = "" if job.lag_seconds is None else f", {job.lag_seconds:.0f} s behind"
    return (
        f"{job.phase}: {job.copied:,} copied, {job.followed:,} changes followed, {job.compared:,} compared, "
        f"{job.problem_count:,} problems{lag}"
    )


_READY = """\
Ready. To cut over:
  1. stop what writes to {source}
  2. penstock tables rekey confirm {source}
  3. give your programs the name {into}, and start them
DynamoDB cannot swap or rename tables; until step 2, `rekey rollback {source}` undoes everything."""

_CONFIRMED = """\
Confirmed: {into} is complete. Give your programs that name; {source} is left as it is,
and `penstock tables destroy` deletes it when you no longer want it."""


def _form(job: RekeyRun) -> dict[str, Any]:
    inner = ("places", "shards", "doubts", "definition")
    return {name: value for name, value in asdict(job).items() if name not in inner}


def _show(job: RekeyRun, as_json: bool, text: str, *, held_by: str | None = None) -> None:
    if as_json:
        print_json(_form(job) | {"held_by": held_by})
        return
    click.echo(f"{job.source} → {job.into}: {_progress(job)}")
    if held_by:
        click.echo(f"Worked on by {held_by}.")
    if job.phase in ("ready", "confirmed"):
        click.echo(f"{job.source_items:,} items compared, {job.into_items:,} in {job.into}, {job.repaired:,} repaired.")
    for problem in job.problems:
        click.echo(f"  {problem}")
    if text:
        click.echo(text.format(source=job.source, into=job.into))
