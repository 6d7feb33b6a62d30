"""docs/cli/: every command, its arguments and options; a page for each group."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from penstock.cli.kit.exit_codes import MEANINGS, exit_codes_text
from penstock.cli.kit.groups import Command, Group
from penstock.cli.main import cli
from penstock.cli.tables import TablesGroup

_NOTE = "<!-- Made by `python docs/generate`; edit the commands' help instead. -->"

_PAGES = {
    "quickstart": "database",
    "serve": "database",
    "dynamodb-local": "database",
    "up": "database",
    "backup": "database",
    "repair": "database",
    "heat": "database",
    "worker": "jobs",
}
"""Commands that share a page; every other one has its own."""

_TITLES = {"database": "Commands for databases and their files", "jobs": "Commands for jobs"}

_README = """
Every command has `--help`, which ends with its exit codes.

## The database

`--db TARGET` names it: a file, `:memory:`, `http://127.0.0.1:8000`, or `aws://eu-west-2`. Without the option, a
system's own variables are read, then `PENSTOCK_DB`; some commands then take the only `.db` file of the folder.

| variable | |
|---|---|
| `PENSTOCK_DB` | the database |
| `PENSTOCK_FILES` | where files are: a folder, or `s3://bucket/prefix` |
| `PENSTOCK_WEBHOOK_SECRET` | signs the [webhooks](../webhooks.md) of jobs |
| `PENSTOCK_JOBS_TABLE` | the table of jobs |
| `PENSTOCK_ARG_NAME` | the argument `name`, which was left out of a pulled job, for `penstock jobs debug` |
| `PENSTOCK_ENVIRONMENT` | `--env` of `penstock tables` |
| `PENSTOCK_MAX_WAIT` | `--max-wait` of `penstock tables` |
| `PENSTOCK_DASHBOARD_TOKEN` | `--token` of `penstock up` |
| `NO_COLOR`, `TERM=dumb` | no colours; a dumb terminal has no progress lines either |

Two commands are called backup. `penstock backup` copies a database file with all its tables; `penstock tables backup`
makes a DynamoDB backup of one table, which its database keeps.

## Programs that call it

With `--json`, the result is JSON on stdout, progress is not shown, and an error is one line of JSON on stderr:

    {"error": {"kind": "JobNotFound", "message": "…", "next": null, "exit_code": 4}}

`kind` is the class of the error (`Usage` for a wrong call), `next` what to do, where that is known. `--yes` answers the
question before a change; without it and without a terminal, nothing is changed. `--dry-run` shows what would be done.

| exit code | |
|---|---|
{codes}

A command's page says what a code means there. Code 7 is a difference: of `tables verify`, `tables diff-data` and
`files verify` always, of `tables plan` and `tables doctor` with `--exit-code`. Code 1 always means that it failed.

## Completion

Bash, zsh and fish complete commands, options, database files, and from a database file its tables and job ids.
AWS and other servers are never asked.

    eval "$(_PENSTOCK_COMPLETE=bash_source penstock)"      # in ~/.bashrc
    eval "$(_PENSTOCK_COMPLETE=zsh_source penstock)"       # in ~/.zshrc
    _PENSTOCK_COMPLETE=fish_source penstock | source       # in ~/.config/fish/completions/penstock.fish

## Commands
"""


def cli_pages() -> dict[str, str]:
    """The pages of docs/cli/ by their names: an index, and one for each group."""
    pages: dict[str, list[str]] = {}
    with click.Context(cli) as context:
        for name in (name for title in cli.sections for name in cli.section_names(title)):
            command = cli.get_command(context, name)
            assert command is not None
            page = _PAGES.get(name, name)
            lines = pages.setdefault(page, [_NOTE, "", f"# {_TITLES.get(page, f'penstock {page}')}", ""])
            lines += _command(command, ("penstock", name), top=page in _TITLES)
    made = {f"{name}.md": "\n".join(lines).rstrip("\n") + "\n" for name, lines in pages.items()}
    return {"README.md": _index(), **made}


def _index() -> str:
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    lines = [_NOTE, "", "# The command line", _README.replace("{codes}", codes)]
    for title in cli.sections:
        lines += [f"### {title}", "", "| command | |", "|---|---|"]
        for name in cli.section_names(title):
            page = _PAGES.get(name, name)
            anchor = f"#penstock-{name}" if page in _TITLES else ""
            lines.append(f"| [`penstock {name}`]({page}.md{anchor}) | {cli.summary(name)} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _command(command: click.Command, path: tuple[str, ...], *, top: bool = True) -> Iterator[str]:
    if top or len(path) > 2:
        yield from (f"{'#' * min(len(path), 4)} {' '.join(path)}", "")
    yield from (f"**`{_usage(command, path)}`**", "")
    yield from _help(command)
    yield from _options(command)
    if isinstance(command, Command | Group):
        yield from (f"Exit codes: {exit_codes_text(command.exit_codes)}.", "")
    if isinstance(command, TablesGroup) and path != ("penstock", "tables"):
        yield from ("Its commands are those of [`penstock tables`](tables.md).", "")
    elif isinstance(command, click.Group):
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
            paragraph = re.sub(r"\\\n\s*", "", paragraph)  # a command over two lines is one
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
