"""Commands and groups of commands.

1. A group imports a lazy command's module only to run the command or to show its help.
2. A word that is no command, or an option that does not exist, is answered with the nearest one.
3. An error of Penstock's ends the command with its message and an exit code. With --json it is one line of JSON on
   stderr, `{"error": {"kind", "message", "next", "exit_code"}}`, with "details" where the error has facts of its own
   (`form`); stdout has only what was printed before.
4. Every help page ends with the command's exit codes.
5. NO_COLOR and TERM=dumb switch colours off.
6. Completion imports only the command whose words are completed. On every error it prints nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.kit.exit_codes import FAILED, INTERRUPTED, CommandFailed, exit_codes_text
from penstock.cli.kit.output import OutputFailed, discard_output, safe_output, wants_colour
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

RENAMED_OPTIONS = {"--url": "--db", "--other-url": "--other-db"}
"""Options under names that commands no longer have."""

LazyCommands = Mapping[str, tuple[str, str]]
"""name → (`module` or `module:attribute`, one line for the group's help). The attribute is `command` if not given."""


class Command(click.Command):
    """A command whose help ends with its exit codes (4)."""

    def __init__(self, *args: Any, exit_codes: Mapping[int, str] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.exit_codes = exit_codes or {}

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_exit_codes(formatter, self.exit_codes)


class Group(click.Group):
    """A group of commands: registered ones, and `lazy` ones that are imported when they are used (1).

    `sections` divides the list in the help: title → names. Commands that no section names are listed under "Commands".
    `synonyms` are other tools' words for commands: word → names to suggest.
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        lazy: LazyCommands | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        exit_codes: Mapping[int, str] | None = None,
        synonyms: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.synonyms = synonyms or {}
        self.lazy = dict(lazy or {})
        self.sections = sections or {}
        self.exit_codes = exit_codes or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.lazy, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return self.commands.get(cmd_name)
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute or "command")
        return command

    def summary(self, name: str) -> str:
        """One line on a command, without importing a lazy one."""
        return self.lazy[name][1] if name in self.lazy else self.commands[name].get_short_help_str(limit=100)

    def section_names(self, title: str) -> list[str]:
        return list(self.sections[title])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        sections = {title: self.section_names(title) for title in self.sections}
        listed = {name for section in sections.values() for name in section}
        rest = [name for name in names if name not in listed]
        for title, section in (*sections.items(), ("Commands", rest)):
            rows = [(name, self.summary(name)) for name in section if name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_exit_codes(formatter, self.exit_codes)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands with their summaries, then this group's options (6)."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        shown = [name for name in names if name not in self.commands or not self.commands[name].hidden]
        commands = [CompletionItem(name, help=self.summary(name)) for name in shown]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def _main_shell_completion(self, ctx_args: Any, prog_name: str, complete_var: str | None = None) -> None:
        """Completes quietly (6). Printing the script that a shell sources is no completion, and tells its errors."""
        variable = complete_var or f"_{prog_name}_COMPLETE".replace("-", "_").replace(".", "_").upper()
        if not os.environ.get(variable, "").endswith("_complete"):
            return super()._main_shell_completion(ctx_args, prog_name, complete_var)
        import logging  # here alone: a help page needs none

        level = logging.root.manager.disable
        logging.disable()
        try:
            super()._main_shell_completion(ctx_args, prog_name, complete_var)
        except Exception:  # an error message in the middle of a command line helps nobody
            sys.exit(FAILED)
        finally:
            logging.disable(level)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            from difflib import get_close_matches

            near = self.synonyms.get(name) or get_close_matches(name, self.list_commands(ctx), n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is None and not wants_colour():
            extra["color"] = False
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            raise  # click ends the command
        except OSError as error:
            if error.filename is None:
                raise click.ClickException(f"{error.strerror or error}.") from error
            raise click.ClickException(f"{error.filename}: {error.strerror}.") from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None

    def main(self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **options: Any) -> Any:  # type: ignore[override]
        words = list(sys.argv[1:] if args is None else args)
        with safe_output():
            if not standalone_mode:
                return super().main(words, standalone_mode=False, **options)
            try:
                code = super().main(words, standalone_mode=False, **options)
            except OutputFailed as error:  # of a help page, which is printed before a command is invoked
                discard_output()
                show_error(click.ClickException(str(error)), as_json="--json" in words)
                code = FAILED
            except click.ClickException as error:
                if isinstance(error.__cause__, OSError):
                    discard_output()
                show_error(error, as_json="--json" in words)
                code = error.exit_code
            except click.Abort:
                click.echo("Interrupted.", err=True)
                code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does: with the summary of what was done, and what was begun put away."""
    if threading.current_thread() is not threading.main_thread():  # where no handler can be set
        yield
        return
    import signal

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def command(name: str, *, exit_codes: Mapping[int, str] | None = None, **options: Any) -> Callable[[Any], Command]:
    """A command outside a group's module; in one, use the group's own `command`."""
    return click.command(name, cls=Command, exit_codes=exit_codes, **options)


def group(name: str, **options: Any) -> Callable[[Any], Group]:
    """A group; takes `lazy`, `sections` and `exit_codes`."""
    return click.group(name, cls=Group, **options)


def show_error(error: click.ClickException, *, as_json: bool) -> None:
    """On stderr: as click shows it, or as one line of JSON (3)."""
    if isinstance(error, click.NoSuchOption) and (new := _new_name(error)):
        error = click.UsageError(f"{error.message} Did you mean {new}?", error.ctx)
    if not as_json:
        error.show()
        return
    form: dict[str, Any] = {
        "kind": _kind(error),
        "message": error.format_message(),
        "next": _next_step(error),
        "exit_code": error.exit_code,
    }
    details = getattr(error.__cause__, "form", None)
    if isinstance(details, dict):
        form["details"] = details
    import orjson

    click.echo(orjson.dumps({"error": form}).decode(), err=True)


def _kind(error: click.ClickException) -> str:
    """The class of the error that a program can tell apart: Penstock's own, `Usage`, or `Failed`."""
    if isinstance(error, click.UsageError):
        return "Usage"
    return type(error.__cause__).__name__ if isinstance(error.__cause__, PenstockError) else "Failed"


def _next_step(error: click.ClickException) -> str | None:
    if isinstance(error, click.UsageError):
        return None if error.ctx is None else f"{error.ctx.command_path} --help"
    for one in (error, error.__cause__):
        step = getattr(one, "next_step", None)
        if isinstance(step, str) and step:
            return step
    return None


def _new_name(error: click.NoSuchOption) -> str | None:
    """What an option is called today, if the command has it."""
    new = RENAMED_OPTIONS.get(error.option_name)
    known = () if error.ctx is None else {name for param in error.ctx.command.params for name in param.opts}
    return new if new in known else None


def _write_exit_codes(formatter: click.HelpFormatter, codes: Mapping[int, str]) -> None:
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(f"Exit codes: {exit_codes_text(codes)}.")


__all__ = ["Command", "CommandFailed", "Group", "LazyCommands", "command", "group", "show_error"]
