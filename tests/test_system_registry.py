"""The registry of systems: found by entry point, never in the way of commands that do not need them."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from penstock import registry
from penstock.cli.main import cli
from penstock.registry import (
    GROUP,
    Commands,
    JobTables,
    System,
    SystemUnusable,
    load_part,
    load_systems,
    system_tables,
    systems,
)

OTHERS = System("shop", "Shop", commands=Commands("shop", "A shop.", f"{__name__}:shop"), jobs=("no_such_module:jobs",))
BROKEN = System("broken", "Broken", commands=Commands("broken", "Cannot be imported.", "no_such_module:command"))
NO_SYSTEM = "not a system"


@click.group("shop")
def shop() -> None:
    """Another package's commands."""


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "systems", lambda: {one.name: one for one in (OTHERS, BROKEN)})


def test_the_five_systems_are_registered_with_all_of_their_parts() -> None:
    names = ["account-records", "construction-expenses", "delphi", "excel-reports", "security-assistant"]
    assert list(systems()) == names
    for system in systems().values():
        assert system.commands is not None and system.tables is not None and system.jobs
        sources = [one.source if isinstance(one, JobTables) else one for one in system.jobs]
        for part in (system.commands.group, system.demo, *sources):
            assert callable(load_part(part)), part


def test_the_names_of_tables_are_those_of_systems_and_of_jobs() -> None:
    assert list(system_tables()) == [*list(systems())[:4], "jobs", "security-assistant"]


def test_what_cannot_be_imported_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    points = [
        point("gone", "no_such_module:SYSTEM"),
        point("lost", f"{__name__}:NO_SUCH_NAME"),
        point("text", f"{__name__}:NO_SYSTEM"),
        point("shop", f"{__name__}:OTHERS"),
    ]
    with caplog.at_level(logging.WARNING):
        assert load_systems(points) == {"shop": OTHERS}
    assert [record.getMessage().split(" is left out")[0] for record in caplog.records] == [
        "The system gone (no_such_module:SYSTEM)",
        f"The system lost ({__name__}:NO_SUCH_NAME)",
        f"The system text ({__name__}:NO_SYSTEM)",
    ]


def test_of_two_systems_of_one_name_the_first_is_taken() -> None:
    twice = load_systems([point("a", f"{__name__}:OTHERS"), point("b", f"{__name__}:OTHERS")])
    assert list(twice) == ["shop"]


@pytest.mark.usefixtures("others")
def test_another_packages_commands_are_listed_and_run_and_a_broken_one_is_an_error_only_when_used() -> None:
    page = CliRunner().invoke(cli, ["--help"])
    assert page.exit_code == 0 and "A shop." in page.output and "Cannot be imported." in page.output
    assert "Another package's commands." in CliRunner().invoke(cli, ["shop", "--help"]).output
    broken = CliRunner().invoke(cli, ["broken", "list"])
    assert broken.exit_code == 1
    assert "no_such_module:command cannot be imported" in broken.output and "Reinstall" in broken.output
    assert CliRunner().invoke(cli, ["serve", "--help"]).exit_code == 0


@pytest.mark.usefixtures("others")
def test_jobs_that_cannot_be_read_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert registry.job_source_types() == ()
    assert "The jobs of no_such_module:jobs are not shown" in caplog.text


def test_a_part_that_is_not_there_names_itself() -> None:
    with pytest.raises(SystemUnusable, match=r"penstock\.registry:nothing cannot be imported"):
        load_part("penstock.registry:nothing")
