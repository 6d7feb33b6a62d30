"""What the tests of the worker share."""

from __future__ import annotations

import pytest

from penstock.jobs.worker import fetcher

LONG_SECONDS = 3600.0


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is just now, no thread comes to help, and nothing is written for its age."""
    monkeypatch.setattr(fetcher, "LINGER_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(fetcher, "_WATCH_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(fetcher, "_LONGEST_WATCH_SECONDS", LONG_SECONDS)
    monkeypatch.setattr(fetcher, "_FRESH_SECONDS", LONG_SECONDS)
