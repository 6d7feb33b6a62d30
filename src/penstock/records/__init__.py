"""Every pending record of a table through a function, by any number of workers at once.

    source.py          which records are to be worked on, and what says that they are done
    record_state.py    what a record says of who works on it (pure)
    store.py           the conditional writes that change it
    executors.py       one attempt, and where it runs: threads, processes, any executor
    forks.py           functions that fork, and signals
    run/               one run: the schedule, the workers, the outcomes, the report
    processor.py       RecordProcessor, which puts them together
    failed_records.py  what failed for good, listed and made pending again
    runs_table.py      the table that runs are noted in
    run_records.py     what is stored of a run

The names below are what a program needs. They are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.records.executors import process_pool
    from penstock.records.failed_records import FailureGroup
    from penstock.records.processor import RecordProcessor
    from penstock.records.run.report import Progress, RecordError, Report
    from penstock.records.run.run import Interrupted, ProcessingStopped

__all__ = [
    "FailureGroup",
    "Interrupted",
    "ProcessingStopped",
    "Progress",
    "RecordError",
    "RecordProcessor",
    "Report",
    "process_pool",
]

_MODULES = {
    "FailureGroup": "failed_records",
    "Interrupted": "run.run",
    "ProcessingStopped": "run.run",
    "Progress": "run.report",
    "RecordError": "run.report",
    "RecordProcessor": "processor",
    "Report": "run.report",
    "process_pool": "executors",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'penstock.records' has no attribute {name!r}")
    return getattr(import_module(f"penstock.records.{_MODULES[name]}"), name)
