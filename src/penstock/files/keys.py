"""Keys: the names of files within their store, and names made from the names of other things.

1. An accepted key names a place inside the store, on every system, whatever its parts are.
2. What one store accepts, every store accepts: a folder on Linux, macOS or Windows, and S3 behind a prefix.
3. Checking is idempotent: `checked_key(checked_key(key)) == checked_key(key)`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from penstock.files.errors import BadKey

KEY_BYTES = 800
"""In UTF-8. S3 has 1,024 for prefix and key together."""

PREFIX_BYTES = 200
"""Of a file store in a bucket."""

PART_BYTES = 240
"""Of one name between two slashes. File systems allow 255; staging and copying need some of it."""

STAGING = "_temp"
MANIFEST = ".penstock"

_MOST_COMPOSED = 4
"""Characters that NFC may compose into one."""

_OWN = frozenset({STAGING, MANIFEST})
_FORBIDDEN = re.compile(r'[\\<>:"|?*]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\.|$)")


def checked_key(key: str) -> str:
    """The key in Unicode's NFC form. Raises BadKey for one that names a place outside, or is invalid on some system."""
    normal = _checked_text(key)
    if not normal:
        raise _bad(key, "a key is not empty", "Give it a name such as jobs/j1/report.xlsx")
    if len(normal.encode()) > KEY_BYTES:
        raise _bad(key, f"it has more than {KEY_BYTES} bytes", "Shorten it")
    for part in normal.split("/"):
        _check_part(key, part)
    if _visible(normal.split("/")[0]).casefold() in _OWN:
        raise _bad(key, f"{STAGING}/ and {MANIFEST}/ are kept for staging and hashes", "Choose another first part")
    return normal


def checked_prefix(prefix: str) -> str:
    """The beginning of keys, in NFC form: whole parts and the beginning of one, or nothing."""
    normal = _checked_text(prefix)
    parts = normal.split("/")
    for part in parts[:-1]:
        _check_part(prefix, part)
    if parts[-1] in (".", ".."):
        raise _bad(prefix, f"{parts[-1]!r} is no name", "Leave it out")
    return normal


def is_key(name: str) -> bool:
    """Whether `checked_key` returns it unchanged."""
    try:
        return checked_key(name) == name
    except BadKey:
        return False


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise _bad(repr(text), f"a key is a str, not {type(text).__name__}", "Give a str")
    if len(text) > _MOST_COMPOSED * KEY_BYTES:  # before it is normalized, which may take long
        raise _bad(text, f"it has more than {KEY_BYTES} bytes", "Shorten it")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise _bad(text, f"it has the control character U+{ord(character):04X}", "Take it out")
    if found := _FORBIDDEN.search(text):
        raise _bad(
            text, f"it has {found.group()!r}, which is not allowed in names everywhere", "Replace it, say by '_'"
        )
    return unicodedata.normalize("NFC", text)


def _visible(part: str) -> str:
    """Without invisible characters: some file systems (HFS+) take `.pen\u200cstock` for `.penstock`."""
    return "".join(one for one in part if unicodedata.category(one) != "Cf")


def _check_part(key: str, part: str) -> None:
    if not part:
        raise _bad(key, "it begins or ends with '/', or has '//'", "Give names with one '/' between them")
    if part in (".", ".."):
        raise _bad(key, f"{part!r} is no name", "Give the whole key, from the store's folder down")
    if len(part.encode()) > PART_BYTES:
        raise _bad(key, f"{part[:20]}… has more than {PART_BYTES} bytes", "Shorten it")
    if part[-1] in ". " or part[0] == " ":
        raise _bad(key, f"{part!r} begins or ends with a space, or ends with a dot", "Take it off")
    if _DEVICES.match(part.casefold()):
        raise _bad(key, f"{part!r} is the name of a device on Windows", "Choose another name")


def _bad(key: str, reason: str, next_step: str) -> BadKey:
    shown = key if len(key) <= 80 else key[:80] + "…"
    escaped = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)
    return BadKey(f"key {escaped!r}", reason, next_step)


# ── Unicode ──────────────────────────────────────────────────────────────────────────────────────

MOST_MARKS: Final = 30
_JOINER: Final = "\u034f"


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """As `unicodedata.normalize`, in time that grows with the text, of its stream-safe form.

    `unicodedata` sorts the marks on one letter one by one: a letter with 160,000 accents takes 20 seconds. Unicode's
    Stream-Safe Text Format (UAX #15) puts an invisible joiner after 30 marks in a row. No written text has as many.
    """
    return text if text.isascii() else unicodedata.normalize(form, _stream_safe(text))


def _stream_safe(text: str) -> str:
    cuts = [0]
    marks = 0
    for at, character in enumerate(text):
        if not _is_mark(character):
            marks = 0
        elif marks == MOST_MARKS:
            cuts.append(at)
            marks = 1
        else:
            marks += 1
    if len(cuts) == 1:
        return text
    return _JOINER.join(text[start:end] for start, end in pairwise([*cuts, len(text)]))


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    """Whether sorting the marks may move it, once it is decomposed."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0


# ── names ────────────────────────────────────────────────────────────────────────────────────────

_APOSTROPHES = re.compile("['’ʼ`]")
_OTHERS = re.compile(r"[\W_]+")
_VERSION = re.compile(r"_v([1-9][0-9]{0,8})$")


def join_key(*parts: str) -> str:
    """A key of these parts. A part from outside that contains "/", or is no name, is refused."""
    for part in parts:
        if "/" in part:
            raise BadKey(
                f"part {part!r}", "it has a '/', but is one part of a key", "Normalize it: normalize_name(part)"
            )
    return checked_key("/".join(parts))


def normalize_name(name: str) -> str:
    """`St. Mary's Hospital` → `st_marys_hospital`: letters and digits of any script, in lower case, and `_` between."""
    folded = normalize("NFC", normalize("NFKC", name).casefold())
    found = _OTHERS.sub("_", _APOSTROPHES.sub("", folded)).strip("_")
    if not found:
        raise BadKey(f"name {name!r}", "it has no letter and no digit", "Give it a name")
    return found


def add_version(name: str, version: int) -> str:
    """`schedule.xlsx`, 2 → `schedule_v2.xlsx`."""
    if version < 1:
        raise ValueError(f"versions count from 1, not {version}")
    stem, dot, ending = _split(name)
    return f"{stem}_v{version}{dot}{ending}"


def version_of(name: str) -> tuple[str, int | None]:
    """`schedule_v2.xlsx` → `schedule.xlsx`, 2; a name without a version has None."""
    stem, dot, ending = _split(name)
    found = _VERSION.search(stem)
    if found is None:
        return name, None
    return f"{stem[: found.start()]}{dot}{ending}", int(found.group(1))


def next_version(name: str, taken: Iterable[str]) -> int:
    """The version after the highest of `name` among the names or keys in `taken`."""
    versions = (version_of(one.rsplit("/", 1)[-1]) for one in taken)
    return 1 + max((version or 0 for base, version in versions if base == name), default=0)


def _split(name: str) -> tuple[str, str, str]:
    stem, dot, ending = name.rpartition(".")
    return (stem, dot, ending) if stem else (name, "", "")
