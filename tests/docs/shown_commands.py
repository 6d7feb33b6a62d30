"""Command lines as pages show them: whether `penstock` would take them, and whether `python -m` finds its module."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
from doc_blocks import ROOT, Block, indented_lines, prose_of

from penstock.cli.main import cli

_INLINE = re.compile(r"`((?:[A-Z_]+=\S+ )*penstock [^`]+)`")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*=\S*")
_PLACEHOLDER = re.compile(r"\[?[A-Z]+\]?|…")
_ENDS = {"|", "&", "&&", ";", ">", "<", "2>", "||"}
_REMARK = re.compile(r"(?<=\S) {2,}\S.*")  # what a list of examples says of each, beside it
_MODULE = re.compile(r"python3? -m ((?:bench|trust|docs)[\w.]*)")


def shown_lines(text: str, blocks: list[Block]) -> Iterator[str]:
    """Lines of a page that are commands to type: after a `$` in a console, and in blocks that are set in."""
    for block in blocks:
        if block.is_console:
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.startswith(("$ ", "penstock ")):
                    yield line.removeprefix("$ ")
    for line in indented_lines(text):
        if line.startswith(("$ ", "penstock ", ".venv/bin/penstock ")):
            yield _REMARK.sub("", line.removeprefix("$ "))


def named_commands(text: str) -> Iterator[str]:
    """Commands that the running text names, such as `penstock jobs why ID`."""
    for found in _INLINE.finditer(prose_of(text)):
        yield found[1]


def modules(text: str) -> Iterator[str]:
    """What `python -m` is told to run, of ours."""
    for found in _MODULE.finditer(text):
        yield found[1].rstrip(".")


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def faults_of(line: str, *, whole: bool) -> list[str]:
    """What `penstock` would not take in this line; with `whole`, that something is missing as well."""
    return [fault for words in _commands(line) for fault in _faults(words, whole)]


def _commands(line: str) -> Iterator[list[str]]:
    """The words after each `penstock` of the line, up to where the shell ends a command."""
    words: list[str] = []
    for word in [*_split(line), ";"]:
        if word in _ENDS:
            if words and words[0].rpartition("/")[2] == "penstock":
                yield words[1:]
            words = []
        elif words or not _VARIABLE.fullmatch(word):
            words.append(word)


def _split(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    return list(lexer)


def _faults(words: list[str], whole: bool) -> list[str]:
    command: click.Command = cli
    path = ["penstock"]
    while isinstance(command, click.Group) and words and not words[0].startswith(("-", "…")):
        context = click.Context(command, info_name=path[-1])
        found = command.get_command(context, words[0])
        if found is None and words[0] == "COMMAND":
            return []
        if found is None:
            return [f"{' '.join(path)} has no command {words[0]}"]
        path, words, command = [*path, words[0]], words[1:], found
        whole = whole and not getattr(command, "defaults", None)  # what is left out has a default of that group's
    if isinstance(command, click.Group):
        return [] if not whole or words else [f"{' '.join(path)} wants a command"]
    return _refused(command, " ".join(path), words, whole)


def _refused(command: click.Command, path: str, words: list[str], whole: bool) -> list[str]:
    context = click.Context(command, info_name=path)
    try:
        given, left, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        return [f"{path}: {error.format_message()}"]
    if left and whole:
        return [f"{path} does not take {' '.join(left)}"]
    return [fault for parameter in command.params for fault in _parameter(path, parameter, given, whole)]


def _parameter(path: str, parameter: click.Parameter, given: dict[str, object], whole: bool) -> Iterator[str]:
    value = given.get(parameter.name or "")
    if whole and parameter.required and not parameter.envvar and not isinstance(value, str | list | tuple):
        yield f"{path} wants {parameter.human_readable_name}"
    if isinstance(parameter.type, click.Choice):
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, str) and one not in parameter.type.choices and not _PLACEHOLDER.fullmatch(one):
                yield f"{path}: {one!r} is none of {', '.join(map(str, parameter.type.choices))}"
