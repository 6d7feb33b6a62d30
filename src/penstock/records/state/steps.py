"""Conversations with the database, step by step: a generator yields a request, and is sent its answer or its error.

So who holds the conversation need not know whether it is alone, or whether its requests share a commit with others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from penstock.client.database import Database

T = TypeVar("T")

Request = tuple[str, dict[str, Any]]
Answer = dict[str, Any]
Steps = Generator[Request, Answer, T]


def drive(steps: Steps[T], execute: Callable[..., Answer]) -> T:
    """What comes of the conversation, held alone."""
    try:
        return _rest(steps, next(steps), execute)
    except StopIteration as stop:
        result: T = stop.value
        return result


def drive_together(conversations: Sequence[Steps[T]], db: Database) -> list[T | Exception]:
    """What comes of each, or what it raised. All first requests are one commit, where the database can do that."""
    results: dict[int, T | Exception] = {}
    requests: dict[int, Request] = {}
    for number, steps in enumerate(conversations):
        try:
            requests[number] = next(steps)
        except StopIteration as stop:
            results[number] = stop.value
        except Exception as error:
            results[number] = error
    answers = db.execute_together(list(requests.values()))
    for number, answer in zip(requests, answers, strict=True):
        steps = conversations[number]
        try:
            request = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
            results[number] = _rest(steps, request, db.execute)
        except StopIteration as stop:  # most end with their first answer
            results[number] = stop.value
        except Exception as error:
            results[number] = error
    return [results[number] for number in range(len(conversations))]


def _rest(steps: Steps[T], request: Request, execute: Callable[..., Answer]) -> T:
    """The rest of a conversation: further requests are seldom."""
    try:
        while True:
            try:
                answer = execute(*request)
            except Exception as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
