"""`penstock demo`: all five systems on an embedded database, in a minute."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.client.database import connect
from penstock.errors import PenstockError
from penstock.systems.showings import ALL, Showing, Shown, show_all

DATABASE: Final = "demo.db"
_BAR: Final = 20
_NAMES: Final = tuple(one.name.replace("_", "-") for one in ALL)


@click.command(
    epilog="""\b
Examples:
  penstock demo                       all five, and nothing is left behind
  penstock demo --keep demo           keep the database and the files
  penstock demo --only delphi         one of them
  penstock up --db demo/demo.db       look at what was kept
"""
)
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep all of it in this new folder.")
@click.option("--only", multiple=True, type=click.Choice(_NAMES), help="This system only. May be repeated.")
@json_option
def command(keep: Path | None, only: tuple[str, ...], as_json: bool) -> None:
    """Run the five systems on an embedded DynamoDB, and show what each did.

    Exit codes: 0 done, 1 if one has failed.
    """
    wanted = [one for one in ALL if not only or one.name.replace("_", "-") in only]
    with _place(keep) as folder:
        screen = _Screen(quiet=as_json)
        with connect(folder / DATABASE) as db:
            shown = [screen.ended(one) for one in show_all(db, folder, screen.tell, wanted)]
        if as_json:
            print_json([_form(one) for one in shown])
        else:
            _summary(shown, folder, keep)
    sys.exit(1 if any(one.outcome == "failed" for one in shown) else 0)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    """Where it all lies: a folder that is not there yet, or one that is gone afterwards."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise PenstockError(f"{keep} is not empty. Name a new folder: the demo writes over nothing.")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep


class _Screen:
    """A line for each system: on a terminal it moves, elsewhere it is written when the system is done."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._length = 0

    def tell(self, showing: Showing, part: float, text: str) -> None:
        if self._live:
            full = round(_BAR * min(max(part, 0.0), 1.0))
            self._draw(f"{showing.title:<22} {'█' * full}{'░' * (_BAR - full)} {100 * part:3.0f} %  {text}")

    def ended(self, shown: Shown) -> Shown:
        if self._live:
            self._draw("")
            click.echo("\r", nl=False, err=True)
        if not self._quiet:
            seconds = f"{shown.seconds:5.1f} s" if shown.outcome != "not run" else ""
            click.echo(f"{shown.showing.title:<22} {_coloured(shown)} {seconds}  {shown.reason}".rstrip(), err=True)
        return shown

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        click.echo("\r" + text.ljust(self._length), nl=False, err=True)
        self._length = len(text)


def _coloured(shown: Shown) -> str:
    colour = {"done": "green", "failed": "red", "not run": "yellow"}[shown.outcome]
    return click.style(f"{shown.outcome:<7}", fg=colour)


def _summary(shown: Sequence[Shown], folder: Path, keep: Path | None) -> None:
    for one in shown:
        click.echo(f"\n{click.style(one.showing.title, bold=True)}")
        for name, value in (one.facts or {one.outcome: one.reason}).items():
            if keep is not None or str(folder) not in str(value):  # files that are about to go are not told of
                click.echo(f"  {name:<36} {_text(value)}")
    click.echo()
    if keep is None:
        click.echo("Nothing was kept. To look around: penstock demo --keep demo")
    else:
        click.echo(f"Kept in {keep}. Look at it: penstock up --db {keep / DATABASE}")


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _form(shown: Shown) -> dict[str, Any]:
    form: dict[str, Any] = {"system": shown.showing.name, "outcome": shown.outcome, "seconds": round(shown.seconds, 3)}
    if shown.reason:
        form["reason"] = shown.reason
    facts = {name: value if isinstance(value, int | float) else str(value) for name, value in shown.facts.items()}
    return {**form, "facts": facts}
