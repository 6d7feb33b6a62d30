"""`penstock construction dlq replay`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click

from penstock.cli.construction.options import handler_option, intake_of, opened, place_options, show_receipts
from penstock.cli.kit.options import confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import print_json
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.dead_letter import Status
from penstock.systems.construction_expenses.intake import Intake, Receipt


@click.command("replay")
@click.argument("entry_ids", metavar="[ENTRY]...", nargs=-1)
@click.option("--status", type=click.Choice(["pending", "failed"]), help="All those with it, oldest first.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="With --status: at most so many.")
@place_options
@handler_option
@dry_run_option
@yes_option
@json_option
def command(
    entry_ids: tuple[str, ...],
    status: Status | None,
    limit: int | None,
    url: str,
    env: str | None,
    prefix: str | None,
    handler: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Try dead letters again, with all their retries: those named, or all of a status.

    \b
    Examples:
      penstock construction dlq replay dlq_evt_01 --url expenses.db
      penstock construction dlq replay --status pending --url expenses.db --dry-run
      penstock construction dlq replay --status failed --limit 100 --url expenses.db --yes

    What was replayed already is left alone, so it may be run again, and by several at once.

    Exit codes: 0 all done, 2 not confirmed, 3 one has failed again, 4 there is no such entry, 130 interrupted.
    """
    if bool(entry_ids) == (status is not None):
        raise click.UsageError("Give the entries to replay, or --status for all that have it.")
    with opened(url, env, prefix) as books, resumable("What is replayed is marked."):
        if dry_run:
            _show_plan(list(_chosen(books, entry_ids, status, limit)), as_json)
            return
        number = sum(
            1 for _ in _chosen(books, entry_ids, status, limit)
        )  # one that is missing is told before any is done
        if status is not None and number:
            confirm(f"Replay {number:,} dead letters of {url}?", yes=yes)
        show_receipts(_replayed(intake_of(books, handler), entry_ids, status, limit), as_json)


def _chosen(books: Books, entry_ids: tuple[str, ...], status: Status | None, limit: int | None) -> Iterator[str]:
    if status is None:
        return (books.dead_letters.required(entry_id)["dlqEntryId"] for entry_id in entry_ids)
    return (entry["dlqEntryId"] for entry in islice(books.dead_letters.by_status(status), limit))


def _replayed(
    intake: Intake, entry_ids: tuple[str, ...], status: Status | None, limit: int | None
) -> Iterator[Receipt]:
    if status is None:
        return (intake.replay(entry_id) for entry_id in entry_ids)
    return intake.replay_all(status, limit=limit)


def _show_plan(entry_ids: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": True, "entries": entry_ids})
        return
    for entry_id in entry_ids:
        click.echo(entry_id)
    click.echo(f"Would replay {len(entry_ids):,}.")
