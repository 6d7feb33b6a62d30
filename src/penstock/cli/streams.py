"""`penstock streams`: the changes of tables, and the groups of consumers that read them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import orjson

from penstock.cli.kit import databases
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.exit_codes import NOT_FOUND, CommandFailed
from penstock.cli.kit.groups import Group, sigterm_interrupts
from penstock.cli.kit.options import confirm, db_option, json_option, out_file_option, yes_option
from penstock.cli.kit.output import has_reader, one_line, write_text
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.streams import status as streams
from penstock.streams.change import KINDS, Change
from penstock.streams.consumer import Consumer, Start
from penstock.streams.errors import NoGroup, NoTable
from penstock.tables.data.item_text import line_of
from penstock.tables.iam_policy import policy_text

_NO_SUCH: Final = {NOT_FOUND: "there is no such table or group"}
_VIEWS: Final = ("NEW_AND_OLD_IMAGES", "NEW_IMAGE", "OLD_IMAGE", "KEYS_ONLY")
_COLOURS: Final = {"insert": "green", "modify": "yellow", "remove": "red"}
_MINUTE, _HOUR = 60, 3_600

table_argument = click.argument("table", metavar="TABLE", shell_complete=complete_tables)
group_option = click.option("--group", required=True, metavar="NAME", help="The group of consumers.")


class StreamsGroup(Group):
    """Ends with an exit code of its own where there is no such table or group."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return click.Group.invoke(self, ctx)
        except (NoGroup, NoTable) as error:
            raise CommandFailed(NOT_FOUND, str(error)) from error
        except PenstockError as error:
            raise click.ClickException(str(error)) from error


class StartType(click.ParamType[Any]):
    """`oldest`, `latest`, or a time such as 2026-11-18T09:30Z."""

    name = "start"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Start:
        if value in ("oldest", "latest") or isinstance(value, datetime):
            return value  # type: ignore[no-any-return]
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is neither oldest, latest nor a time such as 2026-11-18T09:30Z", param, ctx)
        return at if at.utcoffset() is not None else at.astimezone()


@click.group("streams", cls=StreamsGroup, exit_codes=_NO_SUCH)
def command() -> None:
    """Follow the changes of tables, and see how far groups of consumers are.

    \b
    Examples:
      penstock streams enable orders --db shop.db
      penstock streams tail orders --db shop.db
      penstock streams status orders --group mailer --db shop.db
      penstock streams reset orders --group mailer --to oldest --db shop.db

    A group is made by its first consumer: for change in db.table("orders").changes(group="mailer").
    """


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


@command.command("tail", short_help="Print the changes of a table as they happen.", exit_codes=_NO_SUCH)
@table_argument
@db_option(default=databases.only_database_file)
@click.option("--from", "start", type=StartType(), default="latest", show_default=True, metavar="PLACE",
              help="Where to begin: latest, oldest (24 hours), or a time: 2026-11-18T09:30Z.")  # fmt: skip
@click.option("--until-empty", is_flag=True, help="End when there is nothing more.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after this many changes.")
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only such changes; repeatable.")
@json_option
def tail(
    table: str,
    target: str,
    start: Start,
    until_empty: bool,
    limit: int | None,
    kinds: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print the changes of a table as they happen, until Ctrl-C. No group is involved, and nothing is written.

    \b
    Examples:
      penstock streams tail orders --db shop.db
      penstock streams tail orders --from oldest --until-empty --json --db shop.db | jq .new

    With --json each change is a line: kind, at, keys, new and old in DynamoDB's JSON, sequence_number, shard.
    """
    with databases.open_database(target) as db, sigterm_interrupts():
        consumer = Consumer(
            db, table, start=start, follow=not until_empty, kinds=kinds or None, on_gap="continue", poll_seconds=0.5
        )
        with consumer:
            for count, change in enumerate(consumer, 1):
                click.echo(orjson.dumps(change.form).decode() if as_json else _change_line(change))
                if count == limit or not has_reader():
                    return


def _change_line(change: Change) -> str:
    images = change.record["dynamodb"]
    shown = images.get("NewImage") or images.get("OldImage") or images["Keys"]
    kind = click.style(f"{change.kind:6}", fg=_COLOURS[change.kind])
    note = "  (expired)" if change.by_ttl else ""
    return f"{utc_text(change.at.timestamp())[:19]}Z  {kind}  {one_line(line_of(shown, exact=False))}{note}"


@command.command("list", short_help="List the streams, and the groups that read them.", exit_codes=_NO_SUCH)
@click.argument("table", metavar="[TABLE]", required=False, shell_complete=complete_tables)
@db_option(default=databases.only_database_file)
@json_option
def list_(table: str | None, target: str, as_json: bool) -> None:
    """List the streams of a table or of all, also those that were switched off less than 24 hours ago.

    \b
    Example:
      penstock streams list --db shop.db
    """
    with databases.open_database(target) as db:
        found = list(streams.list_streams(db, table))
        groups: dict[str, list[str]] = {}
        for one, name in streams.groups_of(db, table):
            groups.setdefault(one, []).append(name)
    if as_json:
        forms = [one.form | {"groups": groups.get(one.table, [])} for one in found]
        click.echo(orjson.dumps({"streams": forms}).decode())
        return
    if not found:
        click.echo("No streams. `penstock streams enable TABLE` switches one on.")
    for stream in found:
        is_open = sum(not one.is_closed for one in stream.shards)
        names = ", ".join(groups.get(stream.table, [])) or "no group"
        noun = "shard" if len(stream.shards) == 1 else "shards"
        shards = f"{len(stream.shards)} {noun}, {is_open} open"
        click.echo(one_line(f"{stream.table}  {stream.status}  {stream.view}  {shards}  {names}"))


@command.command("status", short_help="Show how far groups are, by shard, and who reads.", exit_codes=_NO_SUCH)
@table_argument
@click.option("--group", "name", metavar="NAME", help="One group. [all]")
@db_option(default=databases.only_database_file)
@json_option
def status(table: str, name: str | None, target: str, as_json: bool) -> None:
    """Show how far groups are: the lag of each shard (the age of its oldest change that is not done), and its holder.

    It reads one record of each open shard.

    \b
    Examples:
      penstock streams status orders --db shop.db
      penstock streams status orders --group mailer --json --db shop.db
    """
    with databases.open_database(target) as db:
        names = [name] if name is not None else [group for _, group in streams.groups_of(db, table)]
        found = [streams.group_status(db, table, one) for one in names]
    if as_json:
        click.echo(orjson.dumps({"groups": [one.form for one in found]}).decode())
        return
    if not found:
        click.echo(f'No group reads {table}: db.table("{table}").changes(group="mailer") makes one.')
    for one in found:
        _print_group(one)


def _print_group(one: streams.GroupStatus) -> None:
    notes = [f"lag {_lag_text(one.lag_seconds)}", f"{one.failed} failed"]
    notes += [f"{len(one.gaps)} gaps"] if one.gaps else []
    click.echo(one_line(f"{one.group.table} / {one.group.name}: {', '.join(notes)}"))
    for shard in one.shards:
        if shard.state.ended:
            continue
        lag = "trimmed" if shard.is_trimmed else _lag_text(shard.lag_seconds)
        last = "-" if shard.state.last_at is None else utc_text(shard.state.last_at)[:19] + "Z"
        click.echo(one_line(f"  {shard.state.id}  lag {lag}  done to {last}  {shard.holder or 'nobody reads it'}"))
    for gap in one.gaps:
        click.echo(one_line(f"  gap: {gap}"))


def _lag_text(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


@command.command("failed", short_help="List changes that a group's handler has failed for.", exit_codes=_NO_SUCH)
@table_argument
@group_option
@db_option(default=databases.only_database_file)
@json_option
def failed(table: str, group: str, target: str, as_json: bool) -> None:
    """List the changes that were kept aside, because the handler of process(…, on_failure="keep") has failed for them.

    \b
    Example:
      penstock streams failed orders --group mailer --db shop.db
    """
    with databases.open_database(target) as db:
        for one in streams.failed_changes(db, table, group).failed():
            change = one.change
            if as_json:
                facts = {"error": one.error, "failures": one.failures, "at": utc_text(one.at), "redrive": one.redrive}
                click.echo(orjson.dumps(facts | {"change": change.form}).decode())
                continue
            keys = line_of(change.record["dynamodb"]["Keys"], exact=False)
            note = "  (to be handled again)" if one.redrive else ""
            times = "1 failure" if one.failures == 1 else f"{one.failures} failures"
            click.echo(one_line(f"{one.id}  {change.kind}  {keys}  {times}  {one.error}{note}"))


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


def _tell(text: str, form: dict[str, object], as_json: bool) -> None:
    """What was done: a sentence, or JSON for machines."""
    click.echo(orjson.dumps(form).decode() if as_json else text)


@command.command("enable", short_help="Switch the stream of a table on.", exit_codes=_NO_SUCH)
@table_argument
@click.option("--view", type=click.Choice(_VIEWS), default=_VIEWS[0], show_default=True, help="What a record has.")
@db_option(default=databases.only_database_file)
@json_option
def enable(table: str, view: str, target: str, as_json: bool) -> None:
    """Switch the stream of a table on. Where the table is defined as code, add stream="NEW_AND_OLD_IMAGES" there.

    \b
    Example:
      penstock streams enable orders --db shop.db
    """
    with databases.open_database(target) as db:
        is_new = streams.enable_stream(db, table, view)
    word = "on" if is_new else "on already"
    _tell(f"The stream of {table} is {word} ({view}).", {"table": table, "view": view, "new": is_new}, as_json)


@command.command("reset", short_help="Begin anew with a group, at another place.", exit_codes=_NO_SUCH)
@table_argument
@group_option
@click.option("--to", "start", type=StartType(), required=True, metavar="PLACE",
              help="oldest (24 hours), latest, or a time: 2026-11-18T09:30Z.")  # fmt: skip
@db_option(default=databases.only_database_file)
@yes_option
@json_option
def reset(table: str, group: str, start: Start, target: str, yes: bool, as_json: bool) -> None:
    """Begin anew with a group, at another place. Consumers that run go there by themselves, within a lease.

    \b
    Examples:
      penstock streams reset orders --group mailer --to oldest --db shop.db
      penstock streams reset orders --group mailer --to 2026-11-18T09:30Z --yes --db shop.db

    To oldest, changes of the last 24 hours come again. To latest, those that are not done are skipped.
    """
    with databases.open_database(target) as db:
        streams.group_status(db, table, group)
        confirm(f"Reset the group {group} of {table} to {start}?", yes=yes)
        streams.reset_group(db, table, group, start)
    _tell(f"{table} / {group}: reset to {start}.", {"table": table, "group": group, "reset_to": str(start)}, as_json)


@command.command("delete", short_help="Forget a group.", exit_codes=_NO_SUCH)
@table_argument
@group_option
@db_option(default=databases.only_database_file)
@yes_option
@json_option
def delete(table: str, group: str, target: str, yes: bool, as_json: bool) -> None:
    """Forget a group: its checkpoints, its failed changes and its gaps.

    \b
    Example:
      penstock streams delete orders --group mailer --db shop.db
    """
    with databases.open_database(target) as db:
        streams.failed_changes(db, table, group)
        confirm(f"Delete the group {group} of {table}, with all that is kept of it?", yes=yes)
        streams.delete_group(db, table, group)
    _tell(f"{table} / {group}: deleted.", {"table": table, "group": group, "deleted": True}, as_json)


@command.command("redrive", short_help="Have failed changes handled again.", exit_codes=_NO_SUCH)
@table_argument
@group_option
@click.argument("ids", nargs=-1, metavar="[SEQUENCE-NUMBER]...")
@db_option(default=databases.only_database_file)
@json_option
def redrive(table: str, group: str, ids: tuple[str, ...], target: str, as_json: bool) -> None:
    """Have failed changes handled again, all or some, by the consumers of the group that run.

    \b
    Example:
      penstock streams redrive orders --group mailer --db shop.db
    """
    with databases.open_database(target) as db:
        groups = streams.failed_changes(db, table, group)
        count = groups.redrive(ids or [one.id for one in groups.failed()])
    handled = "1 failed change is" if count == 1 else f"{count} failed changes are"
    text = f"{handled} handled again." if count else "No such failed changes."
    _tell(text, {"table": table, "group": group, "redriven": count}, as_json)


@command.command("policy", short_help="Write the least IAM policy for consumers.")
@table_argument
@click.option("--region", default="*", show_default=True, metavar="NAME", help="The table's region.")
@click.option("--account", default="*", show_default=True, metavar="ID", help="The table's AWS account.")
@click.option("--partition", default="aws", show_default=True, metavar="NAME", help="aws, aws-cn, aws-us-gov.")
@out_file_option
@json_option
def policy(table: str, out: Path | None, as_json: bool, **options: str) -> None:
    """Write the least IAM policy for consumers of a table's changes.

    \b
    Example:
      penstock streams policy orders --region eu-west-2 --account 123456789012
    """
    write_text(policy_text(streams.consumer_policy(table, **options)), out, as_json=as_json)
