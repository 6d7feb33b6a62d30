"""Several tables of jobs at once: which one is counted, and how another is chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import FAILURE, World

from penstock.jobs.model.job import Job, NewJob
from penstock.jobs.store.store import JobStore
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.webhook import webhook_of
from penstock.tables.definitions.definition import Naming
from penstock.web.dashboard.job_list import Filter


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture
def shop(world: World) -> JobStore:
    """The jobs of another app."""
    found = JobStore(world.db, type(world.store.layout)("shop-jobs"))
    found.create_tables()
    return found


def running(store: JobStore, task: str, seconds: float = 60.0) -> Job:
    job = store.claim(store.create(NewJob(task, {}))[0], "w1", seconds)
    assert job is not None
    return job


def counts_of(page: str, table: str) -> list[str]:
    """Failed, lost and running jobs of another table, on the overview."""
    row = re.search(rf'<tr data-key="table-{table}">(.*?)</tr>', page, re.DOTALL)
    assert row is not None
    return re.findall(r'<td class="n">(?:<a [^>]*>)?([\d,+]+)', row.group(1))


def tabs_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'<a [^>]*>(\w+) <span class="n">([\d,+]+)</span></a>', page))


def test_the_overview_says_which_table_it_counts_and_what_the_others_have(world: World, shop: JobStore) -> None:
    world.running()
    shop.fail(running(shop, "ship"), FAILURE)
    running(shop, "ship")
    running(shop, "ship")
    books = Books(world.db, Naming("construction-expenses"))
    books.make_tables()
    Intake(books, handle).receive(webhook_of({"event_id": "evt_1", "event_type": "subscription.created", "data": {}}))
    page = world.page("/")
    assert "These are jobs of penstock-jobs, and failed ones of every table" in page
    assert re.search(r'running</span>\s*<span class="number">1<', page)
    assert counts_of(page, "shop-jobs") == ["1", "0", "2"]
    assert re.search(r'href="/jobs\?q=table%3A[\w-]*webhook[\w-]*">', page), "the systems' tables are there"
    link = re.search(r'href="([^"]*status%3Afailed\+table%3Ashop-jobs)"', page)
    assert link is not None and "ship" in world.page(link.group(1))
    (message,) = world.app.state.poller.feeds["overview"].poll([""])[""]
    assert counts_of(message.html, "shop-jobs") == ["1", "0", "2"]


def test_one_table_alone_needs_no_choice(world: World) -> None:
    world.made()
    assert "Other tables" not in world.page("/") and "These are jobs of" not in world.page("/")
    assert "Tables of jobs" not in world.page("/jobs")
    assert tabs_of(world.page("/jobs"))["Ready"] == "1"


def test_a_table_is_chosen_in_the_address_with_its_list_counts_and_live_list(world: World, shop: JobStore) -> None:
    ours, theirs = world.failed("report"), shop.fail(running(shop, "ship"), FAILURE)
    world.app.state.site.overview.refresh()
    both = world.page("/jobs")
    assert ours.id in both and theirs.id in both
    assert tabs_of(both) == {"Failed": "2", "Lost": "0", "Running": "0"}, "what is counted of every table, together"
    for name in ("shop-jobs", "penstock-jobs"):
        assert both.count(f'href="/jobs?q=table%3A{name}"') == 1
    for query in ("table:shop-jobs", "table:shop-jobs status:failed"):
        page = world.get("/jobs", params={"q": query}).text
        assert theirs.id in page and ours.id not in page and tabs_of(page)["Failed"] == "1"
        assert "status%3Afailed+table%3Ashop-jobs" in page, "the tabs keep the table"
        assert re.search(r'aria-current="true">shop-jobs', page)
    page = world.page("/jobs?q=table%3Apenstock-jobs")
    assert ours.id in page and theirs.id not in page
    assert tabs_of(page)["Failed"] == "1" and tabs_of(page)["Ready"] == "0", "of this table alone"
    (message,) = world.app.state.poller.feeds["jobs"].poll(["table:shop-jobs\n"])["table:shop-jobs\n"]
    assert theirs.id in message.html and ours.id not in message.html


def test_all_that_match_are_those_of_the_chosen_table(world: World, shop: JobStore) -> None:
    ours, theirs = world.failed("report"), shop.fail(running(shop, "ship"), FAILURE)
    preview = world.post("/jobs/preview", [("verb", "retry"), ("all", "1"), ("q", "table:shop-jobs")]).text
    assert "Retry 1 job?" in preview and theirs.id in preview and ours.id not in preview


def test_a_table_without_jobs_is_told(world: World) -> None:
    world.made()
    for name in ("nowhere", "<script>", "ü"):
        page = world.get("/jobs", params={"q": f"table:{name}"}).text
        assert "has jobs" in page and 'role="alert"' in page and "<script>" not in page
    assert str(Filter.parse("status:failed table:shop-jobs words")) == "status:failed table:shop-jobs words"


def test_a_lost_job_of_another_table_is_not_called_running(world: World, shop: JobStore) -> None:
    job = running(shop, "ship")
    key = shop.layout.main_key(job.id)
    assert world.page("/")
    table = shop.layout.table
    values = {":past": {"S": "2020-01-01T00:00:00.000Z"}}
    change = {"UpdateExpression": "SET lease_until = :past", "ExpressionAttributeValues": values}
    world.db.execute("UpdateItem", {"TableName": table, "Key": key, **change})
    world.app.state.site.overview.forget()
    assert counts_of(world.page("/"), "shop-jobs") == ["0", "1", "0"]
