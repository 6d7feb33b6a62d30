"""docs/api/*.md: the public names, from their signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

from public_names import PAGES, Page

_SYNC = {
    "AsyncJobContext": "penstock.jobs.context:JobContext",
    "AsyncDatabase": "penstock.client.database:Database",
    "AsyncTable": "penstock.client.tables.table:Table",
}
"""Whose words hold for the awaited methods of the same name."""

_CLASS = re.compile(r"<class '([\w.]+)'>")
_LONG = 40  # characters of a default that say more in its own entry
_MADE = "<!-- Made by `python docs/generate`; edit the docstrings instead. -->"


def api_pages() -> dict[str, str]:
    """Every page of the reference, by its file's name."""
    pages = {page.file: _page(page) for page in PAGES}
    return {"README.md": _contents(), **pages}


def _contents() -> str:
    lines = [_MADE, "", "# Reference", "", "The public names, with their signatures and what they promise.", ""]
    lines += ["| page | names |", "|---|---|"]
    for page in PAGES:
        names = ", ".join(f"`{name.partition(':')[2]}`" for name in page.names)
        lines.append(f"| [{page.title}]({page.file}) | {names} |")
    lines += [
        "",
        "Commands: [the command line](../cli/README.md). Everything else is internal, and may change without notice.",
        "",
    ]
    return "\n".join(lines)


def _page(page: Page) -> str:
    lines = [_MADE, "", f"# Reference: {page.title.lower()}", "", page.about, ""]
    for place in page.names:
        lines += _entry(place)
    return "\n".join(lines).rstrip("\n") + "\n"


def found(place: str) -> Any:
    """What `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _entry(place: str) -> Iterator[str]:
    module, _, name = place.partition(":")
    value = found(place)
    yield from (f"## {name}", "", f"`from {module} import {name}`", "")
    if inspect.isclass(value):
        yield from _class(value)
    else:
        yield from (_code(name + signature(value)), "", documented(value), "")


def _class(value: type) -> Iterator[str]:
    bases = [base.__name__ for base in value.__bases__ if base not in (object,) and "Protocol" not in base.__name__]
    if _is_called(value):
        yield from (_code(value.__name__ + signature(value)), "")
    if bases and not issubclass(value, enum.Enum):
        yield from (f"Base: {', '.join(f'`{base}`' for base in bases)}.", "")
    yield from (documented(value), "")
    rows = list(_fields(value))
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")
    for name, member in members(value):
        yield from _member(value, name, member)


def _is_called(value: type) -> bool:
    return not issubclass(value, enum.Enum) and not inspect.isabstract(value)


def _fields(value: type) -> Iterator[str]:
    """A dataclass's fields and an enumeration's members, with the words that stand under each in the source."""
    if issubclass(value, enum.Enum):
        for one in value:
            yield f"| `{one.name}` | `{one.value}` |"
        return
    words = _field_words(value)
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if not field.name.startswith("_"):
                yield f"| `{field.name}: {_flat(str(field.type))}` | {words.get(field.name, '')} |"
    else:
        for name, text in words.items():
            yield f"| `{name}` | {text} |"


def _field_words(value: type) -> dict[str, str]:
    """The texts that stand as statements after an attribute, in the class's body or in its `__init__`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, SyntaxError):
        return {}
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)][:1]
    bodies += [node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return {name: text for body in bodies for name, text in _worded(body) if not name.startswith("_")}


def _worded(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, after in pairwise(body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            if isinstance(target, ast.Name):
                yield target.id, _flat(after.value.value)
            elif isinstance(target, ast.Attribute):
                yield target.attr, _flat(after.value.value)


def members(value: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, in the order of the source, its own bases' first names too."""
    seen: set[str] = set()
    for base in value.__mro__:
        if base.__module__.partition(".")[0] != "penstock":
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member):
                yield name, member


def _member(value: type, name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield from (_code(f"{value.__name__}.{name}{_returned(member.fget)}"), "", member_words(value, name), "")
        return
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    without = not isinstance(member, staticmethod)
    word = "async " if inspect.iscoroutinefunction(function) else ""
    shown = _code(f"{word}{value.__name__}.{name}{signature(function, bound=without)}")
    yield from (shown, "", member_words(value, name), "")


def signature(value: Any, *, bound: bool = False) -> str:
    """As a caller writes it: without `self`, without quotes, and without addresses in memory."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    parameters = list(found.parameters.values())[1 if bound else 0 :]
    shown = str(found.replace(parameters=[_unquoted(one) for one in parameters], return_annotation=_plain(found)))
    return _CLASS.sub(r"\1", shown).removesuffix(" -> None")


class _Words:
    """An annotation that is shown as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _unquoted(parameter: inspect.Parameter) -> inspect.Parameter:
    said, default = parameter.annotation, parameter.default
    if default is not parameter.empty and " at 0x" in repr(default):
        parameter = parameter.replace(default=_Words("…"))
    elif default is not parameter.empty and len(repr(default)) > _LONG:
        parameter = parameter.replace(default=_Words(f"{type(default).__name__}(…)"))
    return parameter.replace(annotation=_Words(said)) if isinstance(said, str) else parameter


def _plain(found: inspect.Signature) -> Any:
    said = found.return_annotation
    return _Words(said) if isinstance(said, str) else said


def _returned(function: Any) -> str:
    said = function.__annotations__.get("return", "")
    return f": {said}" if said else ""


def documented(value: Any) -> str:
    """Its docstring as Markdown; empty where it has none of its own."""
    return own_words(value).rstrip()


def member_words(value: type, name: str) -> str:
    """A member's docstring; for one that is awaited, else that of its like."""
    member = getattr(value, name)
    text = own_words(getattr(member, "__func__", member))
    if not text and value.__name__ in _SYNC:
        like = getattr(found(_SYNC[value.__name__]), name, None)
        return own_words(like).rstrip()
    return text.rstrip()


def own_words(value: Any) -> str:
    """The docstring that somebody wrote: not what a dataclass or an enumeration makes for itself."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    if inspect.isclass(value) and (
        text.startswith(f"{value.__name__}(") or text == inspect.cleandoc(enum.Enum.__doc__ or "")
    ):
        return ""
    return text


def _code(text: str) -> str:
    return f"**`{text}`**"


def _flat(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
