"""How many values a JSON text would become, counted before it is parsed.

Each list, map and comma of a text becomes a value in memory, of fifty bytes and more. A parser that has begun cannot
be interrupted, and holds the interpreter: what must not become so many values must not reach it.

1. What is within a string is not counted.
2. The text is read once, a piece at a time: the time grows with its length whatever stands in it, other threads
   have their turn between two pieces, and a piece's parts are all that is in memory.
"""

from __future__ import annotations

from typing import Final

_TOKENS: Final = (b"[", b"{", b",")
_PIECE_BYTES: Final = 256 * 1024


def has_more_tokens(text: bytes, most: int) -> bool:
    """Whether a JSON text has more than `most` brackets, braces and commas outside its strings.

    For what is no JSON, some number that is not far off: the parser refuses it.
    """
    if _count(text) <= most:
        return False  # nearly always, and three quick looks
    tokens, at, in_string = 0, 0, False
    while at < len(text) and tokens <= most:
        piece = _piece(text, at)
        at += len(piece)
        # An escaped backslash escapes nothing; then an escaped quote ends nothing.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        tokens += _count(b"".join(parts[in_string::2]))
        in_string ^= len(parts) % 2 == 0
    return tokens > most


def _piece(text: bytes, at: int) -> bytes:
    """The next piece; an escape stays whole."""
    piece = text[at : at + _PIECE_BYTES]
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 and len(piece) > 1 else piece


def _count(text: bytes) -> int:
    return sum(map(text.count, _TOKENS))
