"""`plan --out FILE` and `apply FILE`: DEFINITIONS or a saved plan, and what must fit before that is applied."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

import penstock
from penstock.cli.kit.options import no_target
from penstock.cli.tables.options import (
    NamedTables,
    definitions_argument,
    load_tables,
    naming_options,
    only_option,
    parameter_option,
)
from penstock.client.transports import endpoints
from penstock.client.transports.credentials import profile_region
from penstock.clock import SystemClock, utc_text
from penstock.errors import PenstockError
from penstock.tables.formats.export import write_whole
from penstock.tables.plan.saved_plan import (
    Place,
    SavedPlan,
    SavedPlanRefused,
    definition_changes,
    fingerprint,
    is_saved_plan,
    read_saved_plan,
    saved_text,
)
from penstock.tables.plan.survey import Survey
from penstock.tables.state.state_table import actor

out_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the plan to FILE too, for `apply FILE`.",
)  # fmt: skip

_OF_THE_PLAN = {
    "env": "--env",
    "prefix": "--prefix",
    "layout": "--layout",
    "only": "--table",
    "parameters": "--parameter",
}
_check_option = click.option(
    "--definitions", "check", metavar="DEFINITIONS",
    help="With a saved plan: refuse it unless these definitions are still those that it was made of.",
)  # fmt: skip


def tables_or_plan_options(function: Callable[..., None]) -> Callable[..., None]:
    """As `tables_options`, where DEFINITIONS may be a saved plan: then `saved` is given, and `named` is None."""

    @wraps(function)
    def with_tables(definitions: str, check: str | None, **values: Any) -> None:
        given = {name: values.pop(name) for name in _OF_THE_PLAN}
        if not is_saved_plan(Path(definitions)):
            if check is not None:
                raise click.UsageError(f"--definitions goes with a saved plan, and {definitions} is none.")
            function(named=load_tables(definitions, **given), saved=None, **values)
            return
        saved = _read(Path(definitions))
        if check is None:
            _refuse_options(_OF_THE_PLAN)
        else:
            _require_definitions(definitions, saved, load_tables(check, **given))
        function(named=None, saved=saved, **values)

    return definitions_argument(naming_options(only_option(parameter_option(_check_option(with_tables)))))


def _read(file: Path) -> SavedPlan:
    saved = read_saved_plan(file)
    if saved.penstock != penstock.__version__:  # a change may mean something else there
        made = f"Penstock {saved.penstock} made it, and this is {penstock.__version__}"
        raise SavedPlanRefused(str(file), made)
    return saved


def _refuse_options(names: dict[str, str]) -> None:
    ctx = click.get_current_context()
    given = [text for name, text in names.items() if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        raise click.UsageError(f"A saved plan has its tables already: leave {' and '.join(given)} out.")


def refuse_drop_option(drop: tuple[str, ...]) -> None:
    if drop:
        raise click.UsageError("A saved plan says what is dropped: give --drop-index to `penstock tables plan`.")


def _require_definitions(file: str, saved: SavedPlan, named: NamedTables) -> None:
    if fingerprint(named.tables, named.naming) != saved.fingerprint:
        changes = "; ".join(definition_changes(saved, named.tables, named.naming))
        raise SavedPlanRefused(file, f"the definitions have changed since: {changes}")


def save_plan(out: Path, survey: Survey, named: NamedTables, target: str) -> None:
    """Writes the file, whole or not at all. One that is there and is no saved plan is never written over."""
    if out.exists() and not is_saved_plan(out):
        raise PenstockError(f"{out} is there already, and is no saved plan. Give --out another name, or remove it.")
    saved = SavedPlan(
        survey,
        place_of(target),
        named.source,
        fingerprint(named.tables, named.naming),
        utc_text(SystemClock().now()),
        actor(),
        penstock.__version__,
    )
    write_whole(out, saved_text(saved))
    click.echo(f"Saved: {out}. To carry out exactly this: penstock tables apply {shlex.quote(str(out))}", err=True)


def place_of(target: str) -> Place:
    """Where --db leads, as two machines would say it; a profile is whose key it is, not where."""
    found = endpoints.parse(target, region_of=profile_region)
    if isinstance(found, endpoints.File):
        return Place(target, target if target == endpoints.MEMORY else os.path.realpath(found.path))
    return Place(target, found.host.url, found.region)


def target_of(file: str, saved: SavedPlan, target: str | None) -> str:
    """--db, else what the plan was made for. Raises SavedPlanRefused where that is another place."""
    chosen = target or saved.place.target
    place = place_of(chosen)
    if place.url == endpoints.MEMORY:
        raise no_target(click.get_current_context())
    if (place.url, place.region) != (saved.place.url, saved.place.region):
        raise SavedPlanRefused(file, f"it is for {saved.place}, and --db is {place}")
    return chosen
