"""The feeder: reads the source, page by page and again and again, until there is nothing more in it.

1. The last pass begins when nothing is in hand, and finds nothing to claim: what functions add is seen too.
2. Where others are at work, the first passes are hurried: what another holds, or is going to take, is left for the next
   pass, which begins at once. Waiting for others comes last, when there is nothing else to do.
"""

from __future__ import annotations

from typing import Final

from penstock.records.run.run_context import Shift

_HURRIED_PASSES: Final = 5


class Feeder:
    """Of one run."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._schedule = shift.schedule

    def feed(self) -> None:
        try:
            self._passes()
        except BaseException as error:
            self._shift.fail(error)
        finally:
            self._schedule.close()

    def _passes(self) -> None:
        shift, schedule, most = self._shift, self._schedule, self._shift.rules.max_iterations
        hurried = min(_HURRIED_PASSES, most - 1)
        for number in range(most):
            claims, rested = shift.claims, schedule.idle
            fed, left = self._one_pass(number, hurried=number < hurried)
            if not schedule.wait_until_begun():
                return
            shift.report.passes += 1
            if fed and left and number + 1 < hurried:
                continue  # at once (2)
            if not schedule.wait_until_idle():
                return
            if left or shift.outcomes.passed_over:
                hurried = 0
            elif rested and shift.claims == claims:
                return  # (1)

    def _one_pass(self, number: int, *, hurried: bool) -> tuple[int, int]:
        """Through the whole source; how many records were handed over, and how many were left to others."""
        shift = self._shift
        shift.report.held = shift.outcomes.passed_over = fed = left = 0
        shift.outcomes.waits_for_others = not hurried
        pages = shift.store.source.pages(shift.draw)
        while self._schedule.wait_for_room() and (page := next(pages, None)) is not None:
            if hurried:
                everything = len(page)
                page = shift.neighbours.ours(page, number)
                left += everything - len(page)
            fed += len(page)
            self._schedule.feed(page)
        return fed, left
