"""Workers that claim records and mark them by themselves: a remote database takes many requests at once."""

from __future__ import annotations

from penstock.records.run.run_context import Running, Shift
from penstock.records.run.schedule import Task
from penstock.records.state.answers import Claim


class Workers:
    """Each `work` is one of them, in a thread of its own."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._schedule = shift.schedule

    def work(self) -> None:
        while (task := self._schedule.take()) is not None:
            mine = True
            try:
                mine = self._handle(task)
            except BaseException as error:
                self._shift.trouble(task, error)
            if not mine:
                return  # written off: another thread has this one's place
            self._schedule.ended()
        self._shift.gone()

    def _handle(self, task: Task) -> bool:
        """Looks at a record, and runs it if it may be. False if this thread was written off meanwhile."""
        shift = self._shift
        looked = shift.looked(task)
        if looked is None:
            return True
        answer = shift.store.claim(looked.found)
        if not isinstance(answer, Claim):
            shift.outcomes.not_claimed(looked, answer)
            return True
        (running,) = shift.take_in([answer])
        end = shift.end_of(running)
        if not shift.take_out(running):
            return False
        shift.settle(running.claim, end)
        return True

    def overran(self, running: Running) -> None:
        """One that hangs has been taken out of hand."""
        self._shift.safely(None, self._shift.outcomes.overran, running.claim)
        self._schedule.ended()
