"""`penstock tables rekey`: a table's primary key or local indexes changed, with its data.

1. What it says to run next is a whole command line: with --db, and with the options of pace that this run was given.
2. With --json every form prints one document on stdout. One that is interrupted, or whose items cannot all be moved,
   prints how far it is; the error is a line of JSON on stderr, as everywhere.
3. An option that an action does not use is an error, not ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import click
from click.core import ParameterSource

from penstock.cli.kit import groups
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import INTERRUPTED, LEASE_LOST, NOT_FOUND, NOT_READY, CommandFailed
from penstock.cli.kit.options import confirm, db_option, json_option, same_command, yes_option
from penstock.cli.kit.output import ProgressLine, print_json, print_result
from penstock.cli.tables.options import pacer_of, policy_hint, rate_option, segments_option
from penstock.cli.tables.rekey_command import destroy_lines, rekey_line
from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import read_export
from penstock.tables.plan.survey import require_table
from penstock.tables.rekey import phases
from penstock.tables.rekey.catch_up import TooManyProblems
from penstock.tables.rekey.item_look import ItemLook, look_at_items
from penstock.tables.rekey.new_table import INDEX_FORM, LOCAL_INDEX_FORM, TableOptions, index_changes, option_words
from penstock.tables.rekey.phases import NoRekey, NotReady, Unmapped, plan_rekey, require_same_options
from penstock.tables.rekey.state import LEASE_SECONDS, RekeyLost, RekeyRun, RekeyStore

_ACTIONS = ("status", "confirm", "rollback")

_ONLY_FOR = {
    "key": ("work",),
    "into": ("work",),
    "mapping": ("work",),
    "indexes": ("work",),
    "local_indexes": ("work",),
    "drop_indexes": ("work",),
    "segments": ("work", "confirm"),
    "max_lag": ("work", "confirm"),
    "rate": ("work", "confirm"),
    "lease": ("work", "confirm", "rollback"),
    "force": ("confirm", "rollback"),
    "dry_run": ("work", "confirm", "rollback"),
    "yes": ("work", "confirm", "rollback"),
}
"""Which actions use an option (3)."""

_PACE = ("segments", "max_lag", "lease", "rate")
"""Options that the next command needs again (1)."""


@groups.command(
    "rekey",
    exit_codes={
        NOT_FOUND: "there is no rekey of this table",
        NOT_READY: "not ready to be confirmed",
        LEASE_LOST: "the lease was lost to another run",
    },
)
@click.argument(
    "words", nargs=-1, required=True, metavar="[status|confirm|rollback] TABLE", shell_complete=complete_tables
)
@click.option(
    "--key", metavar="KEY", help="The new key, such as job_id:S,comment_id:N. [the old one, with an index option]"
)
@click.option("--into", metavar="NEW", help="The new table's name.")
@click.option(
    "--map", "mapping", metavar="MAP", help="module:function, or new=old,… ; without it items stay as they are."
)
@click.option(
    "--index", "indexes", multiple=True, metavar=INDEX_FORM,
    help="A global index of the new table: a further one, or another key for one of the same name; repeatable.",
)  # fmt: skip
@click.option(
    "--local-index", "local_indexes", multiple=True, metavar=LOCAL_INDEX_FORM,
    help="A local index of the new table. One of the same name keeps its projection; repeatable.",
)  # fmt: skip
@click.option(
    "--drop-index", "drop_indexes", multiple=True, metavar="NAME",
    help="An index that the new table does not get; repeatable.",
)  # fmt: skip
@segments_option(phases.SEGMENTS)
@click.option(
    "--max-lag",
    type=click.FloatRange(min=0),
    default=phases.MAX_LAG_SECONDS,
    show_default=True,
    help="Seconds that the new table may be behind.",
)
@click.option(
    "--lease",
    type=click.FloatRange(min=1),
    default=LEASE_SECONDS,
    show_default=True,
    help="Seconds that a killed run keeps its lease.",
)
@click.option(
    "--force", is_flag=True,
    help="confirm: even if the old table is still written to. rollback: even if it is gone; the new one is kept then.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@db_option()
@rate_option
@yes_option
@json_option
def command(words: tuple[str, ...], target: str, as_json: bool, **options: Any) -> None:
    """Change a table's primary key or its local indexes, with its data, while it is in use.

    \b
    Examples:
      penstock tables rekey Embeddings --key job_id:S,comment_id:N --into Embeddings2 --db aws://eu-west-2
      penstock tables rekey orders --local-index by-time=at:N/KEYS_ONLY --into orders-2 --db shop.db
      penstock tables rekey status Embeddings --db aws://eu-west-2
      penstock tables rekey confirm Embeddings --db aws://eu-west-2
      penstock tables rekey rollback Embeddings --db aws://eu-west-2

    The command creates a new table, fills it by a scan, and keeps it up to date from the old one's stream until you
    confirm; the old table is not changed. DynamoDB cannot rename a table: give your programs the new name. If the
    command is killed, run it again to continue. Until `confirm`, `rollback` deletes the new table.

    T is S, N or B. PROJECTION is ALL, KEYS_ONLY, or names of attributes separated by commas.
    """
    action, table = _words(words)
    given = _given(click.get_current_context())
    _refuse_unused(action, given)
    with policy_hint("rekey", table, *filter(None, [options["into"]])), open_database(target) as db:
        call = _Call(db, target, table, as_json, options, given)
        with _exit_codes():
            match action:
                case "status":
                    call.status()
                case "confirm":
                    call.confirm()
                case "rollback":
                    call.rollback()
                case _:
                    call.work()


def _words(words: tuple[str, ...]) -> tuple[str, str]:
    if len(words) == 1:
        return "work", words[0]
    if len(words) == 2 and words[0] in _ACTIONS:
        return words[0], words[1]
    raise click.UsageError(f"Give a TABLE, or one of {', '.join(_ACTIONS)} and a TABLE.")


def _given(ctx: click.Context) -> dict[str, str]:
    """The options of the command line: parameter → its name there."""
    return {
        param.name: param.opts[0]
        for param in ctx.command.params
        if param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    }


def _refuse_unused(action: str, given: dict[str, str]) -> None:
    for name, option in given.items():
        if action not in _ONLY_FOR.get(name, (action,)):
            users = " and ".join(f"`rekey {one}`" if one != "work" else "`rekey TABLE`" for one in _ONLY_FOR[name])
            raise click.UsageError(f"{option} is an option of {users}, not of `rekey {action}`.")


@contextmanager
def _exit_codes() -> Iterator[None]:
    codes: dict[type[PenstockError], int] = {NoRekey: NOT_FOUND, NotReady: NOT_READY, RekeyLost: LEASE_LOST}
    try:
        yield
    except (NoRekey, NotReady, RekeyLost) as error:
        raise CommandFailed(codes[type(error)], str(error)) from error


_READY = """\
Ready. To cut over:
  1. stop what writes to {source}
  2. {confirm}
  3. give your programs the name {into}, and start them
DynamoDB cannot swap or rename tables. Until step 2, this undoes everything:
  {rollback}"""

_CONFIRMED = """\
Confirmed: {into} is complete. Give your programs that name; {source} is left as it is.
To delete it when you no longer want it:
  {read}
  {destroy}"""


@dataclass
class _Call:
    """One call of the command."""

    db: Database
    target: str
    table: str
    as_json: bool
    options: dict[str, Any]
    given: dict[str, str]

    def __post_init__(self) -> None:
        self.line = ProgressLine(quiet=self.as_json)
        self.last: RekeyRun | None = None
        self.notes: list[str] = []
        self.store = RekeyStore(self.db, lease_seconds=self.options["lease"])
        self.rekey = phases.Rekey(
            self.db,
            self.store,
            phases.Options(
                segments=self.options["segments"],
                max_lag_seconds=self.options["max_lag"],
                pacer=pacer_of(self.db, self.options["rate"]),
                tell=self._tell,
                command=self._command,
                warn=self._warn,
                purpose=same_command(),
            ),
        )

    def _tell(self, run: RekeyRun) -> None:
        self.last = run
        self.line.tell(_progress(run))

    def _warn(self, text: str) -> None:
        self.notes.append(text)
        if not self.as_json:
            self.line.end()
            click.echo(text, err=True)

    def _command(self, action: str, source: str, *words: str) -> str:
        """What to run next (1)."""
        kept = [word for name in _PACE if name in self.given for word in (self.given[name], f"{self.options[name]:g}")]
        return rekey_line(self.target, action, source, *words, *(kept if action != "rollback" else ()))

    @property
    def asked(self) -> TableOptions:
        named = (self.options[name] for name in ("indexes", "local_indexes", "drop_indexes"))
        return TableOptions(self.options["key"] or "", *named)

    # ── actions ──────────────────────────────────────────────────────────────────────────────────

    def work(self) -> None:
        found = self.store.read(self.table)
        if found is not None and found.phase != "confirmed":
            require_same_options(found, self.asked, self.options["into"] or "", self._command)
            self._continue(found)
        else:
            self._begin()

    def _continue(self, found: RekeyRun) -> None:
        if self.options["dry_run"]:
            text = f"Would continue the rekey of {self.table} into {found.into}, which is {found.phase}."
            print_result(self._form(found) | {"dry_run": True}, text, as_json=self.as_json)
            return
        with self._told("what was done is kept."):
            run = self.rekey.resume(self.table, self.options["mapping"])
        self._show(run)

    def _begin(self) -> None:
        asked = self.asked
        if not self.options["into"] or not (asked.key or asked.has_indexes):
            raise click.UsageError(
                f"There is no rekey of {self.table} under way. To begin one, give --into, and --key or an index "
                "option; with the key that it has, --key copies a table under another name."
            )
        planned = plan_rekey(
            self.db,
            self.table,
            self.options["into"],
            asked.key,
            map=self.options["mapping"] or "",
            indexes=asked.indexes,
            local_indexes=asked.local_indexes,
            drop_indexes=asked.drop_indexes,
            command=self._command,
        )
        old = require_table(self.db, self.table).table
        new = read_export(planned.definition, "the plan")
        look = look_at_items(self.db, old, new, planned.map)
        if self.options["dry_run"]:
            words = ["--into", planned.into, *option_words(asked), *(["--map", planned.map] if planned.map else [])]
            begin = {"next": {"begin": self._command("", self.table, *words)}}
            form = self._form(planned) | _plan_form(old, new) | {"items": look.form} | begin | {"dry_run": True}
            print_result(form, _plan_text(planned, old, new, look), as_json=self.as_json)
            return
        if not self.as_json:
            click.echo(_plan_text(planned, old, new, look))
        with self._told("what was done is kept."):
            run = self.rekey.start(planned)
        self._show(run)

    def confirm(self) -> None:
        if self.options["dry_run"]:
            run = self._run()
            self._show_dry_run(run, f"catch up, compare once more and put the settings on {run.into}")
            return
        with self._told("nothing was confirmed."):
            run = self.rekey.confirm(self.table, force=self.options["force"])
        self._show(run)

    def rollback(self) -> None:
        found, force = self.store.read(self.table), self.options["force"]
        if self.options["dry_run"]:
            run = self._run()
            self._show_dry_run(run, f"delete {run.into}")
            return
        if found is not None and found.phase != "confirmed" and not force:
            confirm(f"This deletes {found.into}; {self.table} stays as it is. Continue?", yes=self.options["yes"])
        with self._told("the rollback is not finished."):
            run = self.rekey.rollback(self.table, force=force)
        text = f"Rolled back: {run.into} is deleted, {self.table} is as it was."
        if not run.is_deleted:
            text = f"Rolled back: the rekey of {self.table} is forgotten. {run.into} was not deleted."
        form = {"source": self.table, "into": run.into, "phase": "rolled back", "deleted": run.is_deleted}
        print_result(form | self._notes_form(), text, as_json=self.as_json)

    def status(self) -> None:
        self._show(self._run(), held_by=self.store.holder(self.table))

    def _run(self) -> RekeyRun:
        run = self.store.read(self.table)
        if run is None:
            raise NoRekey(f"There is no rekey of {self.table} in {self.db.name}. `--key` and `--into` begin one.")
        return run

    @contextmanager
    def _told(self, kept: str) -> Iterator[None]:
        """Ctrl-C and items that cannot be moved: how far it is, and how to continue (2)."""
        try:
            yield
        except KeyboardInterrupt:
            self.line.end()
            if self.as_json:
                stored = self.store.read(self.table)  # what the next run begins with
                state = {"source": self.table} if stored is None else self._form(stored)
                print_json(state | {"interrupted": True, "continue": same_command()})
            click.echo(f"\nInterrupted: {kept} To continue, run it again:\n  {same_command()}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (Unmapped, TooManyProblems):
            self.line.end()
            if self.as_json and self.last is not None:
                print_json(self._form(self.last))
            raise
        finally:
            self.line.end()

    # ── showing ──────────────────────────────────────────────────────────────────────────────────

    def _show_dry_run(self, run: RekeyRun, deed: str) -> None:
        text = f"Would {deed}; the rekey of {self.table} is {run.phase}."
        print_result(self._form(run) | {"dry_run": True}, text, as_json=self.as_json)

    def _next(self, run: RekeyRun) -> dict[str, str]:
        """The commands that may follow."""
        if run.phase == "confirmed":
            return destroy_lines(self.target, run.source)
        action = "confirm" if run.phase == "ready" else ""
        return {
            action or "continue": self._command(action, run.source),
            "rollback": self._command("rollback", run.source),
        }

    def _notes_form(self) -> dict[str, Any]:
        return {"notes": self.notes} if self.notes else {}

    def _form(self, run: RekeyRun) -> dict[str, Any]:
        inner = ("places", "shards", "doubts", "definition", "into_is_ours", "is_stream_ending", "is_deleted")
        form = {name: value for name, value in asdict(run).items() if name not in inner}
        return form | {"next": self._next(run)} | self._notes_form()

    def _show(self, run: RekeyRun, *, held_by: str | None = None) -> None:
        if self.as_json:
            print_json(self._form(run) | {"held_by": held_by})
            return
        click.echo(f"{run.source} → {run.into}: {_progress(run)}")
        if held_by:
            click.echo(f"Worked on by {held_by}.")
        if run.phase in ("ready", "confirmed"):
            click.echo(
                f"{run.source_items:,} items compared, {run.into_items:,} in {run.into}, {run.repaired:,} repaired."
            )
        for problem in run.problems:
            click.echo(f"  {problem}")
        commands = self._next(run)
        if run.phase == "ready":
            click.echo(_READY.format(source=run.source, into=run.into, **commands))
        elif run.phase == "confirmed":
            click.echo(_CONFIRMED.format(source=run.source, into=run.into, **commands))
        elif not held_by:
            click.echo(f"To continue it:\n  {commands['continue']}")


def _progress(run: RekeyRun) -> str:
    lag = "" if run.lag_seconds is None else f", {run.lag_seconds:.0f} s behind"
    return (
        f"{run.phase}: {run.copied:,} copied, {run.followed:,} changes followed, {run.compared:,} compared, "
        f"{run.problem_count:,} problems{lag}"
    )


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────


def _plan_text(run: RekeyRun, old: Table, new: Table, look: ItemLook) -> str:
    lines = [f"{run.source} ({old.key}) → {run.into} ({new.key})"]
    lines += [f"  {one}" for one in index_changes(old, new)]
    later = _switched_on_later(new)
    if later:
        lines.append(f"  ~ confirm switches on in {run.into}: {', '.join(later)}")
    if run.stream_is_ours:
        lines.append(f"  ~ the stream of {run.source} is switched on until you confirm")
    if run.map:
        lines.append(f"  ~ its items are mapped by {run.map}")
    lines.append(f"  the items of {run.source} are copied; it is not changed")
    return "\n".join([*lines, *(f"  ! {one}" for one in look.lines)])


def _switched_on_later(new: Table) -> list[str]:
    settings = (new.ttl and f"ttl {new.ttl}", new.stream and f"stream {new.stream}")
    return [*filter(None, settings), *(["deletion protection"] if new.deletion_protection else [])]


def _plan_form(old: Table, new: Table) -> dict[str, Any]:
    return {
        "old_key": [str(one) for one in old.key.attributes],
        "new_key": [str(one) for one in new.key.attributes],
        "index_changes": [one.form for one in index_changes(old, new)],
        "switched_on_by_confirm": _switched_on_later(new),
    }
