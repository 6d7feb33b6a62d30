"""What a task gives its jobs by default: keys that are made of their arguments, and the limits that go with these.

    @app.task(rate="10/s", rate_key="{host}", concurrency_key=lambda host: host, max_concurrent=2, tenant="{customer}")
    def fetch(host: str, path: str, customer: str) -> None: ...

A key is a text with names of the task's parameters in braces, or a function of some of them. It is made when a job is
enqueued, of the arguments that it was given and the defaults of the others. What `options` says goes first.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from penstock.jobs.model.job import MOST_SLOTS, BadJob
from penstock.jobs.model.rate import parse_rate

Key = str | Callable[..., Any]
"""A text such as "{project}", or a function of a task's arguments, by their names."""

KEYS: Final = ("unique_key", "concurrency_key", "rate_key", "tenant")
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class TaskDefaults:
    unique_key: Key | None = None
    concurrency_key: Key | None = None
    max_concurrent: int | None = None
    rate: str | None = None
    rate_key: Key | None = None
    tenant: Key | None = None

    def bind(self, task: str, function: inspect.Signature, takes_context: bool) -> BoundDefaults | None:
        """For a task with this signature; None where there is nothing to give. Raises BadJob."""
        if all(getattr(self, one.name) is None for one in fields(self)):
            return None
        if self.rate is not None:
            parse_rate(self.rate)
        elif self.rate_key is not None:
            raise BadJob(f"The task {task} has a rate_key and no rate, such as rate='10/s'.")
        if self.max_concurrent is not None and not (
            type(self.max_concurrent) is int and 1 <= self.max_concurrent <= MOST_SLOTS
        ):
            raise BadJob(f"max_concurrent is a whole number from 1 to {MOST_SLOTS:,}, not {self.max_concurrent!r}.")
        parameters = list(function.parameters.values())[takes_context:]
        rules = {what: getattr(self, what) for what in KEYS if getattr(self, what) is not None}
        # A limit without a key is the task's own.
        if self.max_concurrent is not None:
            rules.setdefault("concurrency_key", _quoted(task))
        if self.rate is not None:
            rules.setdefault("rate_key", _quoted(task))
        named = {one.name: one.default for one in parameters if one.kind in _NAMED}
        any_name = len(named) < len(parameters)  # it takes **others
        makers = {what: _maker(task, what, rule, named, any_name) for what, rule in rules.items()}
        given = {one: value for one, value in named.items() if value is not inspect.Parameter.empty}
        return BoundDefaults(makers, given, self.max_concurrent, self.rate or "")


@dataclass(frozen=True, slots=True)
class BoundDefaults:
    """The defaults of one task."""

    makers: Mapping[str, Callable[[dict[str, Any]], str | None]]
    arguments: dict[str, Any]
    """The defaults of the task's parameters."""
    max_concurrent: int | None
    rate: str

    def of_job(self, arguments: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a job with these arguments that its options do not name. Raises BadJob."""
        known = {**self.arguments, **arguments}
        made = {what: make(known) for what, make in self.makers.items() if what not in options}
        given: dict[str, Any] = {what: key for what, key in made.items() if key is not None}
        if self.rate:
            given["rate"] = self.rate
        if self.max_concurrent is not None and "max_concurrent" not in options:
            given["max_concurrent"] = self.max_concurrent
        return given


def _quoted(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _maker(
    task: str, what: str, rule: Key, parameters: Mapping[str, Any], any_name: bool
) -> Callable[[dict[str, Any]], str | None]:
    if isinstance(rule, str):
        return _text_maker(task, what, rule, parameters, any_name)
    if not callable(rule):
        raise BadJob(f"{what} of the task {task} is a text such as '{{project}}' or a function, not {rule!r:.100}.")
    return _function_maker(task, what, rule, parameters, any_name)


def _text_maker(
    task: str, what: str, rule: str, parameters: Mapping[str, Any], any_name: bool
) -> Callable[[dict[str, Any]], str | None]:
    try:
        parts = list(string.Formatter().parse(rule))
    except ValueError as error:
        raise BadJob(f"{what} of the task {task} cannot be read ({error}): {rule!r:.100}.") from None
    for _, name, form, conversion in parts:
        # Only names: what attributes or elements a value has is for a function to say.
        if name is not None and (not name.isidentifier() or form or conversion):
            raise BadJob(f"{what} of the task {task} has {{{name}}}: only names of parameters may be in braces.")
        if name is not None and not any_name:
            _check_name(task, what, name, parameters)

    def make(arguments: dict[str, Any]) -> str | None:
        texts = [
            literal + ("" if name is None else _checked(task, f"{name}, of which {what} is made,", arguments.get(name)))
            for literal, name, _, _ in parts
        ]
        return "".join(texts)

    return make


def _function_maker(
    task: str, what: str, rule: Callable[..., Any], parameters: Mapping[str, Any], any_name: bool
) -> Callable[[dict[str, Any]], str | None]:
    wanted = inspect.signature(rule).parameters.values()
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in wanted)
    names = [one.name for one in wanted if one.kind in _NAMED]
    optional = {one.name for one in wanted if one.default is not inspect.Parameter.empty}
    for name in names:
        if not any_name and name not in optional:
            _check_name(task, what, name, parameters)

    def make(arguments: dict[str, Any]) -> str | None:
        given = arguments if takes_all else {name: arguments[name] for name in names if name in arguments}
        try:
            made = rule(**given)
        except Exception as error:
            raise BadJob(f"{what} of the task {task} could not be made: {type(error).__name__}: {error}") from error
        return None if made is None else _checked(task, what, made)

    return make


def _check_name(task: str, what: str, name: str, parameters: Mapping[str, Any]) -> None:
    if name not in parameters:
        has = ", ".join(parameters) or "no parameters"
        raise BadJob(f"{what} of the task {task} is made of {name!r}, which the task does not take: it has {has}.")


def _checked(task: str, what: str, value: object) -> str:
    """Text, or a whole number as text: of others nobody knows how they are written."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadJob(f"{task}: {what} is {value!r:.100}; a key is made of texts and whole numbers.")
    return str(value)
