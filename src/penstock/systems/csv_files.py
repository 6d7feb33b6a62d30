"""CSV files of other people's programs: the encoding and the delimiter, from the file itself."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from typing import Any, BinaryIO, Final, TextIO

HEAD_CHARACTERS: Final = 64 * 1024
"""So much of a file shows its delimiter."""
_SNIFFED_ROWS: Final = 30
_DELIMITERS: Final = ",;\t|"
_BLOCK_BYTES: Final = 1024 * 1024


def csv_encoding(file: BinaryIO) -> str:
    """By the byte order mark; else UTF-8 if all of the file is, else Windows-1252. The file is at its start again."""
    try:
        head = file.read(4)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if head.startswith(codecs.BOM_UTF8):
            return "utf-8-sig"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while block := file.read(_BLOCK_BYTES):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    finally:
        file.seek(0)
    return "utf-8"


def csv_reader(text: TextIO) -> Any:
    """Its rows, as csv.reader gives them; `text` is at its start, and was opened with newline=""."""
    head = text.read(HEAD_CHARACTERS)
    text.seek(0)
    if head[:4].lower() == "sep=" and len(head) > 4:  # what Excel writes before the names
        text.readline()
        return csv.reader(text, delimiter=head[4])
    return csv.reader(text, delimiter=csv_delimiter(head))


def csv_delimiter(head: str) -> str:
    """The one that cuts the first rows most evenly into more than one cell."""
    best, most = ",", 0.0
    for delimiter in _DELIMITERS:
        widths: list[int] = []
        try:
            for cells in csv.reader(io.StringIO(head, newline=""), delimiter=delimiter):
                if cells:
                    widths.append(len(cells))
                if len(widths) == _SNIFFED_ROWS:
                    break
        except csv.Error:
            continue
        if not widths or widths[0] < 2:  # the names are cut, too
            continue
        width, times = Counter(widths).most_common(1)[0]
        score = times / len(widths) * min(width, 20) if width > 1 else 0
        if score > most:
            best, most = delimiter, score
    return best
