"""`penstock sql`: PartiQL statements, in a shell or from -c, a file or stdin.

1. Statements are sent as they are written: DynamoDB decides what it takes. They are read here as well, to say where an
   error is, whether a SELECT scans, and what key an UPDATE or a DELETE lacks.
2. Memory is bounded: a page is read, printed and forgotten; a script is read a statement at a time.
3. When the reader has left (`| head`), nothing more is read; what a script still writes is written.
4. In the shell Ctrl-C ends the statement after the call that is under way, so that no write is cut in half; a second
   one cuts the call.
"""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson

from penstock.cli.items.commands import View, exact_option, print_rows, verbose_option
from penstock.cli.items.sql_prompt import Completer, History, Prompt, history_file
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import FAILED, CommandFailed, end_with
from penstock.cli.kit.grid import text_width
from penstock.cli.kit.groups import command as make_command
from penstock.cli.kit.groups import show_error
from penstock.cli.kit.options import db_option, json_option, parse_value
from penstock.cli.kit.output import ProgressLine, count_text, has_reader, one_line
from penstock.client.database import Database
from penstock.client.items.values import encode
from penstock.errors import (
    ConditionalCheckFailedException,
    DynamoDBError,
    PenstockError,
    ResourceNotFoundException,
    ValidationException,
)
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.parser import Parsed, parse
from penstock.expressions.partiql.scripts import Splitter, Written, failing_place, split
from penstock.expressions.partiql.tokens import Place
from penstock.expressions.partiql.translation import attributes, branches, pinned
from penstock.expressions.partiql.tree import Delete, Exists, Select, Source, Update
from penstock.tables.data.item_text import line_of
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.plan.survey import require_table
from penstock.wire.values import AttributeValue, Item

_ROWS = 100  # rows between two looks at whether to go on
_MOST_SEEN = 1_000  # attributes that are kept for completion
_MOST_CHARACTERS = 1_000_000  # of one statement: a quote that is not closed would take the whole script
_SHOWN_WIDTH = 76
_AT = re.compile(r" at (\d+):(\d+):(\d+)\b")
_TEXTS = re.compile(r"'[^']*'")
_UNQUOTED = re.compile(r"\b(FROM|INTO|UPDATE)\s+(\w+(?:-\w+)+)", re.IGNORECASE)

_HELP = """\
A statement ends with ; and may have several lines. Texts are 'quoted', names plain or "quoted".

  SELECT * FROM orders WHERE customer = 'c1' AND number > 40;
  INSERT INTO orders VALUE {'customer': 'c1', 'number': 42};
  UPDATE orders SET total = total + 1 REMOVE note WHERE customer = 'c1' AND number = 42;
  DELETE FROM orders WHERE customer = 'c1' AND number = 42;

  .tables        the tables                    (also \\d)
  .table NAME    a table's key and indexes     (also \\d NAME)
  .help          this text                     (also \\?)
  .quit          end; Ctrl-D does too          (also \\q)

Ctrl-C ends a statement, or clears what is typed. Tab completes."""


# ── what a statement is ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Meaning:
    """What is known of a statement before it is sent (1); nothing of one that we cannot read."""

    parsed: Parsed | None
    table: Table | None
    parameters: Sequence[AttributeValue]

    @property
    def is_select(self) -> bool:
        return self.parsed is not None and isinstance(self.parsed.statement, Select)

    @property
    def scanned(self) -> str:
        """What a SELECT reads as a whole: `table`, `index by-day`; else nothing."""
        select = self._select
        part = self._part
        if select is None or part is None or len(part.key.hash) != 1:
            return ""
        sort = part.key.range[0].name if part.key.range else None
        with suppress(ValidationException):
            if branches(select.where, part.key.hash[0].name, sort, self.parameters) is None:
                return "table" if isinstance(part, Table) else f"index {part.name}"
        return ""

    @property
    def gives_all(self) -> bool:
        """Whether a SELECT gives every item that it reads, so that DynamoDB's Limit is ours."""
        select, part = self._select, self._part
        if select is None or part is None:
            return False
        return select.where is None or (not self.scanned and set(attributes(select.where)) <= set(part.key.names))

    @property
    def _select(self) -> Select | None:
        statement = None if self.parsed is None else self.parsed.statement
        return statement if isinstance(statement, Select) else None

    @property
    def _part(self) -> Table | Index | None:
        """The table or the index that is read."""
        if self._select is None or self.table is None:
            return None
        index = self._select.source.index
        return self.table if index is None else self.table.index(index)

    def refuse_missing_key(self) -> None:
        """DynamoDB changes one item by a statement, and says little where its key is not given."""
        statement = None if self.parsed is None else self.parsed.statement
        if self.table is None or not isinstance(statement, Update | Delete):
            return
        names = self.table.key.names
        with suppress(ValidationException):  # which DynamoDB says itself
            given = pinned(statement.where, names, self.parameters).key
            missing = [name for name in names if name not in given]
            if missing:
                word = type(statement).__name__.upper()
                many = "; `penstock items delete --where` deletes many" if isinstance(statement, Delete) else ""
                raise PenstockError(
                    f"{_article(word)} {word} is for one item: DynamoDB needs its whole key in WHERE, by =: "
                    f"{' AND '.join(f'{name} = …' for name in names)}. Here {', '.join(missing)} "
                    f"{'is' if len(missing) == 1 else 'are'} missing. A SELECT finds the keys{many}."
                )


def _article(word: str) -> str:
    return "An" if word[0] in "AEIOU" else "A"


# ── running one ──────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Run:
    """The pages of one statement, and what they cost."""

    session: Session
    text: str
    meaning: Meaning
    given: int = 0
    requests: int = 0
    units: float = 0.0
    ended_by: str = ""
    """Why not all of it was read."""
    began_at: float = field(default_factory=time.monotonic)

    def pages(self) -> Iterator[list[Item]]:
        """Some items at a time, at most --limit of them in all."""
        progress = ProgressLine(quiet=not self.session.view.is_table)
        for items in self._answers():
            if not items and progress.is_due():
                progress.tell(f"{count_text(self.requests, 'request')}, {_units_text(self.units)}: nothing found yet")
            for start in range(0, len(items), _ROWS):
                progress.end()
                some = items[start : start + _ROWS]
                self.given += len(some)
                self.session.see(some)
                yield some
                if self._is_over():
                    return
        progress.end()

    def _answers(self) -> Iterator[list[Item]]:
        """The items of an answer; the rest of it is not kept while they are shown."""
        token: str | None = ""
        while token is not None:
            left = self._left()
            answer = self.session.db.execute("ExecuteStatement", self._request(token, left))
            self.requests += 1
            self.units += float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0))
            token = answer.get("NextToken")
            items: list[Item] = answer.get("Items", [])
            if left is not None and (len(items) > left or (len(items) == left and token is not None)):
                self.ended_by = "--limit"
            yield items if left is None else items[:left]
            if token is not None and self._is_over():
                return

    def _left(self) -> int | None:
        limit = self.session.limit
        return None if limit is None or not self.meaning.is_select else limit - self.given

    def _request(self, token: str, left: int | None) -> dict[str, Any]:
        request: dict[str, Any] = {"Statement": self.text, "ReturnConsumedCapacity": "TOTAL"}
        if self.meaning.parameters:
            request["Parameters"] = list(self.meaning.parameters)
        if token:
            request["NextToken"] = token
        if left is not None and self.meaning.gives_all:
            request["Limit"] = left
        return request

    def _is_over(self) -> bool:
        if self.session.is_cancelled:
            self.ended_by = "Ctrl-C"
        elif not has_reader():
            self.ended_by = "the reader"
        return bool(self.ended_by) and (self.ended_by != "--limit" or self._left() == 0)

    def cost_text(self) -> str:
        """`2 requests, 0.1 s, 12 units`; a scan is called one."""
        seconds = f"{count_text(self.requests, 'request')}, {time.monotonic() - self.began_at:.1f} s"
        return f"{seconds}, {self.scan_text() or _units_text(self.units)}"

    def scan_text(self) -> str:
        what = self.meaning.scanned
        if not what:
            return ""
        if self.ended_by:
            return f"this scanned the {what} until {self.ended_by} ended it: {_units_text(self.units)}"
        return f"this read the whole {what}: {_units_text(self.units)}"


def _units_text(units: float) -> str:
    number = f"{units:,.1f}".removesuffix(".0")
    return f"{number} unit{'' if units == 1 else 's'}"


@dataclass(slots=True)
class Session:
    """A database, and how its answers are shown."""

    db: Database
    view: View
    limit: int | None = None
    parameters: Sequence[AttributeValue] = ()
    verbose: bool = False
    is_cancelled: bool = False
    uses_parameters: bool = False
    seen: dict[str, None] = field(default_factory=dict)
    """Attributes of items that were shown, for completion."""
    _tables: dict[str, Table] = field(default_factory=dict)
    _names: list[str] | None = None

    def run(self, text: str) -> None:
        """Sends a statement and shows its answer; or does a command."""
        if is_command(text):
            self._do(text)
            return
        meaning = self._meaning(text)
        meaning.refuse_missing_key()
        if meaning.is_select and not has_reader():
            return
        run = Run(self, text, meaning)
        first = () if meaning.table is None else meaning.table.key.names
        hidden: Sequence[str] = ()
        if self.view.is_table:
            _, hidden = print_rows(run.pages(), first)
        else:
            self.view.show(run.pages(), first)
        if not has_reader():
            run.ended_by = run.ended_by or "the reader"
        self._tell(run, hidden)

    def _tell(self, run: Run, hidden: Sequence[str]) -> None:
        if not self.verbose and not self.view.is_table:
            return
        done = count_text(run.given, "item") if run.given or run.meaning.is_select else "Done"
        cost = run.cost_text() if self.verbose else run.scan_text()
        more = f"; not shown: {', '.join(hidden)} (name them in SELECT, or --json)" if hidden else ""
        ended = f", ended by {run.ended_by}" if run.ended_by and not run.meaning.scanned else ""
        click.echo(f"{done}{ended}{', ' * bool(cost)}{cost}{more}", err=True)

    def see(self, items: Iterable[Item]) -> None:
        if len(self.seen) < _MOST_SEEN:
            for item in items:
                self.seen.update(dict.fromkeys(item))

    def _meaning(self, text: str) -> Meaning:
        try:
            parsed = parse(text)
        except ValidationException:  # DynamoDB may take what we do not
            return Meaning(None, None, self.parameters)
        if parsed.parameters:
            self.uses_parameters = True
            if parsed.parameters != len(self.parameters):
                raise PenstockError(
                    f"The statement has {parsed.parameters} ?, and {len(self.parameters)} values were given for them "
                    "(--param, one for each)."
                )
        statement = parsed.statement
        source = statement.select.source if isinstance(statement, Exists) else statement.source
        return Meaning(parsed, self._table_of(source), self.parameters if parsed.parameters else ())

    def _table_of(self, source: Source) -> Table | None:
        with suppress(PenstockError):  # who may read items need not have the right to describe the table
            return self.table(source.table)
        return None

    def table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = require_table(self.db, name, settings=False).table
        return self._tables[name]

    def table_names(self) -> list[str]:
        if self._names is None:
            self._names = self.db.tables()
        return self._names

    def forget(self) -> None:
        """What is known of tables: after an error it may be old."""
        self._tables.clear()
        self._names = None

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def _do(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        name = rest.strip().rstrip(";").strip().strip('"')
        word = word.rstrip(";").lower()
        match "tables" if word == "\\d" and not name else _SPELLINGS.get(word):
            case "table" if name:
                self._show_table(name)
            case "tables":
                self.forget()
                for one in self.table_names():
                    click.echo(one if self.view.is_table else line_of({"table": {"S": one}}, exact=False))
            case "table":
                raise PenstockError("Which table? .table NAME; .tables lists them.")
            case "help":
                click.echo(_HELP)
            case "quit":
                raise EOFError
            case _:
                raise PenstockError(f"There is no command {word}: .tables, .table NAME, .help, .quit.")

    def _show_table(self, name: str) -> None:
        self._tables.pop(name, None)
        table = self.table(name)
        if not self.view.is_table:
            indexes = [
                {"name": one.name, "key": [str(part) for part in one.key.attributes], "local": one.local,
                 "projection": one.projection}
                for one in table.indexes
            ]  # fmt: skip
            form = {"table": name, "key": [str(part) for part in table.key.attributes], "indexes": indexes}
            click.echo(orjson.dumps(form).decode())
            return
        click.echo(f"{name}: key {_key_text(table)}")
        for index in table.indexes:
            kind = "local index" if index.local else "index"
            projected = index.projection if isinstance(index.projection, str) else ", ".join(index.projection)
            click.echo(f"  {kind} {index.name}: key {_key_text(index)}, projects {projected}")


_SPELLINGS = {
    ".tables": "tables", ".table": "table", ".help": "help", ".quit": "quit", ".exit": "quit",
    "help": "help", "quit": "quit", "exit": "quit",
    "\\dt": "tables", "\\q": "quit", "\\?": "help", "\\h": "help", "\\d": "table",
}  # fmt: skip


def is_command(line: str) -> bool:
    """Whether a line that begins a statement is one of the shell's own."""
    text = line.strip()
    return text.startswith((".", "\\")) or text.rstrip("; ").lower() in _SPELLINGS


def _key_text(part: Table | Index) -> str:
    names = {"S": "text", "N": "number", "B": "bytes"}
    return ", ".join(f"{one.name} ({names.get(one.type, one.type)})" for one in part.key.attributes)


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def _failure(session: Session, error: PenstockError, written: Written, origin: str) -> CommandFailed:
    """The error with the place in the statement that it is about, and what to do about it."""
    said = str(error)
    code = f"{error.code}: " if isinstance(error, DynamoDBError) else ""
    place = _place(error, written.text)
    lines = written.line + (0 if place is None else place.line - 1)
    where = f"{origin}, line {lines}: " if origin else ""
    hint = _hint(session, error, written.text, place)
    pointer = "" if place is None else "\n" + _pointer(written.text, place)
    failed = CommandFailed(FAILED, f"{where}{code}{said.rstrip(': ')}{f' ({hint})' if hint else ''}{pointer}", hint)
    failed.__cause__ = error
    return failed


def _place(error: PenstockError, text: str) -> Place | None:
    if is_command(text) or not isinstance(error, DynamoDBError):
        return None
    found = _AT.search(error.message)
    if found is not None:
        return Place(*map(int, found.groups()))
    place = failing_place(text) if isinstance(error, ValidationException) else None
    if place is not None or not isinstance(error, ResourceNotFoundException):
        return place
    with suppress(ValidationException):
        source = _source(text)
        return next(
            (one.place for one in tokens.tokenize(text) if source is not None and one.text == source.table), None
        )
    return None


def _source(text: str) -> Source | None:
    statement = parse(text).statement
    return None if isinstance(statement, Exists) else statement.source


def _hint(session: Session, error: PenstockError, text: str, place: Place | None) -> str:
    said = str(error)
    if isinstance(error, ValidationException) and (unquoted := _UNQUOTED.search(_TEXTS.sub("''", text))):
        return f'a name with - stands in double quotes: {unquoted[1]} "{unquoted[2]}"'
    if tokens.UNEXPECTED_KEYWORD in said and place is not None:
        word = text.splitlines()[place.line - 1][place.column - 1 :][: place.length]
        return f'{word} is a keyword: as a name it is written "{word}"'
    if "clause: LIMIT" in said:
        return "DynamoDB has no LIMIT: give --limit N"
    if isinstance(error, ConditionalCheckFailedException):
        return "there is no item with this key, or the rest of WHERE is not true of it"
    if isinstance(error, ResourceNotFoundException):
        with suppress(PenstockError):
            source = _source(text)
            try:
                if source is not None:
                    session.table(source.table)
            except PenstockError as missing:
                return str(missing).rstrip(".")
    return ""


def _pointer(text: str, place: Place) -> str:
    """The line of the statement, or what of it is around the place, and a mark under that."""
    lines = text.split("\n")
    line = lines[min(place.line, len(lines)) - 1].replace("\t", " ")
    start = max(0, min(place.column - 1 - _SHOWN_WIDTH // 2, len(line) - _SHOWN_WIDTH))
    shown = line[start : start + _SHOWN_WIDTH]
    before = one_line(shown[: place.column - 1 - start])
    marks = max(1, min(place.length, _SHOWN_WIDTH - len(before)))
    return f"  {one_line(shown)}\n  {' ' * text_width(before)}{'^' * marks}"


# ── where statements come from ───────────────────────────────────────────────────────────────────


def _script(lines: Iterable[str], name: str) -> Iterator[Written]:
    """The statements and commands of a text, as its lines come (2)."""
    splitter = Splitter()
    try:
        for number, line in enumerate(lines, 1):
            if splitter.is_empty and is_command(line):
                yield Written(line.strip(), number)
                line = "\n"
            yield from splitter.feed(line)
            if splitter.size > _MOST_CHARACTERS:
                opened = splitter.unfinished or "a ; is missing"
                raise PenstockError(f"{name}, line {number}: a statement of more than 1 MB ({opened}).")
    except UnicodeDecodeError as error:
        raise PenstockError(f"{name}: this is not UTF-8 ({error.reason}).") from None
    if splitter.unfinished:
        raise PenstockError(f"{name} ends in the middle of a statement: {splitter.unfinished} is not closed.")
    yield from splitter.end()


def _commands(texts: Iterable[str]) -> Iterator[Written]:
    for text in texts:
        if is_command(text):
            yield Written(text)
        else:
            yield from split(text)


def _run_all(session: Session, script: Iterable[Written], origin: str, *, keep_going: bool, as_json: bool) -> None:
    failures = 0
    with suppress(EOFError):  # .quit
        for written in script:
            try:
                session.run(written.text)
            except PenstockError as error:
                failed = _failure(session, error, written, origin)
                if not keep_going:
                    raise failed from error
                session.forget()
                show_error(failed, as_json=as_json)
                failures += 1
    if session.parameters and not session.uses_parameters:
        click.echo("No statement has a ?: the values of --param were not used.", err=True)
    end_with(FAILED if failures else 0)


# ── the shell ────────────────────────────────────────────────────────────────────────────────────


def _shell(session: Session, *, as_json: bool) -> None:
    completer = Completer(
        session.table_names,
        lambda table: [one.name for one in session.table(table).indexes],
        lambda table: [*session.seen, *(_key_names(session, table) if table else ())],
    )
    click.echo(f"{session.db.name}. Statements end with ;  .help tells more, .quit ends.", err=True)
    with Prompt(completer, History(history_file())) as prompt, suppress(EOFError):
        splitter = Splitter()
        while True:
            try:
                line = prompt.read("sql> " if splitter.is_empty else "  -> ")
            except KeyboardInterrupt:  # what is typed is forgotten
                click.echo(err=True)
                splitter.clear()
                prompt.statement = ""
                continue
            except EOFError:
                click.echo(err=True)
                raise
            except UnicodeDecodeError:
                click.echo("This line is not UTF-8; it was not read.", err=True)
                continue
            _take_line(session, prompt, splitter, line, as_json=as_json)


def _take_line(session: Session, prompt: Prompt, splitter: Splitter, line: str, *, as_json: bool) -> None:
    if splitter.is_empty and is_command(line):
        prompt.remember(line.strip())
        _run_in_shell(session, Written(line), as_json=as_json)
        return
    for written in splitter.feed(line + "\n"):
        prompt.remember(written.text + ";")
        _run_in_shell(session, written, as_json=as_json)
    if splitter.is_empty:
        splitter.clear()
    prompt.statement = "" if splitter.is_empty else f"{prompt.statement}{line}\n"


def _run_in_shell(session: Session, written: Written, *, as_json: bool) -> None:
    try:
        with _cancellable(session):
            session.run(written.text)
    except PenstockError as error:
        show_error(_failure(session, error, Written(written.text), ""), as_json=as_json)
        session.forget()
    except KeyboardInterrupt:
        click.echo("\nInterrupted: whether the last call was done is not known.", err=True)


@contextmanager
def _cancellable(session: Session) -> Iterator[None]:
    """Ctrl-C for the length of a statement (4)."""

    def on_interrupt(number: int, frame: object) -> None:
        if session.is_cancelled:
            raise KeyboardInterrupt
        session.is_cancelled = True

    session.is_cancelled = False
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _key_names(session: Session, table: str) -> list[str]:
    try:
        return [one.name for one in session.table(table).attributes]
    except PenstockError:
        return []


# ── the command ──────────────────────────────────────────────────────────────────────────────────


@make_command("sql", exit_codes={FAILED: "a statement failed"})
@click.option("-c", "--command", "texts", multiple=True, metavar="STATEMENT", help="Run this; may be given again.")
@click.option(
    "-f", "--file", "file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), metavar="FILE",
    help="Run the statements of this file; - is stdin.",
)  # fmt: skip
@click.option("--param", "values", multiple=True, metavar="VALUE", help="For a ?, in order: JSON, or else a text.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many items of each SELECT.")
@click.option("--keep-going", is_flag=True, help="Continue after a statement that failed.")
@click.option("--table", "as_table", is_flag=True, help="Show a table in a pipe too.")
@json_option
@exact_option
@db_option()
@verbose_option
def command(
    texts: tuple[str, ...], file: Path | None, values: tuple[str, ...], limit: int | None, keep_going: bool,
    as_table: bool, as_json: bool, exact: bool, target: str, verbose: bool,
) -> None:  # fmt: skip
    """PartiQL statements on a database: a shell on a terminal, else what -c, a file or stdin say.

    \b
    Examples:
      penstock sql --db shop.db
      penstock sql -c "SELECT * FROM orders WHERE customer = ?" --param c1 --db shop.db
      penstock sql -f changes.sql --keep-going --db aws://eu-west-2

    Statements end with ; and are run one by one, until one fails. On a terminal items are shown as a table, in a pipe
    as JSON lines. --verbose says what was read, and what it cost; the shell always does.
    """
    if texts and file is not None:
        raise click.UsageError("Give -c or -f, not both.")
    parameters = [encode(parse_value(value)) for value in values]
    view = View(as_json, exact, as_table)
    from_stdin = file is None or str(file) == "-"
    with open_database(target) as db:
        session = Session(db, view, limit, parameters, verbose)
        if texts:
            _run_all(session, _commands(texts), "", keep_going=keep_going, as_json=as_json)
        elif not from_stdin and file is not None:
            with file.open(encoding="utf-8-sig") as lines:
                _run_all(session, _script(lines, str(file)), str(file), keep_going=keep_going, as_json=as_json)
        elif sys.stdin is not None and sys.stdin.isatty() and file is None:
            session.verbose = True
            _shell(session, as_json=as_json)
        elif sys.stdin is None:
            raise click.UsageError("There is no stdin to read statements from: give -c or -f.")
        else:
            with click.open_file("-", encoding="utf-8", errors="strict") as stream:
                _run_all(session, _script(stream, "stdin"), "stdin", keep_going=keep_going, as_json=as_json)
