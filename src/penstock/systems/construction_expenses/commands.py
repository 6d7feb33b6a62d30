"""`penstock construction`: the construction-expenses application."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import orjson

from penstock.cli.kit.exit_codes import NOT_FOUND, WORK_FAILED
from penstock.cli.kit.groups import Group, group
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.options import (
    confirm,
    dry_run_option,
    json_option,
    limit_option,
    listen_options,
    resumable,
    token_option,
    yes_option,
)
from penstock.cli.kit.output import ProgressLine, plain, print_json
from penstock.client.items.values import Item
from penstock.errors import PenstockError
from penstock.server.auth.authorization import is_loopback
from penstock.server.server import listen
from penstock.systems.construction_expenses import sample
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.place import Place, show_page, with_place
from penstock.systems.construction_expenses.tables import tables
from penstock.systems.construction_expenses.webhooks.intake import Handler, Intake, Receipt
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.signatures import (
    KEY_VARIABLE,
    SECRET_VARIABLE,
    TOLERANCE_SECONDS,
    PaddleKeys,
    keys_of,
)
from penstock.systems.construction_expenses.webhooks.webhook import BadWebhook, read_webhooks
from penstock.systems.construction_expenses.webhooks.webhook_record import STATUSES, Status
from penstock.tables.definitions.sources import LoadingError, named_object

if TYPE_CHECKING:  # most commands need no jobs
    from penstock.jobs.model.job import Job
    from penstock.systems.construction_expenses.webhooks.receiver import Receiver

DEFAULT_PORT = 8081

handler_option = click.option(
    "--handler",
    metavar="MODULE:FUNCTION",
    help="The function that handles a webhook: (webhook, books) -> actions to write. [Paddle's events]",
)


def intake_of(books: Books, handler: str | None, **settings: Any) -> Intake:
    return Intake(books, handle if handler is None else _load_handler(handler), **settings)


def _load_handler(given: str) -> Handler:
    module, _, attribute = given.partition(":")
    if not module or not attribute:
        raise LoadingError(given, "a handler is written MODULE:FUNCTION", "For example myapp.webhooks:handle")
    found: Handler = named_object(given, module, attribute)
    if not callable(found):
        raise LoadingError(given, f"{attribute} is no function", "Name a function (webhook, books) -> actions")
    return found


# ── showing ──────────────────────────────────────────────────────────────────────────────────────


def receipt_line(receipt: Receipt) -> str:
    times = "1 attempt" if receipt.attempts == 1 else f"{receipt.attempts} attempts"
    line = f"{receipt.webhook_id}  {receipt.outcome}  {receipt.status} after {times}"
    if receipt.reason is not None:
        line += f": {receipt.reason}"
    if receipt.outcome == "dead-lettered":
        line += f" [{receipt.dlq_entry_id}]"
    return line


def show_receipts(receipts: Iterable[Receipt], as_json: bool) -> None:
    """Each as it comes; exit code 3 if one of them is in the dead-letter table."""
    found = []
    for receipt in receipts:
        found.append(receipt)
        if not as_json:
            click.echo(receipt_line(receipt))
    if as_json:
        print_json([asdict(receipt) for receipt in found])
    elif not found:
        click.echo("Nothing to do.")
    if any(receipt.outcome == "dead-lettered" for receipt in found):
        raise click.exceptions.Exit(WORK_FAILED)


_LAZY = {
    "expenses": (
        "penstock.systems.construction_expenses.expenses.commands",
        "Add, list, import and total expenses.",
    ),
    "tables": (
        "penstock.systems.construction_expenses.table_commands",
        "Create, change, verify and export the tables: `penstock tables` with this system's variables.",
    ),
}


@group(
    "construction",
    lazy=_LAZY,
    exit_codes={WORK_FAILED: "a webhook is in the dead-letter table", NOT_FOUND: "not found"},
)
def command() -> None:
    """Manage construction expenses: 13 tables of companies, payments and webhooks.

    \b
    Examples:
      penstock construction load-sample --db expenses.db --yes
      penstock construction company show sample-c0001 --db expenses.db
      penstock construction webhook event.json --db expenses.db
      penstock construction serve --db expenses.db --secret-file secrets.txt
      penstock construction dlq list --db expenses.db
      penstock construction dlq replay --status pending --db expenses.db --yes

    ENVIRONMENT and TABLE_PREFIX (--env, --prefix) select the tables; `penstock construction tables` creates, changes
    and exports them.
    """


@command.group("company", cls=Group)
def company() -> None:
    """Show companies and their items.

    \b
    Examples:
      penstock construction company list --db expenses.db
      penstock construction company show sample-c0001 --db expenses.db
      penstock construction company find company-expenses contractorId=sample-k0001-0 --db expenses.db
    """


@company.command("list")
@with_place
@limit_option
@token_option
@json_option
def list_companies(place: Place, limit: int, token: str | None, as_json: bool) -> None:
    """List companies, in no particular order.

    \b
    Examples:
      penstock construction company list --db expenses.db
      penstock construction company list --db aws://us-east-1 --env staging --json --limit 1000
    """
    with place.books() as books:
        found = books.companies.all(limit=limit, token=token)
        show_page(found, _company_line, as_json)


def _company_line(company: Item) -> str:
    return f"{company['companyId']:20}  {company.get('name', '')}".rstrip()


@company.command("show", exit_codes={NOT_FOUND: "there is no such company"})
@click.argument("company_id", metavar="COMPANY")
@with_place
@json_option
def show_company(company_id: str, place: Place, as_json: bool) -> None:
    """Show a company, its subscription, and the number of its items of each kind.

    \b
    Examples:
      penstock construction company show sample-c0001 --db expenses.db
      penstock construction company show sample-c0001 --db expenses.db --json
    """
    with place.books() as books:
        subscription = books.subscriptions.get(company_id)
        counts = books.summary(company_id)
        # Expenses may be imported, and webhooks come, before anybody has written the company itself.
        is_known = subscription is not None or any(counts.values())
        company = books.companies.get(company_id) if is_known else books.companies.required(company_id)
    company = company or {"companyId": company_id}
    if as_json:
        print_json({"company": plain(company), "subscription": plain(subscription), "counts": counts})
        return
    click.echo(f"{company['companyId']}  {company.get('name', '')}".rstrip())
    line = "none" if subscription is None else f"{subscription['subscriptionId']} {subscription.get('status', '')}"
    click.echo(f"subscription  {line.rstrip()}")
    for kind, count in counts.items():
        click.echo(f"{kind:13} {count:,}")


@company.command("find")
@click.argument("suffix", metavar="TABLE")
@click.argument("attributes", metavar="ATTRIBUTE=VALUE...", nargs=-1, required=True)
@with_place
@limit_option
@token_option
@json_option
def find_items(
    suffix: str,
    attributes: tuple[str, ...],
    place: Place,
    limit: int,
    token: str | None,
    as_json: bool,
) -> None:
    """Find items of TABLE by its key or by an index that begins with these attributes.

    \b
    Examples:
      penstock construction company find company-users email=ada@example.org --db expenses.db
      penstock construction company find company-expenses companyId=c1 invoiceNum=2025-00007 --db expenses.db

    TABLE is a suffix such as company-users. A KEYS_ONLY index returns only keys. The command never scans.
    """
    if suffix not in (known := [table.name for table in tables()]):
        raise click.BadParameter(f"there is no table {suffix}; there are {', '.join(known)}", param_hint="TABLE")
    wanted = dict(_pair(one) for one in attributes)
    with place.books() as books:
        found = books.collections[suffix].find_by(wanted, limit=limit, token=token)
        show_page(found, _item_line, as_json)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise click.BadParameter(f"{text!r} is not ATTRIBUTE=VALUE, such as email=ada@example.org")
    return name, value


def _item_line(item: Item) -> str:
    return orjson.dumps(plain(item)).decode()


@command.command("webhook", exit_codes={WORK_FAILED: "a webhook is in the dead-letter table"})
@click.argument("file", type=click.File("rb"), default="-")
@with_place
@handler_option
@click.option(
    "--no-wait", is_flag=True, help="Make one attempt only; `penstock construction resume` makes the retries."
)
@json_option
def webhook(file: BinaryIO, place: Place, handler: str | None, no_wait: bool, as_json: bool) -> None:
    """Handle the webhooks in FILE or stdin: a JSON object, an array, or one object a line.

    \b
    Examples:
      penstock construction webhook event.json --db expenses.db
      curl -s https://example.org/events | penstock construction webhook --db aws://us-east-1 --json

    Each webhook is handled once, by its id. After a transient error it is retried after 1, 2, 4, 8 and 16 seconds. A
    webhook that fails permanently goes to the dead-letter table (`penstock construction dlq`).
    """
    try:
        webhooks = read_webhooks(file.read())
    except BadWebhook as error:
        raise PenstockError(f"{getattr(file, 'name', 'stdin')}: {error}") from error
    settings = {"wait": None} if no_wait else {}
    with place.books() as books, resumable("What was received is recorded."):
        intake = intake_of(books, handler, **settings)
        show_receipts((intake.receive(webhook) for webhook in webhooks), as_json)


# ── the receiver ─────────────────────────────────────────────────────────────────────────────────

_KEY_FILE = click.Path(exists=True, dir_okay=False, readable=True)
secret_file_option = click.option(
    "--secret-file", type=_KEY_FILE, metavar="FILE",
    help=f"Paddle Billing's secrets, one a line; during rotation, the old and the new one. Also {SECRET_VARIABLE}.",
)  # fmt: skip
key_file_option = click.option(
    "--public-key-file",
    type=_KEY_FILE,
    metavar="FILE",
    help=f"Paddle Classic's public key, in PEM. Also {KEY_VARIABLE}.",
)


@command.command("serve")
@with_place
@listen_options(DEFAULT_PORT)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name to accept. May be repeated.")
@secret_file_option
@key_file_option
@click.option(
    "--tolerance", type=click.FloatRange(1, 86_400), default=TOLERANCE_SECONDS, show_default=True, metavar="SECONDS",
    help="Maximum age of a signature of Paddle Billing.",
)  # fmt: skip
@handler_option
@click.option("--concurrency", type=click.IntRange(0, 64), default=2, show_default=True, help="Webhooks in parallel.")
@json_option
def serve_command(
    place: Place,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    secret_file: str | None,
    public_key_file: str | None,
    tolerance: float,
    handler: str | None,
    concurrency: int,
    as_json: bool,
) -> None:
    """Receive Paddle's webhooks over HTTP, and handle each once.

    \b
    Examples:
      PADDLE_WEBHOOK_SECRET=pdl_ntfset_… penstock construction serve --db expenses.db
      penstock construction serve --db expenses.db --secret-file secrets.txt --allow-host hooks.example.org
      penstock construction serve --db aws://us-east-1 --secret-file secrets.txt --concurrency 0

    POST /webhooks/paddle accepts Billing's events (Paddle-Signature) and Classic's alerts (p_signature). A request that
    is unsigned, late or altered is refused. A webhook is acknowledged when it is recorded. With --concurrency 0,
    `penstock construction worker` handles the webhooks. Secrets come from the environment or a file, never from the
    command line.
    """
    from penstock.systems.construction_expenses.webhooks.http import receiver_api
    from penstock.web.server import serve

    log_warnings()
    keys = keys_of(os.environ, _text_of(secret_file), _text_of(public_key_file))
    if not (keys.secrets or keys.public_keys):
        raise click.UsageError(
            f"How are webhooks verified? Set {SECRET_VARIABLE} (Paddle Billing) or {KEY_VARIABLE} (Paddle Classic), or "
            "give --secret-file or --public-key-file."
        )
    if not is_loopback(host):
        click.echo(f"Warning: {host} can be reached from other machines, without TLS.", err=True)
    sockets = listen(host, port)  # before the file is made: a taken port leaves nothing behind
    with _receiver(place, keys, handler, tolerance_seconds=tolerance) as receiver:

        def ready(url: str) -> None:
            form = {"url": f"{url}/webhooks/paddle", "db": place.target, "pid": os.getpid()}
            text = orjson.dumps(form).decode() if as_json else f"Webhooks go to {form['url']} (stop with Ctrl+C)"
            click.echo(text)
            sys.stdout.flush()

        serve(receiver_api(receiver, hosts=hosts, concurrency=concurrency), sockets, ready)


def _text_of(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise PenstockError(f"{path} is no text in UTF-8: it has secrets, one on a line, or a PEM.") from None


@contextmanager
def _receiver(place: Place, keys: PaddleKeys, handler: str | None, **settings: Any) -> Iterator[Receiver]:
    from penstock.systems.construction_expenses.webhooks.receiver import Receiver  # jobs take long to import

    with place.books("made") as books:
        books.make_tables()
        chosen = handle if handler is None else _load_handler(handler)
        receiver = Receiver(books, keys, handler=chosen, **settings)
        try:
            yield receiver
        finally:
            receiver.app.close()


@command.command("worker", exit_codes={WORK_FAILED: "with --burst: a webhook is in the dead-letter table"})
@with_place
@handler_option
@click.option("--concurrency", type=click.IntRange(1, 64), default=2, show_default=True, help="Webhooks in parallel.")
@click.option("--burst", is_flag=True, help="Stop when all webhooks, with their retries, are handled.")
@json_option
def worker(place: Place, handler: str | None, concurrency: int, burst: bool, as_json: bool) -> None:
    """Handle received webhooks, and continue those whose worker has died.

    \b
    Examples:
      penstock construction worker --db expenses.db
      penstock construction worker --db expenses.db --burst --json

    Ctrl-C (or SIGTERM) stops the worker gracefully; a second one stops it at once.
    """
    from penstock.cli.jobs.worker import stop_on_signals

    log_warnings()
    dead: list[str] = []
    with _receiver(place, PaddleKeys(), handler) as receiver:

        def ended(job: Job, how: str) -> None:
            outcome = receiver.app.result_of(job) if how == "completed" else {"outcome": how}
            dead.extend([job.id] if outcome["outcome"] == "dead-lettered" else [])
            click.echo(f"{outcome.get('webhook_id', job.id)} {outcome['outcome']}", err=True)

        worker = receiver.worker(concurrency=concurrency, until_empty=burst, on_end=ended)
        stop_on_signals(worker)
        counts = worker.run()
    if as_json:
        print_json({"handled": counts.completed - len(dead), "dead_lettered": len(dead), "retried": counts.retried})
    if burst and dead:
        raise click.exceptions.Exit(WORK_FAILED)


@command.command("resume", exit_codes={WORK_FAILED: "a webhook is in the dead-letter table"})
@with_place
@handler_option
@json_option
def resume(place: Place, handler: str | None, as_json: bool) -> None:
    """Continue webhooks that are recorded and due, and whose lease no process holds.

    \b
    Examples:
      penstock construction resume --db expenses.db
      penstock construction resume --db aws://us-east-1 --env staging --json
    """
    with place.books() as books, resumable("Webhooks that were handled stay handled."):
        show_receipts(intake_of(books, handler).resume(), as_json)


@command.group("dlq", cls=Group)
def dead_letters() -> None:
    """Show and replay webhooks that failed permanently. Their status is pending, replayed or failed (again).

    \b
    Examples:
      penstock construction dlq list --db expenses.db
      penstock construction dlq show dlq_evt_01 --db expenses.db
      penstock construction dlq replay dlq_evt_01 --db expenses.db
    """


@dead_letters.command("list")
@with_place
@click.option(
    "--status", type=click.Choice(STATUSES), default="pending", show_default=True, help="Only entries with this status."
)
@limit_option
@token_option
@json_option
def list_dead_letters(place: Place, status: str, limit: int, token: str | None, as_json: bool) -> None:
    """List dead letters by status (statusIndex), the latest failure first.

    \b
    Examples:
      penstock construction dlq list --db expenses.db
      penstock construction dlq list --db expenses.db --status failed --json
    """
    with place.books() as books:
        found = books.dead_letters.by_status(status, newest_first=True, limit=limit, token=token)
        show_page(found, _dead_letter_line, as_json)


def _dead_letter_line(entry: Item) -> str:
    return f"{entry['lastFailedAt']}  {entry['dlqEntryId']}  {entry['eventType']}  {entry['failureReason']}"


@dead_letters.command("show", exit_codes={NOT_FOUND: "there is no such entry"})
@click.argument("entry_id", metavar="ENTRY")
@with_place
@json_option
def show_dead_letter(entry_id: str, place: Place, as_json: bool) -> None:
    """Show a dead letter with its payload and history.

    \b
    Examples:
      penstock construction dlq show dlq_evt_01 --db expenses.db
      penstock construction dlq show dlq_evt_01 --db expenses.db --json
    """
    with place.books() as books:
        entry = books.dead_letters.required(entry_id)
    if as_json:
        print_json(plain(entry))
        return
    for name in ("dlqEntryId", "webhookId", "eventType", "status", "failureReason", "firstFailedAt", "lastFailedAt"):
        click.echo(f"{name:14} {entry[name]}")
    click.echo(f"{'retries':14} {entry['retryCount']} of {entry['maxRetries']}")
    for one in entry["processingHistory"]:
        line = f"{one['kind']}: {one['message']}" if "kind" in one else ""
        click.echo(f"{one['attempt']:>4}  {one['at']}  {one['outcome']:9}  {line}".rstrip())
    click.echo(orjson.dumps(plain(entry["payload"]), option=orjson.OPT_INDENT_2).decode())


@dead_letters.command("replay", exit_codes={WORK_FAILED: "a webhook failed again", NOT_FOUND: "there is no such entry"})
@click.argument("entry_ids", metavar="[ENTRY]...", nargs=-1)
@click.option(
    "--status", type=click.Choice(["pending", "failed"]), help="Replay all entries with this status, oldest first."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="With --status: maximum number of entries.")
@with_place
@handler_option
@dry_run_option
@yes_option
@json_option
def replay(
    entry_ids: tuple[str, ...],
    status: Status | None,
    limit: int | None,
    place: Place,
    handler: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Retry dead letters: the entries given, or all with a status.

    \b
    Examples:
      penstock construction dlq replay dlq_evt_01 --db expenses.db
      penstock construction dlq replay --status pending --db expenses.db --dry-run
      penstock construction dlq replay --status failed --limit 100 --db expenses.db --yes

    Entries that were replayed are skipped, so the command may run again, and several times in parallel.
    """
    if bool(entry_ids) == (status is not None):
        raise click.UsageError("Give the entries to replay, or --status for all that have it.")
    with place.books() as books, resumable("Entries that were replayed are marked."):
        if dry_run:
            _show_plan(list(_entries_of(books, entry_ids, status, limit)), as_json)
            return
        number = sum(
            1 for _ in _entries_of(books, entry_ids, status, limit)
        )  # one that is missing is reported before any is done
        if status is not None and number:
            confirm(f"Replay {number:,} dead letters of {place.target}?", yes=yes)
        show_receipts(_replay(intake_of(books, handler), entry_ids, status, limit), as_json)


def _entries_of(books: Books, entry_ids: tuple[str, ...], status: Status | None, limit: int | None) -> Iterator[str]:
    if status is None:
        return (books.dead_letters.required(entry_id)["dlqEntryId"] for entry_id in entry_ids)
    return (entry["dlqEntryId"] for entry in islice(books.dead_letters.by_status(status), limit))


def _replay(intake: Intake, entry_ids: tuple[str, ...], status: Status | None, limit: int | None) -> Iterator[Receipt]:
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


@command.command("load-sample")
@with_place
@click.option("--companies", type=click.IntRange(1, 9_999), default=3, show_default=True, help="Number of companies.")
@click.option(
    "--expenses",
    type=click.IntRange(0, 99_999),
    default=25,
    show_default=True,
    help="Number of expenses of each company.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed makes other amounts.")
@dry_run_option
@yes_option
@json_option
def load_sample(
    place: Place,
    companies: int,
    expenses: int,
    seed: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Create the missing tables of the 13, and write sample companies to them.

    \b
    Examples:
      penstock construction load-sample --db expenses.db --yes
      ENVIRONMENT=dev penstock construction load-sample --db http://127.0.0.1:8000 --companies 100

    All ids begin with `sample-`; other items are not changed. Paddle's tables are filled by sample webhooks; one of
    them is invalid and goes to the dead-letter table.
    """
    size = sample.Size(companies, expenses, seed)
    if dry_run:
        _show({suffix: sum(1 for _ in rows) for suffix, rows in sample.items(size).items()}, as_json, "Would write")
        return
    confirm(f"Write {companies:,} sample companies to {place.target}?", yes=yes)
    line = ProgressLine(quiet=as_json)
    with place.books("made") as books, resumable("Items that were written stay."):
        books.make_tables()
        written = sample.load(books, size, lambda part, text: line.tell(f"{part:4.0%} {text}"))
        line.end()
    _show(written, as_json, "Wrote")


def _show(counts: dict[str, int], as_json: bool, verb: str) -> None:
    if as_json:
        print_json(counts)
        return
    for suffix, count in counts.items():
        click.echo(f"{count:>9,}  {suffix}")
    click.echo(f"{verb} {sum(counts.values()):,} items.")
