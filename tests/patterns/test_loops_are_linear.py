"""Loops over what strangers send take steps in proportion to it.

Steps are counted, at n and at 2n: lines of Python (`lines_of`), or, where the work is in C, what C was asked to do:
characters handled, elements copied, comparisons made.
"""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from penstock.client.transports.messages import PlainReader
from penstock.errors import PenstockError
from penstock.files import keys
from penstock.files.keys import normalize_name
from penstock.pipelines.lineage import Lineage, Origin
from penstock.systems.delphi.analysis.conversation import tidy
from penstock.systems.security_assistant.drawing import components, marks, page, pdf, schedule
from penstock.systems.security_assistant.drawing.components import Component, Components
from penstock.systems.security_assistant.drawing.pdf import Cell, Drawing, Page, Row
from penstock.web.dashboard.items import item_text

N = 150


def lines_of(function: Callable[[], object]) -> int:
    """How many lines of Penstock's the call runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("penstock"):
            return None
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def characters_handled(function: Callable[[], object]) -> int:
    """How long the texts are, in all, whose methods the call uses."""
    count = 0

    def profile(frame: FrameType, event: str, called: Any) -> None:
        nonlocal count
        if event == "c_call" and isinstance(getattr(called, "__self__", None), str):
            count += len(called.__self__)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def assert_linear(steps: Callable[[int], int]) -> None:
    """Twice the input is at most a little more than twice the steps; quadratic ones would be four times as many."""
    once, twice = steps(N), steps(2 * N)
    assert 0 < twice < 2.6 * once, (once, twice)


class CountedText(str):
    """A text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


class CountedRows(tuple[Row, ...]):
    """Rows that count the elements of their slices."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        CountedRows.copied += len(found) if isinstance(key, slice) else 1
        return found


# ── drawings ─────────────────────────────────────────────────────────────────────────────────────


def row(y: float, *texts: str, size: float = 1.0) -> Row:
    return Row(y, size, tuple(Cell(10.0 * at, text) for at, text in enumerate(texts)))


def test_a_line_of_many_pieces_is_joined_a_few_at_a_time() -> None:
    def handled(count: int) -> int:
        pieces = [page.TextRun("word", float(at), 0.0, 1.0, 1.0) for at in range(count)]
        return sum(len(run.text) for run in page._join(pieces))

    assert_linear(handled)


def test_runs_that_are_heaped_up_are_compared_with_few() -> None:
    def compared(count: int) -> int:
        heap = marks.Nearby([page.TextRun("CR", 1.0, 1.0, 1.0, 1.0)] * count)
        return sum(1 for _ in range(count) for _ in heap.within(1.0, 1.0, 5.0, 5.0))

    assert_linear(lambda count: compared(count * 10))


def test_the_rows_under_headers_are_not_copied_for_each() -> None:
    def copied(count: int) -> int:
        CountedRows.copied = 0
        rows = CountedRows(row(-float(at), "Door", "Location", "Level") for at in range(count))
        assert list(page._tables(rows)) == []
        return CountedRows.copied

    assert_linear(copied)


def test_each_cell_finds_its_column_without_looking_at_all() -> None:
    class Place(float):
        asked = 0

        def __sub__(self, other: float) -> float:
            Place.asked += 1
            return float(self) - float(other)

        __rsub__ = __sub__

        def __lt__(self, other: float) -> bool:
            Place.asked += 1
            return float(self) < float(other)

    def asked(count: int) -> int:
        cells = tuple(Cell(Place(at), f"column {at}") for at in range(count))
        Place.asked = 0
        page._by_column(Row(0.0, 1.0, cells), Row(-1.0, 1.0, cells))
        return Place.asked

    assert_linear(asked)


def test_many_cells_of_one_column_are_joined_once() -> None:
    header = row(0.0, "Door", "Level", "Room")

    def handled(count: int) -> int:
        below = Row(-1.0, 1.0, tuple(Cell(99.0, "text") for _ in range(count)))
        return characters_handled(lambda: page._by_column(header, below))

    assert_linear(handled)


def test_a_page_of_legends_is_read_a_few_times() -> None:
    def lines(count: int) -> int:
        rows = tuple(row(-0.001 * at, "Legend", "CR", size=100.0) for at in range(count))
        return lines_of(lambda: components.legend_of(Drawing((Page(1, rows),), "vector")))

    assert_linear(lines)


def test_totals_that_a_drawing_states_are_compared_with_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    by_type = Components.by_type

    def counted(self: Components) -> dict[str, int]:
        counts.append(len(self.found))
        return by_type.fget(self)  # type: ignore[attr-defined,no-any-return]

    monkeypatch.setattr(Components, "by_type", property(counted))

    def steps(count: int) -> int:
        counts.clear()
        found = tuple(Component(f"D-{at}", "door", "Door", (1,)) for at in range(count))
        list(schedule._compare_stated(Components(found, {}, {f"type {at}": at for at in range(count)})))
        return sum(counts)

    assert_linear(steps)


def test_a_designator_that_only_a_title_block_of_a_table_has_is_no_component() -> None:
    rows = (row(0.0, "Door", "Location", "Level"), row(-1.0, "D-1.01", "Sheet CR-9.99", "1"))
    drawn = Page(1, rows, tuple(page._tables(rows)))
    found = components.count_components(Drawing((drawn,), "vector"))
    assert [one.designator for one in found.found] == ["D-1.01"]


# ── marks on letters ─────────────────────────────────────────────────────────────────────────────


def marks_sorted(function: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """The squares of the runs of marks that `unicodedata.normalize` gets: what it may take to sort them."""
    normalize = unicodedata.normalize

    def steps(count: int) -> int:
        squares: list[int] = []

        def measured(form: str, text: str) -> str:
            run = 0
            for character in text + "a":
                if unicodedata.combining(character):
                    run += 1
                else:
                    squares.append(run * run + 1)
                    run = 0
            return normalize(form, text)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(unicodedata, "normalize", measured)
            function("a" + "\u0301\u0316" * count)
        return sum(squares)

    return steps


def seen_in_a_drawing(text: str) -> None:
    found = {"runs": [[text, 0, 0, 1, 1, 0]], "shapes": [], "size": [9, 9], "images": 0, "paths": 0, "covered": 0}
    pdf._page(1, found, b"")


@pytest.mark.parametrize("function", [normalize_name, tidy, seen_in_a_drawing])
def test_marks_are_sorted_a_few_at_a_time(function: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert_linear(marks_sorted(function, monkeypatch))


def test_a_key_is_refused_by_its_length_before_its_marks_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(form: str, text: str) -> str:
        raise AssertionError

    with monkeypatch.context() as patched, pytest.raises(PenstockError, match="more than 800 bytes"):
        patched.setattr(unicodedata, "normalize", refuse)
        keys.checked_key("a" + "\u0301\u0316" * keys.KEY_BYTES * 2)


def test_texts_with_the_marks_of_any_writing_are_normalized_as_ever() -> None:
    chance = random.Random(3)
    letters = "aéÅ한글ﬁⅣ\u0301\u0316\u0323\u0308\u0f71\u0f73ｶﾞกำ "
    for form in ("NFC", "NFKC"):
        for _ in range(3_000):
            text = "".join(chance.choices(letters, k=chance.randint(0, 30)))
            assert keys.normalize(form, text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]


@pytest.mark.parametrize("mark", ["\u0301", "\u0344", "\u0f73", "\uff9e"])
def test_more_marks_than_any_writing_has_are_parted(mark: str) -> None:
    text = keys._stream_safe("a" + mark * 95)
    assert text.replace("\u034f", "") == "a" + mark * 95
    assert max(map(len, text.split("\u034f"))) <= keys.MOST_MARKS + 1


# ── the rest ─────────────────────────────────────────────────────────────────────────────────────


def test_the_twin_of_a_name_is_found_without_comparing_all() -> None:
    def compared(count: int) -> int:
        names = [CountedText(f"name{at}") for at in range(count)]
        pairs = [(name, 1) for name in (*names, CountedText(names[-1]))]
        CountedText.compared = 0
        with pytest.raises(item_text.BadItem, match=f"name{count - 1}"):
            item_text._without_duplicates(pairs)
        return CountedText.compared + count

    assert_linear(compared)


def test_the_sources_of_a_thing_are_found_in_one_walk() -> None:
    def lines(count: int) -> int:
        made = [Origin(f"n{at}", "", 0, inputs={f"n{at - 1}": ""} if at else {}) for at in range(count)]
        lineage = Lineage("job", tuple(made))
        return lines_of(lambda: lineage.sources(f"n{count - 1}"))

    assert_linear(lines)


def test_a_chunk_that_looks_like_the_end_is_not_parsed_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = PlainReader._parsed

    def measured(self: PlainReader, keep_alive: bool = True) -> Any:
        parsed.append(1)
        return parse(self, keep_alive)

    monkeypatch.setattr(PlainReader, "_parsed", measured)
    reader = PlainReader(1 << 20)
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(N):
        assert reader.feed(b"4\r\n\r\n\r\n\r\n") is None
    answer = reader.feed(b"0\r\n\r\n")
    assert answer is not None
    assert answer.body == b"\r\n\r\n" * N
    assert len(parsed) == 1
