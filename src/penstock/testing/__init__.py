"""Tests of jobs, and of code that uses DynamoDB. The fixtures are in plugin.py; these need none of them:

    from penstock.testing import crash_at_every_step, run_now

    assert run_now(monthly_report, project="x") == {"rows": 8}

Loaded when first used, as penstock's own names are: pytest imports this package in every test run.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.testing.crashes import CrashReport, EndedOtherwise, crash_at_every_step
    from penstock.testing.job_app import JobApp, JobClock, JobNotEnded, run_now

_HOMES = {
    "run_now": "penstock.testing.job_app",
    "JobApp": "penstock.testing.job_app",
    "JobClock": "penstock.testing.job_app",
    "JobNotEnded": "penstock.testing.job_app",
    "crash_at_every_step": "penstock.testing.crashes",
    "CrashReport": "penstock.testing.crashes",
    "EndedOtherwise": "penstock.testing.crashes",
}

__all__ = [  # noqa: RUF022 - in the order of _HOMES
    "run_now",
    "JobApp",
    "JobClock",
    "JobNotEnded",
    "crash_at_every_step",
    "CrashReport",
    "EndedOtherwise",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.testing' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
