"""What tests of every room share: an engine in memory and on a file, and how hypothesis runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from penstock.engine import Engine

# The same examples in every run: a red build is red again on the next machine. PENSTOCK_EXPLORE=1 looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", deadline=None, max_examples=2_000, suppress_health_check=list(HealthCheck))
settings.load_profile("explore" if os.environ.get("PENSTOCK_EXPLORE") else "steady")

# A shell starts what it runs in the background with Ctrl-C ignored, and what a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return str(tmp_path / "engine.db")


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, path: str) -> Iterator[Engine]:
    """A fresh engine: the test runs once in memory and once on a file."""
    with Engine(":memory:" if request.param == "memory" else path) as engine:
        yield engine
