"""Text that is about to be stored: every database can hold it, and it has a limit."""

from __future__ import annotations


def storable(text: str) -> str:
    """The same text; half surrogate pairs (bytes of file names) are spelt out, since no encoding can write them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, characters: int) -> str:
    """Storable text of at most so many characters, before anything in it is spelt out."""
    return storable(text if len(text) <= characters else text[: characters - 1] + "…")


def shorten(text: str, characters: int) -> str:
    """Storable text of at most so many characters; one that was longer says so, and how long it was."""
    if len(text) <= characters:
        return storable(text)
    mark = f"… (shortened: it had {len(text):,} characters)"
    return storable(text[: characters - len(mark)] + mark)
