"""A stored traceback as frames: the user's own are shown open, those of Penstock and of libraries are folded."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_FRAME: Final = re.compile(r'^  File "([^"\n]{1,1000})", line (\d{1,9}), in ([^\n]{1,300})$')
_LIBRARY: Final = (
    *("/site-packages/", "/dist-packages/", "/lib/python", "<frozen "),
    *("/penstock/jobs/", "/penstock/pipelines/"),
)
_MOST_LINES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame, or a text between frames (`place` is empty)."""

    place: str
    code: str
    carets: str = ""
    """The line of ^ below the code, which says nothing once the code is wrapped."""
    is_ours: bool = False
    """Of Penstock or of a library."""
    raises: bool = False
    """The last frame of the user's: the line that raised, or led to it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Frames that are shown in the same way, one after the other."""

    is_folded: bool
    frames: tuple[Frame, ...]


def parse_traceback(text: str) -> list[Block]:
    """Pure: the frames in their order. The last frame of the user's is open, whatever else is folded."""
    frames: list[Frame] = []
    place, ours = "", False
    code: list[str] = []
    for line in text.splitlines()[:_MOST_LINES]:
        found = _FRAME.match(line)
        if found is not None or (place and line and not line.startswith("    ")):
            if place or code:
                frames.append(_frame(place, code, ours))
            place, code = (line.strip(), []) if found is not None else ("", [line])
            ours = found is not None and any(part in found.group(1).replace("\\", "/") for part in _LIBRARY)
        else:
            code.append(line[4:] if place else line)
    if place or code:
        frames.append(_frame(place, code, ours))
    own = [number for number, frame in enumerate(frames) if frame.place and not frame.is_ours]
    last = own[-1] if own else None
    if last is not None:
        frames[last] = replace(frames[last], raises=True)
    return _blocks(frames)


def _frame(place: str, code: list[str], is_ours: bool) -> Frame:
    has_carets = bool(place) and len(code) > 1 and not code[-1].strip(" ~^")
    return Frame(place, "\n".join(code[:-1] if has_carets else code), code[-1] if has_carets else "", is_ours)


def _blocks(frames: list[Frame]) -> list[Block]:
    blocks: list[Block] = []
    for frame in frames:
        if blocks and blocks[-1].is_folded == frame.is_ours:
            blocks[-1] = Block(frame.is_ours, (*blocks[-1].frames, frame))
        else:
            blocks.append(Block(frame.is_ours, (frame,)))
    return blocks
