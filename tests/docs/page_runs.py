"""Runs a page's blocks, in order, as a reader would: in one folder, with the names and variables of those before."""

from __future__ import annotations

import gc
import importlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from doc_blocks import Block

import penstock
from penstock.cli.main import cli
from penstock.engine import Engine

_JOB = re.compile(r"\bjob_[0-9a-z]{6,}_[0-9a-z]{6}\b")
VARYING = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "MOMENT"),
    (re.compile(r" *\b\d+\.\d s\b"), " TIME"),
    (re.compile(r"\b\d+\.\d\ds\b"), "TIME"),
    (_JOB, "JOB"),
    (re.compile(r"\b[\w.-]+:\d+:[0-9a-f]{6}\b"), "WORKER"),
    (re.compile(r"\b\d{14}-[0-9a-f]{8}\b"), "BACKUP"),
    (re.compile(r" \(http://127\.0\.0\.1:\d+\)"), ""),  # where an aws:// URL really leads in a test
    (re.compile(r"took [\d,]+ read units"), "took N read units"),
]
"""What no two runs have alike: moments, durations, the ids of jobs, the names of workers and of backups."""

_TEST = re.compile(r"^def test_", re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")
_PYTEST_FILE = re.compile(r"(test_\w+|conftest)\.py")
"""Files that a console of the page runs, with `python -m pytest`."""
_ADDRESS = re.compile(r"http://(?:localhost|127\.0\.0\.1):8000")


def steady(text: str) -> str:
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def open_engines() -> list[Engine]:
    return [one for one in gc.get_objects() if type(one) is Engine]


@dataclass
class PageRun:
    """One page's run: `server` is what answers where the page says http://localhost:8000, `fixture` gives pytest's."""

    page: str
    folder: Path
    server: str
    fixture: Callable[[str], Any]
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    job: str = ""
    """The id of the job that the page is about, once a command has printed one."""
    before: list[Engine] = field(default_factory=open_engines)
    """The tests' own."""

    def run(self, block: Block) -> str:
        """What the block prints. A block whose first line is `# name.py` is that file for those after it.

        A file of pytest's is only written.
        """
        if "run" in block.says:
            self._exec(block.says["run"], block)
        written = _FILE.match(block.text)
        if written:
            (self.folder / written[1]).write_text(block.text)
            importlib.invalidate_caches()
            if _PYTEST_FILE.fullmatch(written[1]):
                return ""
        said = io.StringIO()
        with redirect_stdout(said):
            if _TEST.search(block.text):
                self._tested(block)
            else:
                self._exec(block.text, block)
        return said.getvalue()

    def play(self, block: Block) -> str:
        """The console's block with what its commands print now."""
        if "run" in block.says:
            self._exec(block.says["run"], block)
        lines = block.text.replace("\\\n", " ").splitlines()
        return "".join(f"{line}\n{self._output(line[2:])}" for line in lines if line.startswith("$ "))

    def _output(self, line: str) -> str:
        words = shlex.split(_JOB.sub(lambda found: self.job or found[0], line))
        match words:
            case ["export", *settings]:
                os.environ.update(setting.split("=", 1) for setting in settings)
                return ""
            case ["cat", file]:
                return Path(file).read_text()
            case ["python", *rest]:
                printed = self._process(rest)
            case ["penstock", "worker", *rest]:  # its handlers of signals are not for this process
                printed = self._process(["-m", "penstock", "worker", *rest])
            case ["penstock", *rest]:
                printed = CliRunner().invoke(cli, rest, prog_name="penstock").output
            case _:
                raise AssertionError(f"{self.page} has a command that is not known here: {line}")
        found = _JOB.search(printed)
        self.job = self.job or (found[0] if found else "")
        return printed

    def _process(self, words: list[str]) -> str:
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return ran.stdout

    def _exec(self, code: str, block: Block) -> None:
        # As many lines before the code as the page has, so that a traceback names the page's own.
        padded = "\n" * block.line + _ADDRESS.sub(self.server, code)
        exec(compile(padded, self.page, "exec", dont_inherit=True), self.names)

    def _tested(self, block: Block) -> None:
        """Calls the block's tests, with the fixtures that they name."""
        before = set(self.names)
        self._exec(block.text, block)
        for name in [name for name in self.names if name.startswith("test_") and name not in before]:
            test = self.names[name]
            left = [id(engine) for engine in open_engines()]
            test(*map(self.fixture, inspect.signature(test).parameters))
            self.before += [engine for engine in open_engines() if id(engine) not in left]  # their fixtures close them

    def close(self) -> None:
        """Closes what the page left open, as the end of a program would: also under a name that it gave away again."""
        for value in self.names.values():
            if isinstance(value, penstock.Database | penstock.App):
                value.close()
        for engine in open_engines():
            if all(engine is not one for one in self.before):
                engine.close()
        for name in [file.stem for file in self.folder.glob("*.py")]:
            sys.modules.pop(name, None)
