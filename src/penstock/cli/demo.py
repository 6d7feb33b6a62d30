"""`penstock demo`: runs the installed systems one after the other on an embedded database, in a minute.

A failed demo does not stop the others. A demo whose libraries are not installed names them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import click

from penstock.cli.kit import groups
from penstock.cli.kit.exit_codes import DONE, FAILED, end_with
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.client.database import Database, connect
from penstock.errors import PenstockError
from penstock.registry import System, systems

DATABASE: Final = "demo.db"
_BAR: Final = 20
_COLOURS: Final = {"done": "green", "failed": "red", "not run": "yellow"}
_NAMES: Final = [one.name for one in systems().values() if one.demo]


@groups.command("demo", exit_codes={FAILED: "one has failed, or none was run, or not all of --only"})
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep all of it in this new folder.")
@click.option("--only", multiple=True, type=click.Choice(_NAMES), help="This system only. May be repeated.")
@json_option
def command(keep: Path | None, only: tuple[str, ...], as_json: bool) -> None:
    """Run the five systems on an embedded DynamoDB, and show what each did.

    \b
    Examples:
      penstock demo                       all five, and nothing is left behind
      penstock demo --keep demo           keep the database and the files
      penstock demo --only delphi         one of them
      penstock up --db demo/demo.db       look at what was kept
    """
    wanted = [one for one in systems().values() if one.demo and (not only or one.name in only)]
    with _place(keep) as folder:
        screen = _Screen(folder, keep, quiet=as_json)
        with connect(folder / DATABASE) as db:
            ran = [screen.show_end(_run(one, db, folder / one.name, screen)) for one in wanted]
        screen.show_place()
        if as_json:
            print_json([_form(one) for one in ran])
    outcomes = {one.outcome for one in ran}
    end_with(FAILED if "failed" in outcomes or "done" not in outcomes or (only and "not run" in outcomes) else DONE)


@dataclass(frozen=True, slots=True)
class DemoRun:
    """What became of one system's demo."""

    system: System
    outcome: Literal["done", "failed", "not run"]
    seconds: float = 0.0
    facts: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""


def _run(system: System, db: Database, folder: Path, screen: _Screen) -> DemoRun:
    if system.missing_libraries:
        reason = f"{', '.join(system.missing_libraries)} not installed: pip install 'penstock[{system.extra}]'"
        return DemoRun(system, "not run", reason=reason)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    try:
        facts = system.run_demo(db, folder, lambda part, text: screen.show(system, part, text))
    except Exception as error:  # the others run all the same, and the end says it
        return DemoRun(system, "failed", time.monotonic() - began, reason=f"{type(error).__name__}: {error}")
    if not any(folder.iterdir()):
        folder.rmdir()  # all that it made is in the database, and beside it
    return DemoRun(system, "done", time.monotonic() - began, facts)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    """The folder: a new one, or a temporary one."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise PenstockError(f"{keep} is not empty. Name a new folder: the demo overwrites nothing.")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


class _Screen(ProgressLine):
    """On a terminal, a line that moves; of each system, when it is done, the outcome and what it did."""

    def __init__(self, folder: Path, keep: Path | None, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._quiet = quiet
        self._folder = folder
        self._keep = keep

    def show(self, system: System, part: float, text: str) -> None:
        full = round(_BAR * min(max(part, 0.0), 1.0))
        self.tell(f"{system.title:<22} {'█' * full}{'░' * (_BAR - full)} {100 * part:3.0f} %  {text}")

    def show_end(self, run: DemoRun) -> DemoRun:
        self.end()
        if self._quiet:
            return run
        seconds = f"{run.seconds:5.1f} s" if run.outcome != "not run" else ""
        title = click.style(f"{run.system.title:<22}", bold=True)
        outcome = click.style(f"{run.outcome:<7}", fg=_COLOURS[run.outcome])
        click.echo(f"{title} {outcome} {seconds}  {run.reason}".rstrip())
        for name, value in run.facts.items():
            # Files that are about to be deleted are not listed.
            if self._keep is not None or str(self._folder) not in str(value):
                click.echo(f"  {name:<42} {_text(value)}")
        click.echo()
        return run

    def show_place(self) -> None:
        if self._quiet:
            return
        if self._keep is None:
            click.echo("Nothing was kept. To look around: penstock demo --keep demo")
        else:
            click.echo(f"Kept in {self._keep}. Look at it: penstock up --db {self._keep / DATABASE}")


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _form(run: DemoRun) -> dict[str, Any]:
    form: dict[str, Any] = {"system": run.system.name, "outcome": run.outcome, "seconds": round(run.seconds, 3)}
    if run.reason:
        form["reason"] = run.reason
    facts = {name: value if isinstance(value, int | float) else str(value) for name, value in run.facts.items()}
    return {**form, "facts": facts}
