"""`--help` of every command has an example; those for jobs, records and files fit on a screen of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from penstock.cli.main import cli


def _commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if isinstance(command, click.Group):
                yield from _commands(command, (*path, name))
            else:
                yield (*path, name), command


FITTING = [("jobs",), ("worker",), ("records",), ("files",)]
PAGES = dict(_commands(cli, ("penstock",)))


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_a_page_has_an_example_and_fits_on_a_screen(path: tuple[str, ...]) -> None:
    with click.Context(PAGES[path], info_name=" ".join(path), max_content_width=80, terminal_width=80) as context:
        page = PAGES[path].get_help(context)
    assert "Example" in page
    if path[1:2] in FITTING:
        assert [line for line in page.splitlines() if len(line) > 80] == []
