"""What tests of every room share: an engine in memory and on a file, moto's server, and how hypothesis runs.

PENSTOCK_MOTO_URL=http://127.0.0.1:5000 is where a moto server runs, if none is to be started here: it is emptied.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from hypothesis import HealthCheck, settings

from penstock.engine import Engine
from penstock.engine.maintenance import Maintenance

# The same examples in every run: a red build is red again on the next machine. PENSTOCK_EXPLORE=1 looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("explore", deadline=None, max_examples=2_000, suppress_health_check=list(HealthCheck))
settings.load_profile("explore" if os.environ.get("PENSTOCK_EXPLORE") else "steady")

# Hundreds of tests start a process, which would compile every source again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what it runs in the background with Ctrl-C ignored, and what a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_at_work: set[Maintenance] = set()
_wake = Maintenance.wake


def _noted_wake(self: Maintenance) -> None:
    _at_work.add(self)
    _wake(self)


Maintenance.wake = _noted_wake  # type: ignore[method-assign]


@pytest.fixture(autouse=True, scope="module")
def background_work_ends_with_its_module() -> Iterator[None]:
    """An engine that a test left open works on: a later test that counts statements would count its, too."""
    yield
    while _at_work:
        _at_work.pop().stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return str(tmp_path / "engine.db")


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, path: str) -> Iterator[Engine]:
    """A fresh engine: the test runs once in memory and once on a file."""
    with Engine(":memory:" if request.param == "memory" else path) as engine:
        yield engine


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """moto's server, DynamoDB and S3: one for all tests of this process, started for the first that asks."""
    if given := os.environ.get("PENSTOCK_MOTO_URL"):
        yield given
        return
    moto = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[s3]' flask flask-cors")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def empty_moto_url(moto_url: str) -> str:
    """Without what earlier tests have left there."""
    urlopen(Request(f"{moto_url}/moto-api/reset", method="POST"), timeout=60).close()
    return moto_url
