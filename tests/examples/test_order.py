"""The order example, whose worker is killed before and after each thing that it does: all is done, and once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock
from penstock.jobs.model.job import Job, Payload
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

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

    def run(self, *command: str) -> str:
        command = (sys.executable, *command)
        answer = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        return answer.stdout.strip()

    def enqueue(self, *items: str) -> str:
        return self.run(str(EXAMPLE / "orders.py"), *items)

    def work_until_ended(self, job_id: str, *, approve: bool) -> Job:
        """With workers that may die, each after the other."""
        end = time.monotonic() + PATIENCE_SECONDS
        with penstock.connect(self.folder / "orders.db") as db:
            store = JobStore.of_table(db, "penstock-jobs")
            while not (job := store.get(job_id)).is_terminal:
                assert time.monotonic() < end, job
                self.run("-m", "penstock", "worker", "dying_orders:app", "--quiet", "--burst")
                if approve and not store.get(job_id).is_terminal:
                    store.workflows.send(job_id, "approval", {"by": "ada"}, event_id="once")
        return job

    @property
    def ledger(self) -> list[str]:
        return (self.folder / "ledger.txt").read_text().splitlines()


DEATHS = ["before charge", "after charge", "before ship", "after ship", "before mail", "after mail"]


@pytest.mark.parametrize("death", DEATHS)
def test_an_approved_order_is_done_once_wherever_its_worker_dies(tmp_path: Path, death: str) -> None:
    shop = Shop(tmp_path, ORDERS_DIE=death)
    job = shop.work_until_ended(shop.enqueue("desk", "chair"), approve=True)
    assert (job.state, job.failures) == (State.COMPLETED, 0)
    assert (tmp_path / "died").exists()
    assert sorted(line.split()[0] for line in shop.ledger) == ["charge", "mail", "ship", "ship"]
    assert job.result == Payload('"2 parcels, approved by ada"')


@pytest.mark.parametrize("death", ["before refund", "after refund"])
def test_an_order_that_nobody_approves_is_paid_back_once(tmp_path: Path, death: str) -> None:
    shop = Shop(tmp_path, ORDERS_DIE=death, ORDERS_EXPIRE="1")
    job = shop.work_until_ended(shop.enqueue("desk"), approve=False)
    assert job.result == Payload('"expired"')
    assert (tmp_path / "died").exists()
    assert [line.split()[0] for line in shop.ledger] == ["charge", "refund"]
