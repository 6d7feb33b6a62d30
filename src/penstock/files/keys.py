"""Keys: the names of files within their home. Everything that names a file passes through `checked_key`.

1. A key that is accepted names a place inside the home, on every system, whatever the parts are.
2. What one home takes, every home takes: a folder on Linux, macOS or Windows, and S3 behind a prefix.
3. Checking is idempotent: `checked_key(checked_key(key)) == checked_key(key)`.
"""

from __future__ import annotations

import re
import unicodedata

from penstock.files.errors import BadKey

KEY_BYTES = 800
"""In UTF-8. S3 has 1,024 for prefix and key together."""

PREFIX_BYTES = 200
"""Of a home in a bucket."""

PART_BYTES = 240
"""Of one name between two slashes. File systems have 255; staging and copying want some of it."""

STAGING = "_temp"
MANIFEST = ".penstock"

_MOST_COMPOSED = 4
"""Characters that become one in NFC."""

_OWN = frozenset({STAGING, MANIFEST})
_FORBIDDEN = re.compile(r'[\\<>:"|?*]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\.|$)")


def checked_key(key: str) -> str:
    """The key in Unicode's NFC form; raises BadKey for one that could name anything outside, or not everywhere."""
    normal = _checked_text(key)
    if not normal:
        raise _bad(key, "a key is not empty", "Give it a name such as jobs/j1/report.xlsx")
    if len(normal.encode()) > KEY_BYTES:
        raise _bad(key, f"it has more than {KEY_BYTES} bytes", "Shorten it")
    for part in normal.split("/"):
        _check_part(key, part)
    if _seen(normal.split("/")[0]).casefold() in _OWN:
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
    """A name that `checked_key` leaves as it is."""
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


def _seen(part: str) -> str:
    """Without what is not seen: some file systems (HFS+) take `.pen\u200cstock` for `.penstock`."""
    return "".join(one for one in part if unicodedata.category(one) != "Cf")


def _check_part(key: str, part: str) -> None:
    if not part:
        raise _bad(key, "it begins or ends with '/', or has '//'", "Give names with one '/' between them")
    if part in (".", ".."):
        raise _bad(key, f"{part!r} is no name", "Give the whole key, from the home's folder down")
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
