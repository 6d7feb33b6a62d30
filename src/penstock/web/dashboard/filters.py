"""The search box of the list of jobs: `status:failed kind:monthly_report tenant:acme bodwassho`.

What the box says is what the URL says (?q=…). Words without a colon are looked for in a job's own text.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Final

from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State

_STATES: Final = {**{state.value: state for state in State}, "running": State.PROCESSING, "waiting": State.QUEUED}
_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are wanted. `problems` says which parts could not be understood: they are left out."""

    state: State | None = None
    task: str | None = None
    tenant: str | None = None
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Filter:
        found = cls()
        for part in _parts(text[:_LONGEST]):
            name, colon, value = part.partition(":")
            match name.lower() if colon else "":
                case "status" | "state":
                    found = found._with_state(value)
                case "kind" | "task":
                    found = replace(found, task=value or None)
                case "tenant":
                    found = replace(found, tenant=value)
                case _:
                    found = replace(found, words=(*found.words, part))
        return found

    def _with_state(self, value: str) -> Filter:
        state = _STATES.get(value.lower())
        if state is not None:
            return replace(self, state=state)
        known = ", ".join(state.value for state in State)
        return replace(self, problems=(*self.problems, f"There is no status {value!r}; there are {known}."))

    def __str__(self) -> str:
        """The text that parses to this."""
        parts = [] if self.state is None else [f"status:{self.state.value}"]
        if self.task is not None:
            parts.append(_quoted(f"kind:{self.task}"))
        if self.tenant is not None:
            parts.append(_quoted(f"tenant:{self.tenant}"))
        return " ".join([*parts, *(_quoted(word) for word in self.words)])

    def with_state(self, state: State | None) -> Filter:
        return replace(self, state=state, problems=())

    def has_words(self, job: Job) -> bool:
        """Whether every word is somewhere in the job's own text, in any case."""
        if not self.words:
            return True
        error = "" if job.error is None else f"{job.error.kind} {job.error.message}"
        owner = "" if job.lease is None else job.lease.owner
        arguments = job.args.text or ""
        text = "\n".join((job.id, job.task, job.queue, job.tenant, job.step, error, owner, arguments)).lower()
        return all(word.lower() in text for word in self.words)


def _parts(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.quotes = '"'
    lexer.escape = ""
    lexer.commenters = ""
    try:
        return [part for part in lexer if part]
    except ValueError:  # a quote that is not closed yet: somebody is typing
        return text.replace('"', " ").split()


def _quoted(part: str) -> str:
    part = part.replace('"', "")
    return f'"{part}"' if any(letter.isspace() for letter in part) or not part else part
