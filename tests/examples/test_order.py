"""The order example, whose worker is killed before and after each thing that it does: all is done, and once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "order"
HERE = Path(__file__).parent
PATIENCE_SECONDS = 120.0


class Shop:
    """The example in a folder of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PENSTOCK_DB"},
            "PYTHONPATH": os.pathsep.join([str(EXAMPLE), str(HERE), os.environ.get("PYTHONPATH", "")]),
            **environment,
        }

    def run(self, *command: str, check: bool = True) -> str:
        answer = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert not check or answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def work(self, *options: str) -> None:
        """A worker, which may die."""
        self.run("-m", "penstock", "worker", "dying_orders:app", "--quiet", "--burst", *options, check=False)

    def state(self, job: str) -> str:
        found = re.search(r'"state": ?"(\w+)"', self.run("-m", "penstock", "jobs", "show", job, "--json"))
        assert found
        return found[1]

    def work_until_ended(self, job: str, *, approve: bool) -> str:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.state(job) not in ("completed", "failed", "cancelled"):
            assert time.monotonic() < end, self.run("-m", "penstock", "jobs", "why", job)
            self.work("--until-empty")
            if approve:
                send = ("jobs", "send", job, "approval", '{"by": "ada"}', "--event-id", "once")
                self.run("-m", "penstock", *send, check=False)
        return self.state(job)

    @property
    def ledger(self) -> list[str]:
        return (self.folder / "ledger.txt").read_text().splitlines()


DEATHS = ["before charge", "after charge", "before ship", "after ship", "before mail", "after mail", ""]


@pytest.mark.parametrize("death", DEATHS)
def test_an_approved_order_is_done_once_wherever_its_worker_dies(tmp_path: Path, death: str) -> None:
    shop = Shop(tmp_path, ORDERS_DIE=death)
    job = shop.run(str(EXAMPLE / "orders.py"), "desk", "chair")
    assert shop.work_until_ended(job, approve=True) == "completed"
    assert (tmp_path / "died").exists() == bool(death)
    assert sorted(line.split()[0] for line in shop.ledger) == ["charge", "mail", "ship", "ship"]
    shown = shop.run("-m", "penstock", "jobs", "show", job)
    assert '"2 parcels, approved by ada"' in shown


@pytest.mark.parametrize("death", ["before refund", "after refund"])
def test_an_order_that_nobody_approves_is_paid_back_once(tmp_path: Path, death: str) -> None:
    shop = Shop(tmp_path, ORDERS_DIE=death, ORDERS_EXPIRE="1")
    job = shop.run(str(EXAMPLE / "orders.py"), "desk")
    assert shop.work_until_ended(job, approve=False) == "completed"
    assert (tmp_path / "died").exists()
    assert [line.split()[0] for line in shop.ledger] == ["charge", "refund"]
