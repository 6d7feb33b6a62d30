"""The records of an object: decompressed, cut into lines, rows or values, each read as an item.

1. A record that can be read and is no item is an error of its own (`Bad`); the next one is read all the same. What
   cannot be read at all (`Garbage`) ends its object: where the next record begins is not known.
2. Memory is bounded by `RECORD_BYTES`, whatever the object. Decompression gives at most a block at a time, and ends
   where an object grows past `OBJECT_BYTES` or past `MOST_GROWTH` times its size: such an object is a bomb.
3. Time is in proportion to the object's decompressed size.
4. Between two records there is little that is none: at most `BLANK_LINES` lines and `BLANK_BYTES` bytes, and at most
   `BLANK_LINES` empty parts of a compressed object. So whoever asks for the next record has an answer soon, and
   can rest, stop, or write down how far it came.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from penstock.engine.requests.shapes import AttributeMap
from penstock.engine.transfers.buckets import ObjectBytes
from penstock.errors import DynamoDBError, PenstockError
from penstock.wire import ion
from penstock.wire.values import Item

RECORD_BYTES: Final = 8 * 1024 * 1024
"""Of one line, row or value. An item of 400 KB, with every character escaped and blanks between, has less."""

BLOCK_BYTES: Final = 256 * 1024
OBJECT_BYTES: Final = 64 * 1024**3
"""Of one object, decompressed."""

MOST_GROWTH: Final = 2_000
"""Decompressed bytes for each of the object's own: gzip cannot reach it, text that repeats itself in zstd can."""

_FREE_BYTES: Final = 64 * 1024 * 1024  # growth is not looked at before
_WINDOW_BYTES: Final = 128 * 1024 * 1024  # that zstd may ask for
_FED_BYTES: Final = 512  # a byte of zstd may decompress to 32 KB
_GZIP: Final = zlib.MAX_WBITS | 16

BLANK_LINES: Final = 10_000
"""In a row: more of them are no data."""

BLANK_BYTES: Final = 1024 * 1024
"""Of blanks and comments in a row: the same."""

_ITEM = AttributeMap()
_has_json_types = _ITEM.acceptor()


class Garbage(PenstockError):
    """The rest of the object cannot be read."""


class Bad(NamedTuple):
    """A record that is no item."""

    reason: str


class Found(NamedTuple):
    """One record: an item, which has not been checked yet, or what is wrong with it; and its bytes."""

    item: Item | Bad
    size: int


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────


def blocks(body: ObjectBytes, compression: str) -> Iterator[bytes]:
    """The object's bytes, decompressed. Raises Garbage."""
    match compression:
        case "GZIP":
            return _limited(_gunzipped(body))
        case "ZSTD":
            return _limited(_unzstded(body))
    return (block for block, _ in _plain(body))


def _plain(body: ObjectBytes) -> Iterator[tuple[bytes, int]]:
    while block := body.read(BLOCK_BYTES):
        yield block, len(block)


def _limited(pieces: Iterator[tuple[bytes, int]]) -> Iterator[bytes]:
    """Each piece comes with the bytes of the object that were read since the one before it (2)."""
    grown = read = empty = 0
    for piece, taken in pieces:
        read += taken
        grown += len(piece)
        empty = 0 if piece else empty + 1
        if empty > BLANK_LINES:
            raise Garbage(f"more than {BLANK_LINES:,} parts of the object are empty")
        if grown > OBJECT_BYTES or (grown > _FREE_BYTES and grown > read * MOST_GROWTH):
            raise Garbage(f"the object decompresses to more than {grown:,} bytes")
        for start in range(0, len(piece), BLOCK_BYTES):
            yield piece[start : start + BLOCK_BYTES]


def _gunzipped(body: ObjectBytes) -> Iterator[tuple[bytes, int]]:
    """One or several members of gzip, one after the other."""
    member, raw, is_inside, taken = zlib.decompressobj(_GZIP), b"", False, 0
    try:
        while True:
            if not raw:
                raw = body.read(BLOCK_BYTES)
                taken += len(raw)
                if not raw:
                    break
            is_inside = True
            piece = member.decompress(raw, BLOCK_BYTES)
            raw = member.unconsumed_tail
            yield piece, taken
            taken = 0
            if member.eof:
                raw, member, is_inside = member.unused_data, zlib.decompressobj(_GZIP), False
        yield member.flush(BLOCK_BYTES), 0
    except zlib.error as error:
        raise Garbage(f"the object is not GZIP: {error}") from None
    if is_inside:
        raise Garbage("the object ends inside its GZIP data")


def _unzstded(body: ObjectBytes) -> Iterator[tuple[bytes, int]]:
    """One or several frames of zstd, fed in small pieces."""
    import zstandard  # checked when the import was asked for

    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    frame, is_inside = decompressor.decompressobj(), False
    try:
        while block := body.read(BLOCK_BYTES):
            for start in range(0, len(block), _FED_BYTES):
                raw = block[start : start + _FED_BYTES]
                taken = len(raw)
                while raw:
                    is_inside = True
                    yield frame.decompress(raw), taken
                    raw, taken = b"", 0
                    if frame.eof:
                        raw, frame, is_inside = frame.unused_data, decompressor.decompressobj(), False
    except zstandard.ZstdError as error:
        raise Garbage(f"the object is not ZSTD: {error}") from None
    if is_inside:
        raise Garbage("the object ends inside its ZSTD data")


def lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their line feeds. Raises Garbage for one that is too long, and for too many blank ones (4)."""
    rest: list[bytes] = []
    held = blank = blank_bytes = 0
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        if whole:
            whole[0] = b"".join([*rest, whole[0]])
            rest, held = [], 0
            for line in whole:
                _refuse_long(len(line))
                if line and not line.isspace():
                    blank = blank_bytes = 0
                else:
                    blank += 1
                    blank_bytes += len(line)
                    _refuse_blank(blank_bytes)
                if blank > BLANK_LINES:
                    raise Garbage(f"more than {BLANK_LINES:,} lines are blank")
                yield line
        rest.append(last)
        held += len(last)
        _refuse_long(held)
    if line := b"".join(rest):
        yield line


def _refuse_long(size: int) -> None:
    if size > RECORD_BYTES:
        raise Garbage(f"a record has more than {RECORD_BYTES:,} bytes")


def _refuse_blank(size: int) -> None:
    if size > BLANK_BYTES:
        raise Garbage(f"more than {BLANK_BYTES:,} bytes hold no record")


# ── records ──────────────────────────────────────────────────────────────────────────────────────

Reader = Callable[[Iterator[bytes]], Iterator[Found]]


def reader_of(format: str, options: Mapping[str, Any], key_types: Mapping[str, str]) -> Reader:
    """What reads the records of this format. `key_types`: the types of key attributes, which CSV does not tell."""
    match format:
        case "CSV":
            csv = options.get("Csv", {})
            return CsvReader(csv.get("Delimiter", ","), csv.get("HeaderList"), key_types).records
        case "ION":
            return ion_records
    return json_records


def json_records(pieces: Iterator[bytes]) -> Iterator[Found]:
    """One `{"Item": {…}}` a line."""
    for line in lines(pieces):
        if not line.strip():
            continue
        try:
            told = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Garbage(f"the line is not JSON: {error}") from None
        item = told.get("Item") if isinstance(told, dict) else None
        yield Found(Bad('the line has no "Item"') if item is None else _typed(item), len(line))


def _typed(item: Any) -> Item | Bad:
    """The item, if its values have the JSON types that they need."""
    if _has_json_types(item):
        return item  # type: ignore[no-any-return]
    try:
        converted: Item = _ITEM.convert(item, element=False)
    except DynamoDBError as error:
        return Bad(error.message)
    return converted if _has_json_types(converted) else Bad("a value has no type that DynamoDB knows")


def ion_records(pieces: Iterator[bytes]) -> Iterator[Found]:
    """Values of Ion, each `{Item: {…}}`, anywhere in the text."""
    decode = _Utf8()
    text, is_whole = "", False
    wanted, blank = 1, 0
    while not is_whole:
        parts = [text]
        held = 0
        while held < wanted and not is_whole:
            piece = next(pieces, None)
            if piece is None:
                is_whole = True
            elif not held and not text and piece.startswith(ion.BINARY_MARK):
                raise Garbage("binary Ion is not supported: write it as text")
            parts.append(decode(piece))
            held += len(parts[-1])
        text = "".join(parts)
        reader = ion.Text(text, is_whole=is_whole)
        place = 0
        try:
            for value in reader:
                yield Found(_ion_item(value), reader.place - place)
                place, blank = reader.place, 0
        except ion.Incomplete:
            if is_whole:
                raise Garbage("the text ends inside a value") from None
        except ion.IonError as error:
            raise Garbage(f"the text is not Ion: {error}") from None
        blank += reader.place - place
        _refuse_blank(blank)
        text = text[reader.place :]
        _refuse_long(len(text))
        wanted = max(len(text), 1)  # twice as much next time: a long value is not read again and again


def _ion_item(value: Any) -> Item | Bad:
    if not isinstance(value, dict) or not isinstance(value.get("Item"), dict):
        return Bad("the value has no struct Item")
    try:
        return ion.item_of(value["Item"])
    except ion.IonError as error:
        return Bad(error.reason)


class _Utf8:
    """Decodes pieces whose cuts may lie inside a character."""

    def __init__(self) -> None:
        from codecs import getincrementaldecoder

        self._decoder = getincrementaldecoder("utf-8")()

    def __call__(self, piece: bytes | None) -> str:
        try:
            return self._decoder.decode(piece or b"", final=piece is None)
        except UnicodeDecodeError:
            raise Garbage("the text is not UTF-8") from None


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


_QUOTED_CELL = re.compile(r'"((?:[^"]|"")*+)"')


class CsvReader:
    """Rows by RFC 4180. Every column is an S, except those of keys; an empty cell is no attribute."""

    def __init__(self, delimiter: str, header: list[str] | None, key_types: Mapping[str, str]) -> None:
        self._delimiter = delimiter
        self._header = header
        self._key_types = key_types

    def records(self, pieces: Iterator[bytes]) -> Iterator[Found]:
        header = self._header
        if header is not None:
            self._check_header(header)
        for text, size in self._rows(pieces):
            if header is None:
                header = self._cells(text.removeprefix("\ufeff"))
                self._check_header(header)
                continue
            if text:
                yield Found(self._item(header, self._cells(text)), size)

    def _check_header(self, header: list[str]) -> None:
        if len(set(header)) != len(header):
            raise Garbage("the header names a column twice")
        if "" in header:
            raise Garbage("the header has a column without a name")

    def _rows(self, pieces: Iterator[bytes]) -> Iterator[tuple[str, int]]:
        """A row goes on at the next line while one of its quotes is open."""
        held: list[bytes] = []
        size, is_open = 0, False
        for line in lines(pieces):
            held.append(line)
            size += len(line) + 1
            is_open ^= line.count(b'"') % 2 == 1
            _refuse_long(size)
            if not is_open:
                yield self._text(b"\n".join(held).removesuffix(b"\r")), size
                held, size = [], 0
        if held:
            raise Garbage("the object ends inside quotes")

    def _text(self, row: bytes) -> str:
        try:
            return row.decode()
        except UnicodeDecodeError:
            raise Garbage("the row is not UTF-8") from None

    def _cells(self, row: str) -> list[str]:
        if '"' not in row:
            self._refuse_return(row)
            return row.split(self._delimiter)
        cells: list[str] = []
        place = 0
        while True:
            quoted = _QUOTED_CELL.match(row, place)
            if quoted is None:
                end = row.find(self._delimiter, place)
                end = len(row) if end < 0 else end
                cell = row[place:end]
                self._refuse_return(cell)
            else:
                end, cell = quoted.end(), quoted.group(1).replace('""', '"')
            is_last = end == len(row)
            if (quoted is None and '"' in cell) or (not is_last and row[end] != self._delimiter):
                raise Garbage("a quote stands inside a cell: write it twice, and quotes around the cell")
            cells.append(cell)
            if is_last:
                return cells
            place = end + 1

    def _refuse_return(self, text: str) -> None:
        """Else a file whose lines end with CR alone is one long header, and an import of it an empty table."""
        if "\r" in text:
            raise Garbage("a carriage return stands outside quotes: rows end with LF or CRLF")

    def _item(self, header: list[str], cells: list[str]) -> Item | Bad:
        if len(cells) > len(header):
            return Bad(f"the row has {len(cells)} cells, and the header {len(header)} columns")
        types = self._key_types
        return {name: {types.get(name, "S"): cell} for name, cell in zip(header, cells, strict=False) if cell}
