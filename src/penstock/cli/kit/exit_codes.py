"""Exit codes: the same number means the same thing in every command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
WORK_FAILED: Final = 3
NOT_FOUND: Final = 4
NOT_READY: Final = 5
LEASE_LOST: Final = 6
DIFFERENT: Final = 7
INTERRUPTED: Final = 130

MEANINGS: Final[Mapping[int, str]] = {
    DONE: "done",
    FAILED: "failed",
    USAGE: "called wrongly or not confirmed",
    WORK_FAILED: "a job, a record or a file that was asked about has failed",
    NOT_FOUND: "not found",
    NOT_READY: "not ready yet",
    LEASE_LOST: "the lease was lost to another worker",
    DIFFERENT: "different",
    INTERRUPTED: "interrupted",
}
"""What each code means in general. A command's help may say it more exactly."""

EVERYWHERE: Final = (DONE, FAILED, USAGE, INTERRUPTED)
"""The codes that every command may end with."""


class CommandFailed(click.ClickException):
    """An error with an exit code of its own, and what to do next if that is known."""

    def __init__(self, code: int, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.next_step = next_step

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.code


def end_with(code: int) -> None:
    """Ends the command with this code, if it is not 0."""
    if code:
        raise click.exceptions.Exit(code)


def exit_codes_text(codes: Mapping[int, str]) -> str:
    """`0 done, 1 failed, 2 called wrongly or not confirmed, 7 different, 130 interrupted`; `codes` may reword them."""
    meanings = {code: MEANINGS[code] for code in EVERYWHERE} | dict(codes)
    return ", ".join(f"{code} {meanings[code]}" for code in sorted(meanings))
