"""A group of commands that imports a command's file only to run it or to show its help."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from penstock.cli.terminal import harmless_output
from penstock.errors import PenstockError

Commands = Mapping[str, tuple[str, str]]
"""name → (file, what the group's help says of it)"""


INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""


class LazyGroup(click.Group):
    """Lists commands from a table; each file has its command as `command`."""

    def __init__(self, *args: Any, lazy: Commands, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        command: click.Command = import_module(self.lazy[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name][1]) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **options: Any) -> Any:
        with harmless_output():  # errors too, which are shown after `invoke`
            return super().main(*args, **options)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.filename is None:
                raise  # a pipe that nobody reads any more, which click knows about; or nothing that a user has named
            raise click.ClickException(f"{error.filename}: {error.strerror}.") from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
