"""A job's log on its page: what its task has logged, with the level of each line."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

import penstock
from penstock.jobs.model.job import Entry
from penstock.web.dashboard import job_log
from penstock.web.dashboard.app import make_dashboard
from penstock.web.dashboard.job_log import LEVELS, rows_of
from penstock.web.dashboard.source import Source

EVIL = "<script>alert(1)</script>"
LOG = logging.getLogger("shop.tests")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, level, handlers = logging.root, logging.root.level, list(logging.root.handlers)
    levels = [handler.level for handler in handlers]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    for handler, one in zip(handlers, levels, strict=True):
        handler.setLevel(one)


@pytest.fixture
def app() -> Iterator[penstock.App]:
    with penstock.App(":memory:") as app:
        yield app


@pytest.fixture
def client(app: penstock.App) -> Iterator[TestClient]:
    dashboard = make_dashboard(Source(app.store.db))
    with TestClient(dashboard, base_url="http://localhost") as found:
        yield found


def logged(app: penstock.App) -> str:
    """The id of a job whose task has logged at four levels, in two entries."""

    @app.task(capture_logs="DEBUG")
    def load(ctx: penstock.JobContext) -> None:
        LOG.debug("opens the file")
        LOG.info("rows are read")
        ctx.progress(50, "half")
        LOG.warning("a row has no city: %s", EVIL)
        LOG.error("a row is\nlost")

    job = load.enqueue()
    assert penstock.Worker(app, burst=True).run().completed == 1
    return job.id


def levels_of(page: str) -> list[tuple[str, str]]:
    """The class and the label of each line that has a level."""
    return re.findall(r'<li[^>]*class="level-(\w+)">.*?<span class="level">(\w+)</span>', page)


def test_what_a_task_logs_is_on_its_page_a_line_each_with_its_level(app: penstock.App, client: TestClient) -> None:
    job_id = logged(app)
    page = client.get(f"/jobs/{job_id}").text
    assert levels_of(page) == [("debug", "DEBUG"), ("info", "INFO"), ("warning", "WARNING"), ("error", "ERROR")]
    for told in (
        "opens the file",
        "rows are read",
        "a row has no city: &lt;script&gt;",
        "a row is\nlost",
        "shop.tests",
    ):
        assert told in page
    assert "<script>alert" not in page and "and 1 more" not in page
    numbers = [entry.number for entry in app.jobs.log(job_id)]
    assert re.findall(r'id="line-(\d+)"', page) == [str(number) for number in numbers]
    assert f'data-last="{numbers[-1]}"' in page


def test_the_filter_by_level_finds_these_lines_and_not_their_neighbours(app: penstock.App, client: TestClient) -> None:
    job_id = logged(app)
    for at, level in enumerate(LEVELS):
        page = client.get(f"/jobs/{job_id}", params={"level": level}).text
        assert [name for _, name in levels_of(page)] == ["DEBUG", "INFO", "WARNING", "ERROR"][at:], level
        assert ("No line matches" in page) == (level == "CRITICAL")
    assert re.findall(r'id="line-(\d+)"', client.get(f"/jobs/{job_id}?level=ERROR").text) == ["3"], "it has its number"
    assert levels_of(client.get(f"/jobs/{job_id}?find=NO+CITY").text) == [("warning", "WARNING")]
    assert '<select name="level">' in client.get(f"/jobs/{job_id}").text


def test_an_open_page_is_sent_the_same_lines_and_a_download_has_one_for_each(
    app: penstock.App, client: TestClient
) -> None:
    job_id = logged(app)
    feed = client.app.state.poller.feeds["job"]  # type: ignore[attr-defined]
    sent = "".join(message.data for message in feed.lines_after(job_id, 0))
    assert [name for _, name in levels_of(sent)] == ["DEBUG", "INFO", "WARNING", "ERROR"]
    assert "<script>alert" not in sent
    text = client.get(f"/jobs/{job_id}/log.txt").text
    assert re.findall(r"^\d+ \S+Z (\w+) shop\.tests (.*)$", text, re.MULTILINE) == [
        ("DEBUG", "opens the file"),
        ("INFO", "rows are read"),
        ("WARNING", f"a row has no city: {EVIL}"),
        ("ERROR", "a row is"),
    ]


@pytest.mark.parametrize(
    ("message", "data", "level", "shown"),
    [
        ("ERROR no disk", None, "ERROR", "no disk"),
        ("WARN: no disk", None, "WARNING", "no disk"),
        ("no disk", '{"level": "warning"}', "WARNING", "no disk"),
        ("Error while reading", None, "", "Error while reading"),
        ("INFORMATION is read", None, "", "INFORMATION is read"),
        ("ERRORS", None, "", "ERRORS"),
        ("tank", '{"level": 7}', "", "tank"),
        ("tank", '{"level": "full"}', "", "tank"),
        ("x", '{"log": [1]}', "", "x"),
        ("x", '{"log": [], "level"', "", "x"),
        ("x", '["level"]', "", "x"),
        ("", None, "", ""),
    ],
)
def test_a_level_is_what_is_said_to_be_one(message: str, data: str | None, level: str, shown: str) -> None:
    (row,) = rows_of(Entry(1, 0.0, message=message, data=data))
    is_said = level and data is not None
    assert (row.level, row.message, row.data) == (level, shown, None if is_said else data)


def test_a_level_that_stands_before_a_message_is_not_repeated_in_its_data() -> None:
    (row,) = rows_of(Entry(1, 0.0, message="no disk", data='{"disk": "Größe", "level": "warn"}'))
    assert (row.level, row.data) == ("WARNING", '{"disk":"Größe"}')


def test_entries_with_very_many_records_do_not_make_a_page_without_end(
    app: penstock.App, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "MOST_ROWS", 150)

    @app.task(capture_logs="INFO")
    def load() -> None:
        for number in range(250):
            LOG.info("row %s", number)

    job = load.enqueue()
    penstock.Worker(app, burst=True).run()
    page = client.get(f"/jobs/{job.id}").text
    assert page.count('<span class="level">INFO') == 150 and "row 249" in page and "row 99<" not in page
    earlier = re.search(r'href="(\?upto=\d+)#h-log"', page)
    assert earlier is not None
    assert "row 99<" in html.unescape(client.get(f"/jobs/{job.id}{earlier.group(1)}").text)
