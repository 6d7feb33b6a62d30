"""A conversation, as a Pol.is export has it: comments.csv.

1. A comment's id is its own, from the export, never the number of its row.
2. What is left out (blank, moderated out, said before) is left out by name: `skipped` has each with its reason.
3. Comments are in the order of their ids, whatever the order of the rows: the same conversation gives the same result.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from penstock.errors import PenstockError
from penstock.files.keys import normalize
from penstock.systems.csv_files import HEAD_CHARACTERS, csv_delimiter

Reason = Literal["blank", "moderated", "duplicate"]

_ID: Final = "comment-id"
_BODY: Final = "comment-body"
_AUTHOR: Final = "author-id"
_MODERATED: Final = "moderated"
_MODERATED_OUT: Final = "-1"
_OTHER_NAMES: Final = {
    _ID: "comment_id commentid id nr no",
    _BODY: "comment_body comment_text commentbody comment text body statement beitrag kommentar aussage commentaire "
    "texte comentario texto commento testo opmerking komentarz комментарий コメント 意见 評論 评论",
}
"""Of a file that is no export of Pol.is, where a column of Pol.is' own name is missing."""
_UTF8_LETTER: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
MOST_COMMENTS: Final = 50_000
"""A neighbour graph and a picture of more than these want another machine, and another picture."""
MOST_CHARACTERS: Final = 10_000
"""Of one comment: Pol.is allows 1,000. What is longer is cut."""
LARGEST_FILE_BYTES: Final = 200_000_000
_LARGEST_ID: Final = 10**15


class BadConversation(PenstockError, ValueError):
    """The file is no export of a conversation; the message says where it is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Comment:
    id: int
    text: str
    author: str = ""
    agrees: int = 0
    disagrees: int = 0
    language: str = ""
    """The code of the language that it is read in."""


@dataclass(frozen=True, slots=True)
class Skipped:
    id: int
    reason: Reason
    same_as: int | None = None
    """For a duplicate: the comment that says the same."""


@dataclass(frozen=True, slots=True)
class Conversation:
    comments: tuple[Comment, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def participants(self) -> int:
        """Authors, as far as the export names them."""
        return len({comment.author for comment in self.comments if comment.author})

    def count_skipped(self, reason: Reason) -> int:
        return sum(1 for one in self.skipped if one.reason == reason)


def read_conversation(path: Path) -> Conversation:
    """The conversation of a comments.csv. Raises BadConversation."""
    try:
        if path.is_dir():
            path = path / "comments.csv"
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise BadConversation(f"{path} has more than {LARGEST_FILE_BYTES:,} bytes: is it really a comments.csv?")
        data = path.read_bytes()
    except OSError as error:
        raise BadConversation(
            f"{path}: {error.strerror or error}. Give the comments.csv of a Pol.is export."
        ) from error
    return parse_conversation(data, name=str(path))


def parse_conversation(data: bytes, *, name: str = "comments.csv") -> Conversation:
    """The same from the file's bytes."""
    text = _decode(data, name)
    # A spreadsheet saves with another delimiter where commas are decimal marks.
    delimiter = csv_delimiter(text[:HEAD_CHARACTERS])
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        written = [column.strip().lower() for column in next(rows, [])]
        header = _own_names(written)
        _check_header(header, written, name)
        found = [_comment(row, header, rows.line_num, name) for row in rows if row]
    except csv.Error as error:
        raise BadConversation(f"{name}, line {rows.line_num}: {error}. Export the conversation again.") from error
    if len(found) > MOST_COMMENTS:
        raise BadConversation(f"{name} has {len(found):,} comments; {MOST_COMMENTS:,} are the most.")
    return _sift(found, name)


def _decode(data: bytes, name: str) -> str:
    """UTF-8, or what spreadsheets write: UTF-16 with its mark, and Windows-1252 where nothing at all is UTF-8."""
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        is_export = _ID.encode() + b"," in data.partition(b"\n")[0]  # as Pol.is wrote it
        if not is_export and not error.encoding.startswith("utf-16") and not _UTF8_LETTER.search(data):
            with suppress(UnicodeDecodeError):
                return data.decode("cp1252")
        raise BadConversation(f"{name}: byte {error.start:,} is not UTF-8. Save the file as UTF-8.") from error


def _own_names(header: list[str]) -> list[str]:
    """The header with Pol.is' names in the place of the only columns that are called alike."""
    for name, others in _OTHER_NAMES.items():
        places = [place for place, column in enumerate(header) if column in others.split()]
        if name not in header and len(places) == 1:
            header = [name if place == places[0] else column for place, column in enumerate(header)]
    return header


def _check_header(header: list[str], written: list[str], name: str) -> None:
    missing = [column for column in (_ID, _BODY) if column not in header]
    if missing:
        seen = ", ".join(written) if any(written) else "none"
        raise BadConversation(
            f"{name} has no column {' and no column '.join(missing)}. Its columns: {seen[:300]}. "
            "Give the comments.csv of a Pol.is export, or a file with a column comment-id (or id) and a column "
            "comment-body (or text)."
        )


def _comment(row: list[str], header: list[str], line: int, name: str) -> tuple[Comment, bool]:
    """The comment, and whether it was moderated out."""
    if len(row) != len(header):
        raise BadConversation(f"{name}, line {line}: {len(row)} fields where the header has {len(header)}.")
    fields = dict(zip(header, row, strict=True))
    identity = fields[_ID].strip()
    # The length comes first: Python does not read numbers of thousands of digits.
    if not (identity.isascii() and identity.isdigit() and len(identity) < 100 and int(identity) < _LARGEST_ID):
        raise BadConversation(f"{name}, line {line}: comment-id is {identity[:50]!r}, and should be a whole number.")
    comment = Comment(
        id=int(identity),
        text=tidy(fields[_BODY]),
        author=fields.get(_AUTHOR, "").strip(),
        agrees=_count(fields.get("agrees", "")),
        disagrees=_count(fields.get("disagrees", "")),
    )
    return comment, fields.get(_MODERATED, "").strip() == _MODERATED_OUT


def tidy(text: str) -> str:
    """Composed, without control characters, each run of blanks one blank."""
    plain = normalize("NFC", text)
    kept = "".join(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter for letter in plain)
    return " ".join(kept.split())[:MOST_CHARACTERS]


def _count(text: str) -> int:
    """A column of votes is a help, and never the reason to refuse a file."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0


def _sift(found: list[tuple[Comment, bool]], name: str) -> Conversation:
    found.sort(key=lambda pair: pair[0].id)
    kept: list[Comment] = []
    skipped: list[Skipped] = []
    seen: dict[str, int] = {}
    ids: set[int] = set()
    for comment, moderated in found:
        if comment.id in ids:
            raise BadConversation(f"{name} has the comment-id {comment.id} twice: two exports in one file?")
        ids.add(comment.id)
        said = comment.text.casefold().strip(" .!?…。！？")
        if not any(letter.isalnum() for letter in comment.text):
            skipped.append(Skipped(comment.id, "blank"))
        elif moderated:
            skipped.append(Skipped(comment.id, "moderated"))
        elif said in seen:
            skipped.append(Skipped(comment.id, "duplicate", same_as=seen[said]))
        else:
            seen[said] = comment.id
            kept.append(comment)
    return Conversation(tuple(kept), tuple(skipped))
