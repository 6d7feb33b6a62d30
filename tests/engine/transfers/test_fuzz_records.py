"""The readers of objects: whatever the bytes and wherever they are cut, records or garbage come of them."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.transfers import object_records
from penstock.engine.transfers.object_records import CsvReader, Found, Garbage, ion_records, json_records, reader_of
from penstock.wire import ion

FORMATS = ["CSV", "ION", "DYNAMODB_JSON"]
cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
items = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
    st.one_of(st.fixed_dictionaries({"S": cells}), st.fixed_dictionaries({"N": st.integers().map(str)})),
    max_size=4,
)


any_bytes = st.one_of(st.binary(max_size=60), st.text("{}[]\":,\n\rItem SN$'\\/", max_size=60).map(str.encode))


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[place : place + size] for place in range(0, len(data), size))


@pytest.mark.parametrize("format", FORMATS)
@given(
    data=st.one_of(st.binary(max_size=60), st.text("{}[]\":,\n\rItem SN$'\\/", max_size=60).map(str.encode)),
    size=st.integers(1, 9),
)
def test_any_bytes_are_records_or_garbage(format: str, data: bytes, size: int):
    def read(pieces: Iterator[bytes]) -> list[Found | str]:
        found: list[Found | str] = []
        try:
            found += reader_of(format, {}, {})(pieces)
        except Garbage:
            found.append("garbage")
        return found

    # Of what garbage ends, some records may have been read before it showed: only the end must be the same.
    assert (read(cut(data, size))[-1:] == ["garbage"]) == (read(iter([data]))[-1:] == ["garbage"])


@given(st.lists(items, max_size=6), st.integers(1, 30), st.booleans())
def test_lines_of_json_are_read_wherever_they_are_cut(told: list[dict[str, object]], size: int, is_zipped: bool):
    data = b"".join(orjson.dumps({"Item": item}) + b"\n" for item in told)
    body = io.BytesIO(gzip.compress(data) if is_zipped else data)
    pieces = object_records.blocks(body, "GZIP" if is_zipped else "NONE")
    assert [one.item for one in json_records(pieces)] == told
    assert [one.item for one in json_records(cut(data, size))] == told


@given(st.lists(items, max_size=6), st.integers(1, 30))
def test_values_of_ion_are_read_wherever_they_are_cut(told: list[dict[str, object]], size: int):
    data = "\n".join(ion.line({"Item": ion.item_text(item)}) for item in told).encode()  # type: ignore[arg-type]
    assert [one.item for one in ion_records(cut(data, size))] == told


@given(st.lists(st.lists(cells, min_size=3, max_size=3), max_size=6), st.sampled_from(",;|\t: "), st.integers(1, 30))
def test_rows_are_read_as_the_standard_library_writes_them(rows: list[list[str]], delimiter: str, size: int):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerows(rows)
    found = [one.item for one in CsvReader(delimiter, ["a", "b", "c"], {}).records(cut(text.getvalue().encode(), size))]
    wanted = [{name: {"S": cell} for name, cell in zip("abc", row, strict=True) if cell} for row in rows]
    assert found == wanted


@given(st.lists(cells, min_size=2, max_size=5))
def test_a_row_without_quotes_is_cut_at_its_delimiters(row: list[str]):
    plain = [cell.translate({ord(one): None for one in ',"\n\r'}) for cell in row]
    if not any(plain):
        return
    names = [f"c{number}" for number in range(len(plain))]
    (found,) = CsvReader(",", names, {}).records(iter([",".join(plain).encode()]))
    assert found.item == {name: {"S": cell} for name, cell in zip(names, plain, strict=True) if cell}
