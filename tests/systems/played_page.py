"""A page of the docs with the output of its commands and examples as it is now."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

from click.testing import CliRunner

from penstock.cli.main import cli

_CONSOLE = r"^```console\n(?P<console>.*?)^```$"
_PYTHON = r"^```python\n(?P<code>.*?)^```\n\n```\n.*?^```$"


def played(page: str) -> str:
    """The same text if it says what is so. Commands run in this folder; the examples share their names."""
    names: dict[str, object] = {}

    def block(found: re.Match[str]) -> str:
        if found["console"] is not None:
            return f"```console\n{''.join(_console(found['console']))}```"
        return f"```python\n{found['code']}```\n\n```\n{_printed(found['code'], names)}```"

    return re.sub(f"{_CONSOLE}|{_PYTHON}", block, page, flags=re.MULTILINE | re.DOTALL)


def _printed(code: str, names: dict[str, object]) -> str:
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(code, "example", "exec"), names)
    return said.getvalue()


def _console(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("$ "):
            yield f"{line}\n{_output(shlex.split(line[2:]))}"


def _output(words: list[str]) -> str:
    run: dict[str, Callable[[list[str]], str]] = {
        "penstock": lambda rest: CliRunner().invoke(cli, rest, prog_name="penstock").output,
        "cat": lambda rest: Path(rest[0]).read_text(),
    }
    return run[words[0]](words[1:])
