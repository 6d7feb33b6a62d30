"""Penstock's own commands, and beside them those of the installed systems (penstock/registry.py).

The registry is read only where a word is no command of ours, or all commands are listed: most commands start without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.kit.groups import Group

if TYPE_CHECKING:
    from penstock.registry import Commands


class RootGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_system_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from penstock.registry import load_part

        found = _system_commands().get(cmd_name)
        command: click.Command | None = None if found is None else load_part(found.group)
        return command

    def section_names(self, title: str) -> list[str]:
        """Systems are listed under "Systems", after the demo of them."""
        names = super().section_names(title)
        return [*names, *sorted(_system_commands())] if title == "Systems" else names

    def summary(self, name: str) -> str:
        return super().summary(name) if name in self.lazy else _system_commands()[name].summary


def _system_commands() -> dict[str, Commands]:
    from penstock.registry import systems

    return {one.commands.name: one.commands for one in systems().values() if one.commands is not None}
