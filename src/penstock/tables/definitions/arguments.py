"""How a definition is called in Python: arguments that are missing or unknown, and the line that it stands on.

A definition that is called wrongly is as wrong as one with wrong values: both are a DefinitionError that names the
table, the member and the line, and no TypeError.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from penstock.tables.definitions.problems import DefinitionError, Problem

T = TypeVar("T")

_HERE = ("penstock.tables.definitions", "dataclasses")
"""Modules that are between the user's line and the check: `Table.of`, `dataclasses.replace`."""

_SYSTEMS = "penstock.systems."

_LIBRARIES = tuple({sysconfig.get_path(one) + os.sep for one in ("stdlib", "platstdlib", "purelib", "platlib")})


def checked_arguments(cls: type[T]) -> type[T]:
    """The class, with a constructor that raises DefinitionError for arguments that it has not."""
    plain = cls.__init__
    signature = inspect.signature(plain)

    @wraps(plain)
    def checked(self: T, *given: Any, **named: Any) -> None:
        try:
            signature.bind(self, *given, **named)
        except TypeError as error:
            problems = _argument_problems(cls.__name__, signature, given, named) or [_other(cls.__name__, str(error))]
            raise DefinitionError([one.at(calling_line()) for one in problems]) from None
        plain(self, *given, **named)

    cls.__init__ = checked  # type: ignore[assignment]
    return cls


def _argument_problems(
    kind: str, signature: inspect.Signature, given: tuple[Any, ...], named: Mapping[str, Any]
) -> list[Problem]:
    parameters = list(signature.parameters.values())[1:]
    names = [one.name for one in parameters]
    by_place = [one.name for one in parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    place = _place(kind, given, named, names)
    found = []
    for name in named:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            mend = f"Did you mean {near[0]!r}?" if near else f"It may have {', '.join(names)}"
            found.append(Problem(place, f"{name!r} is no member of {_article(kind)}", mend))
    taken = {*by_place[: len(given)], *named}
    for one in parameters:
        if one.default is inspect.Parameter.empty and one.name not in taken:
            found.append(Problem(place, f"{one.name} is missing", _example(kind, one.name)))
    if len(given) > len(by_place):
        text = f"it has {len(given)} values without a name, and takes {len(by_place)} ({', '.join(by_place)})"
        found.append(
            Problem(place, text, f"Write the names of the others, such as {names[len(by_place) % len(names)]}=…")
        )
    for name in by_place[: len(given)]:
        if name in named:
            found.append(Problem(place, f"{name} is given twice", "Write it once"))
    return found


def _other(kind: str, text: str) -> Problem:
    return Problem(kind, text, "Mend the call")


def _place(kind: str, given: tuple[Any, ...], named: Mapping[str, Any], names: list[str]) -> str:
    if names[:1] != ["name"]:
        return kind
    missing = object()
    name = given[0] if given else named.get("name", missing)
    return kind.lower() if name is missing else f"{kind.lower()} {name!r}"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AI' else 'a'} {kind}"


def _example(kind: str, member: str) -> str:
    examples = {"Table": 'Table("jobs", "id:S")', "Index": 'Index("by-state", "state:S")'}
    return f"Write {examples.get(kind, f'{kind}(…, {member}=…)')}"


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def calling_line() -> str:
    """`mytables.py:12`: the line of the definition that is being made; '' for one that no file of the user's has.

    A definition that Penstock itself makes, of a template or of options, has no line: its own lines would mislead.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _module(frame).startswith(_HERE):
        frame = frame.f_back
    if frame is None or (_module(frame).startswith("penstock.") and not _module(frame).startswith(_SYSTEMS)):
        return ""
    return _line(frame.f_code.co_filename, frame.f_lineno)


def raising_line(error: BaseException) -> str:
    """The innermost line of the user's own files that an error came through; '' for none."""
    found = ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        name, file = str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_frame.f_code.co_filename
        if not name.startswith("penstock.") and not file.startswith(("<", *_LIBRARIES)):
            found = _line(file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _line(file: str, number: int) -> str:
    """Relative to the working directory where the file is below it."""
    with suppress(OSError):  # it may have been deleted
        file = file.removeprefix(f"{Path.cwd()}{os.sep}")
    return f"{file}:{number}"
