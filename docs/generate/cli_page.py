"""docs/cli.md: every command, its arguments and options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from penstock.cli.main import cli


def cli_page() -> str:
    lines = [
        "<!-- Made by `python docs/generate`; edit the commands' help instead. -->",
        "",
        "# The command line",
        "",
        "Every command has `--help`. Exit codes: 0 done, 1 failed, 2 called wrongly; others stand with their commands.",
        "",
        "| command | |",
        "|---|---|",
    ]
    groups = sorted(cli.list_commands(click.Context(cli)))
    for name in groups:
        lines.append(f"| [`penstock {name}`](#penstock-{name}) | {cli.summary(name)} |")
    lines.append("")
    for name in groups:
        command = cli.get_command(click.Context(cli), name)
        if command is not None:
            lines += _command(command, ("penstock", name))
    return "\n".join(lines).rstrip("\n") + "\n"


def _command(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    marks = "#" * min(len(path), 4)
    yield from (f"{marks} {' '.join(path)}", "")
    yield from (f"**`{_usage(command, path)}`**", "")
    yield from _help(command)
    yield from _options(command)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in sorted(command.list_commands(context)):
            found = command.get_command(context, name)
            if found is not None:
                yield from _command(found, (*path, name))


def _usage(command: click.Command, path: tuple[str, ...]) -> str:
    words = list(path)
    if isinstance(command, click.Group):
        return " ".join([*words, "COMMAND"])
    if any(isinstance(parameter, click.Option) for parameter in command.params):
        words.append("[OPTIONS]")
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            name = parameter.metavar or (parameter.name or "").upper()
            name = name if parameter.nargs == 1 else f"{name}..."
            words.append(name if parameter.required else f"[{name}]")
    return " ".join(words)


def _help(command: click.Command) -> Iterator[str]:
    """Paragraphs as they are; those that begin with a backspace are set in, as click shows them."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            title, *lines = paragraph.removeprefix("\b").strip("\n").split("\n")
            shown = [line for line in lines if line.strip()]
            yield from (title, "", *(f"    {line.strip()}" for line in shown), "")
        elif paragraph:
            yield from (paragraph, "")


def _options(command: click.Command) -> Iterator[str]:
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        yield from ("| option | |", "|---|---|", *map(_row, options), "")


def _row(option: click.Option) -> str:
    names = [f"`{name}`" for name in (*option.opts, *option.secondary_opts)]
    value = _value(option)
    shown = ", ".join(names) + (f" `{value}`" if value else "")
    said = " ".join((option.help or "").split())
    notes = [said] if said else []
    if option.required:
        notes.append("Required.")
    elif default := _default(option):
        notes.append(f"Default: {default}.")
    if option.envvar and str(option.envvar) not in said:
        notes.append(f"Also `{option.envvar}`.")
    return f"| {shown} | {_cell(' '.join(notes))} |"


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "\\|".join(map(str, option.type.choices))
    return option.metavar or {"integer range": "N", "integer": "N", "float range": "N", "float": "N"}.get(
        option.type.name, option.type.name.upper()
    )


def _default(option: click.Option) -> str:
    value = option.default
    if (
        option.is_flag
        or not isinstance(value, str | int | float | tuple | list)
        or isinstance(value, bool)
        or value == ""
    ):
        return ""
    values = value if isinstance(value, tuple | list) else (value,)
    return ", ".join(f"`{one:g}`" if isinstance(one, float) else f"`{one}`" for one in values)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
