"""Live pages: one poller for all of them, and logs without a gap. The numbers are those of live.py's promises."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest
from dashboard_world import World
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from penstock.errors import ConnectionFailed
from penstock.web.dashboard.app import running_dashboard
from penstock.web.dashboard.poller import Message, Poller, fragment, patch, pause_after, running_poller

PATIENCE_SECONDS = 30.0
A_REFRESH = 80
"""Calls of the database that the overview makes when it reads again, and a few more."""


class Book:
    """A feed of numbered lines and one fragment, kept in memory."""

    def __init__(self) -> None:
        self.lines = 0
        self.told = 0
        self.text = "one"
        self.away = False
        self.polled: list[int] = []

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        self._check()
        self.polled.append(len(keys))
        new = [self._line(number) for number in range(self.told + 1, self.lines + 1)]
        self.told = self.lines
        return {key: [*new, fragment("page", self.text)] for key in keys}

    def lines_after(self, key: str, after: int) -> Sequence[Message]:
        self._check()
        return [self._line(number) for number in range(after + 1, self.lines + 1)]

    def _check(self) -> None:
        if self.away:
            raise ConnectionFailed("http://db.test", "connection refused")

    def _line(self, number: int) -> Message:
        return Message("line", f"line {number}", number=number)


class Reader:
    """One open page: reads its stream into a list of (event, id, data)."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self.seen: list[tuple[str, str, str]] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for block in self._stream:
            fields = [line.partition(": ") for line in block.decode().split("\n") if ": " in line]
            named = {name: value for name, _, value in fields if name}
            if "event" in named:
                self.seen.append((named["event"], named.get("id", ""), named["data"]))

    @property
    def numbers(self) -> list[int]:
        return [int(number) for event, number, _ in self.seen if event == "line"]

    def events(self, kind: str) -> list[str]:
        return [data for event, _, data in self.seen if event == kind]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def polling(book: Book) -> AsyncIterator[Poller]:
    poller = Poller({"book": book}, pause_seconds=0.01)
    async with running_poller(poller):
        yield poller


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_SECONDS * 2))  # type: ignore[arg-type]


def test_any_number_of_pages_is_one_poll_and_none_costs_nothing() -> None:
    async def body() -> None:
        book = Book()
        async with polling(book) as poller:
            await asyncio.sleep(0.05)
            assert book.polled == []
            readers = [Reader(poller.follow("book", "a", None)) for _ in range(200)]
            for reader in readers:
                await reader.until(lambda reader=reader: bool(reader.seen))  # type: ignore[misc]
            assert poller.followers == 200
            assert set(book.polled) == {1}  # one key, whoever follows it
            assert len(book.polled) == poller.polls
            for reader in readers:
                await reader.close()
            assert poller.followers == 0
            before = len(book.polled)
            await asyncio.sleep(0.15)
            assert len(book.polled) <= before + 1  # one may have been on its way

    run(body)


def test_a_fragment_is_sent_when_it_has_changed_and_to_those_who_come_later() -> None:
    async def body() -> None:
        book = Book()
        async with polling(book) as poller:
            reader = Reader(poller.follow("book", "a", None))
            await reader.until(lambda: len(book.polled) > 5)
            assert [json.loads(data)["html"] for data in reader.events("fragment")] == ["one"]
            book.text = "two"
            await reader.until(lambda: len(reader.events("fragment")) == 2)  # shorter than a patch
            late = Reader(poller.follow("book", "a", None))
            await late.until(lambda: bool(late.seen))
            assert json.loads(late.events("fragment")[0])["html"] == "two"
            await reader.close()
            await late.close()

    run(body)


@given(lists(sampled_from(["<tr>a</tr>" * 9, "b", "c", ""])), lists(sampled_from(["<tr>a</tr>" * 9, "b", "c", ""])))
def test_a_patch_turns_the_last_fragment_into_the_next(old: list[str], new: list[str]) -> None:
    before, after = fragment("page", "\n".join(old)), fragment("page", "\n".join(new))
    message = patch(before, after)
    data = json.loads(message.data)
    if message.event == "patch":
        lines = before.html.split("\n")
        for first, removed, put in reversed(data["edits"]):
            lines[first : first + removed] = put
        assert "\n".join(lines) == after.html
        assert len(message.data) < len(after.data)
    else:
        assert data["html"] == after.html


def test_a_row_that_changes_is_all_that_is_sent() -> None:
    async def body() -> None:
        book = Book()
        book.text = "\n".join(f"<tr>{number}</tr>" for number in range(500))
        async with polling(book) as poller:
            reader = Reader(poller.follow("book", "a", None))
            await reader.until(lambda: bool(reader.events("fragment")))
            book.text = book.text.replace("<tr>250</tr>", "<tr>changed</tr>")
            await reader.until(lambda: bool(reader.events("patch")))
            assert json.loads(reader.events("patch")[0])["edits"] == [[250, 1, ["<tr>changed</tr>"]]]
            await reader.close()

    run(body)


def test_lines_come_once_in_order_and_without_a_gap_however_often_one_reconnects() -> None:
    async def body() -> None:
        book = Book()
        async with polling(book) as poller:
            steady = Reader(poller.follow("book", "a", 0))
            got: list[int] = []
            for _ in range(8):
                reader = Reader(poller.follow("book", "a", got[-1] if got else 0))
                book.lines += 7
                await reader.until(lambda reader=reader, book=book: bool(reader.numbers))  # type: ignore[misc]
                await reader.close()
                got += reader.numbers
                book.lines += 5  # while nobody of this page listens
            last = Reader(poller.follow("book", "a", got[-1]))
            await last.until(lambda: bool(last.numbers) and last.numbers[-1] == book.lines)
            got += last.numbers
            await steady.until(lambda: steady.numbers[-1:] == [book.lines])
            assert got == list(range(1, book.lines + 1))
            assert steady.numbers == got
            await last.close()
            await steady.close()

    run(body)


def test_lines_that_the_poller_did_not_tell_are_asked_for() -> None:
    async def body() -> None:
        book = Book()
        book.lines = 9
        book.told = 8  # the first poll tells of the newest only
        async with polling(book) as poller:
            reader = Reader(poller.follow("book", "a", 0))
            await reader.until(lambda: len(reader.numbers) == 9)
            book.lines = book.told = 15
            book.lines = 16
            await reader.until(lambda: len(reader.numbers) == 16)
            assert reader.numbers == list(range(1, 17))
            await reader.close()

    run(body)


def test_a_page_that_does_not_read_is_let_go_and_loses_nothing() -> None:
    async def body() -> None:
        book = Book()
        async with polling(book) as poller:
            stream = poller.follow("book", "a", 0)
            assert (await anext(stream)).startswith(b"retry")
            book.lines = 2_000
            async with asyncio.timeout(PATIENCE_SECONDS):
                while book.told < 2_000:
                    await asyncio.sleep(0.005)
            got = [block async for block in stream]  # it ends
            numbers = [int(block.split(b"id: ")[1].split(b"\n")[0]) for block in got if b"id: " in block]
            again = Reader(poller.follow("book", "a", numbers[-1] if numbers else 0))
            await again.until(lambda: [*numbers, *again.numbers] == list(range(1, 2_001)))
            await again.close()

    run(body)


def test_a_database_that_goes_away_and_comes_back_is_told_of() -> None:
    async def body() -> None:
        book = Book()
        async with polling(book) as poller:
            reader = Reader(poller.follow("book", "a", 0))
            await reader.until(lambda: bool(reader.events("fragment")))
            book.away = True
            await reader.until(lambda: bool(reader.events("trouble")))
            assert "connection refused" in reader.events("trouble")[0]
            late = Reader(poller.follow("book", "a", None))
            await late.until(lambda: bool(late.events("trouble")))
            book.lines = 3
            book.away = False
            await reader.until(lambda: bool(reader.events("fine")) and len(reader.numbers) == 3)
            await reader.close()
            await late.close()

    run(body)


def test_a_page_that_connects_while_the_database_is_away_is_told_and_then_gets_its_lines() -> None:
    async def body() -> None:
        book = Book()
        book.lines = 3
        book.away = True
        async with polling(book) as poller:
            reader = Reader(poller.follow("book", "a", 0))
            await reader.until(lambda: bool(reader.events("trouble")))
            book.away = False
            await reader.until(lambda: bool(reader.events("fine")) and reader.numbers == [1, 2, 3])
            await reader.close()

    run(body)


def test_a_poll_that_takes_long_is_made_more_seldom() -> None:
    assert [pause_after(spent, 1.0) for spent in (0.0, 0.2, 1.0, 60.0)] == [1.0, 1.0, 4.0, 15.0]


def test_a_line_with_every_kind_of_line_end_is_one_event() -> None:
    encoded = Message("line", "a\r\nb\rc\nd", number=4).encode()
    assert encoded == b"event: line\nid: 4\ndata: a\ndata: b\ndata: c\ndata: d\n\n"


# ── the pages' own feeds ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_two_hundred_watched_jobs_are_read_in_batches(world: World) -> None:
    jobs = [world.completed() for _ in range(200)]
    feed = world.app.state.poller.feeds["job"]
    keys = [job.id for job in jobs]
    while feed.poll(keys):  # each is drawn once, twenty a poll
        pass
    world.switch.calls.clear()
    assert not any(feed.poll(keys).values())
    assert world.switch.calls == ["BatchGetItem", "BatchGetItem"]


def test_what_one_poll_costs_is_bounded_even_if_every_watched_job_changes(world: World) -> None:
    jobs = [world.completed() for _ in range(60)]
    feed = world.app.state.poller.feeds["job"]
    keys = [job.id for job in jobs]
    drawn: set[str] = set()
    for _ in range(3):
        found = feed.poll(keys)
        assert len(found) <= 24
        drawn |= set(found)
    assert drawn == set(keys)


def test_lists_with_many_different_filters_take_turns(world: World) -> None:
    world.made()
    feed = world.app.state.poller.feeds["jobs"]
    keys = [f"word{number}\n" for number in range(10)]
    seen: list[str] = []
    for _ in range(5):
        found = list(feed.poll(keys))
        assert len(found) <= 4
        seen += found
    assert set(seen) == set(keys)


def test_the_first_poll_of_a_job_tells_its_newest_line(world: World) -> None:
    job = world.running()
    for number in range(5):
        job = world.store.report(job, message=f"line {number}")
    feed = world.app.state.poller.feeds["job"]
    told = feed.poll([job.id])[job.id]
    assert [message.number for message in told if message.event == "line"] == [5]
    world.store.report(job, message="line 6")
    told = feed.poll([job.id])[job.id]
    assert [message.number for message in told if message.event == "line"] == [6]
    assert [message.number for message in feed.lines_after(job.id, 2)] == [3, 4, 5, 6]


def test_a_job_that_was_not_watched_for_long_does_not_flood_those_who_come_back(world: World) -> None:
    job = world.running()
    feed = world.app.state.poller.feeds["job"]
    feed.poll([job.id])
    for _ in range(250):
        job = world.store.report(job, message="meanwhile")
    told = feed.poll([job.id])[job.id]
    assert [message.number for message in told if message.event == "line"] == [250]
    assert len(feed.lines_after(job.id, 0)) == 250


def test_a_job_that_is_gone_is_no_trouble(world: World) -> None:
    feed = world.app.state.poller.feeds["job"]
    assert dict(feed.poll(["job_gone", "queue#default", ""])) == {}


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────


def test_a_log_is_followed_over_http_from_the_last_event_id(world: World) -> None:
    job = world.running()
    for number in range(4):
        job = world.store.report(job, message=f"line {number + 1}")
    with running_dashboard(world.app) as url:
        address = f"{url}/live/job?key={job.id}&after=1"
        assert read_numbers(address, {}, 3) == [2, 3, 4]
        assert read_numbers(address, {"Last-Event-ID": "3"}, 1) == [4]
        assert httpx.get(f"{url}/live/nothing").status_code == 404


def read_numbers(url: str, headers: dict[str, str], wanted: int) -> list[int]:
    found: list[int] = []
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("id: "):
                found.append(int(line[4:]))
                if len(found) == wanted:
                    break
    return found


def test_two_hundred_open_pages_cost_one_poll_of_the_database(world: World) -> None:
    """Counted where the database is asked: what one page costs a poll, two hundred cost too."""
    world.failed()
    poller = world.app.state.poller

    async def calls_a_poll(pages: int) -> float:
        one = Poller(poller.feeds, pause_seconds=0.01)
        async with running_poller(one):
            readers = [Reader(one.follow("overview", "", None)) for _ in range(pages)]
            for reader in readers:
                await reader.until(lambda reader=reader: bool(reader.seen))  # type: ignore[misc]
            world.switch.calls.clear()
            before = one.polls
            await readers[0].until(lambda: one.polls >= before + 5)
            spent = len(world.switch.calls) / (one.polls - before)
            for reader in readers:
                await reader.close()
            return spent

    async def body() -> None:
        single, many = await calls_a_poll(1), await calls_a_poll(200)
        # What was read is fresh for half a second: one refresh more may fall into five polls.
        assert many <= single * 1.5 + A_REFRESH / 5

    run(body)


@pytest.mark.parametrize("path", ["/", "/jobs", "/workers", "/schedules"])
def test_an_open_page_costs_less_than_a_kilobyte_a_poll_while_nothing_changes(
    world: World, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.web.dashboard.poller.pause_after", lambda spent, pause: pause)  # a busy machine too
    for number in range(60):
        world.made(args={"number": number})
        world.failed(tenant=f"tenant {number % 5}")
    live = re.findall(r'data-live="/live/([^"]+)"', world.page(path))[0].replace("&amp;", "&")
    feed, _, query = live.partition("?")
    key = parse_qs(query, keep_blank_values=True).get("key", [""])[0]

    async def body() -> None:
        poller = Poller(world.app.state.poller.feeds, pause_seconds=0.01)
        async with running_poller(poller):
            reader = Reader(poller.follow(feed, key, None))
            await reader.until(lambda: bool(reader.events("fragment")) and poller.polls >= 4)
            before, polls = len(reader.seen), poller.polls
            await reader.until(lambda: poller.polls >= polls + 10)
            sent = sum(len(data) for _, _, data in reader.seen[before:])
            assert sent < 1_024 * (poller.polls - polls)
            await reader.close()

    run(body)
