"""examples/django_project as its README says: migrations, requests, `manage.py penstock_worker`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from example_programs import copied, run

pytest.importorskip("django", reason="Django is not installed: pip install 'django>=5.2'")

SETUP = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
import django
django.setup()
from django.test import Client
from django.db import connection
from shop.models import Order
from shop import tasks
from project.jobs import app

def post(**order):
    answer = Client(raise_request_exception=False).post("/orders", json.dumps(order), "application/json")
    return answer.status_code, answer.json().get("id") if answer.status_code == 201 else None

def jobs():
    return [job.task for job in app.store.find().jobs]
"""


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copied("django_project", tmp_path_factory.mktemp("django"))
    run(folder, "manage.py", "migrate", "--verbosity", "0")
    return folder


@pytest.fixture
def project(migrated: Path, tmp_path: Path) -> Path:
    return shutil.copytree(migrated, tmp_path / "django_project")


def ask(project: Path, code: str) -> Any:
    """What an expression is in the project, after the statements before it."""
    *statements, last = code.strip().splitlines()
    program = "\n".join([SETUP, *statements, f"print(json.dumps(({last})))"])
    return json.loads(run(project, "-c", program).splitlines()[-1])


def test_an_order_is_confirmed_by_the_worker_of_manage_py(project: Path) -> None:
    assert ask(project, 'post(email="ada@example.org", amount="12.50")') == [201, 1]
    printed = run(project, "manage.py", "penstock_worker", "--burst")
    assert printed == "to ada@example.org: Thank you for 12.50\n"
    shown = 'Client().get("/orders/1").json(), [app.result(job.id) for job in app.store.find().jobs]'
    assert ask(project, shown) == [{"id": 1, "confirmed": True}, ["ada@example.org"]]


def test_several_processes_run_the_project_s_jobs(project: Path) -> None:
    ask(project, '[post(email=f"{n}@example.org", amount="1") for n in range(4)]')
    printed = run(project, "manage.py", "penstock_worker", "--processes", "2", "--burst", "--quiet")
    # Two processes print at once: a line's end may come after another's line.
    assert sorted(re.findall(r"to \d@[a-z.]+: Thank you for 1.00", printed)) == [
        f"to {n}@example.org: Thank you for 1.00" for n in range(4)
    ]


def test_a_transaction_that_is_rolled_back_enqueues_nothing(project: Path) -> None:
    refused = 'post(email="eve@example.org", amount="1", fail=True), Order.objects.count(), jobs()'
    assert ask(project, refused) == [[500, None], 0, []]


def test_an_order_whose_job_was_never_enqueued_is_found_by_the_schedule_once(project: Path) -> None:
    found = """
post(email="ada@example.org", amount="1")
Order.objects.create(email="bob@example.org", amount=2)
first, again = tasks.enqueue_missed(), tasks.enqueue_missed()
first, again, jobs()
"""
    assert ask(project, found) == [1, 0, ["confirm_order", "confirm_order"]]


def test_a_task_leaves_no_connection_open_behind_it(project: Path) -> None:
    closed = """
Order.objects.create(email="ada@example.org", amount=1)
before = connection.connection is not None
tasks.enqueue_missed()
before, connection.connection is None
"""
    assert ask(project, closed) == [True, True]


def test_the_tasks_of_all_apps_are_discovered(project: Path) -> None:
    program = "from project.worker import app; print(sorted(app.tasks), sorted(app.schedules.declared))"
    assert run(project, "-c", program).strip() == "['confirm_order', 'enqueue_missed'] ['enqueue_missed']"
