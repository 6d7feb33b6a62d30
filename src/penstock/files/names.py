"""Names of files made from names of other things: parts of keys, and versions in names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.files.errors import BadKey
from penstock.files.keys import checked_key
from penstock.files.unicode_forms import normalize

_APOSTROPHES = re.compile("['’ʼ`]")
_OTHERS = re.compile(r"[\W_]+")
_VERSION = re.compile(r"_v([1-9][0-9]{0,8})$")


def joined(*parts: str) -> str:
    """A key of these parts. One that has a "/", or is no name, is refused: it came from outside, and is one part."""
    for part in parts:
        if "/" in part:
            raise BadKey(f"part {part!r}", "it has a '/', but is one part of a key", "Normalize it: normalized(part)")
    return checked_key("/".join(parts))


def normalized(name: str) -> str:
    """`St. Mary's Hospital` → `st_marys_hospital`: letters and digits of any script, in lower case, and `_` between."""
    folded = normalize("NFC", normalize("NFKC", name).casefold())
    found = _OTHERS.sub("_", _APOSTROPHES.sub("", folded)).strip("_")
    if not found:
        raise BadKey(f"name {name!r}", "it has no letter and no digit", "Give it a name")
    return found


def versioned(name: str, version: int) -> str:
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
    """The version after the highest of `name` among names or keys that are taken."""
    versions = (version_of(one.rsplit("/", 1)[-1]) for one in taken)
    return 1 + max((version or 0 for base, version in versions if base == name), default=0)


def _split(name: str) -> tuple[str, str, str]:
    stem, dot, ending = name.rpartition(".")
    return (stem, dot, ending) if stem else (name, "", "")
