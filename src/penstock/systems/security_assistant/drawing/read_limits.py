"""How much reading one file may cost: a few kilobytes can ask for hours of work.

What a page draws is unpacked from the file, and may be shared: five hundred pages can have one content, and a page can
draw the same form a thousand times. So what is unpacked is counted each time it is read, and a file may ask for so much
of it as no honest drawing of its size has. pypdf bounds a single stream; this bounds their sum.
"""

from __future__ import annotations

from typing import Any, Final

BASE_BYTES: Final = 4 * 1024 * 1024
BYTES_PER_BYTE: Final = 40
"""Drawings unpack to three to ten times their size."""
MOST_BYTES: Final = 400 * 1024 * 1024


class TooMuchEffort(Exception):
    """The file asks for more reading than its size explains."""


class Effort:
    """What is left to spend on a file of `file_bytes`."""

    def __init__(self, file_bytes: int) -> None:
        self.limit = min(MOST_BYTES, BASE_BYTES + BYTES_PER_BYTE * file_bytes)
        self._left = self.limit
        self._forms: dict[str, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}  # with the form, so that no other gets its id

    def spend(self, count: int) -> None:
        """Raises TooMuchEffort, and does so from then on."""
        self._left -= count
        if self._left < 0:
            raise TooMuchEffort

    def open_page(self, page: Any) -> bytes:
        """What the page draws, counted; its forms are known from now on."""
        contents = page.get_contents()
        drawn: bytes = b"" if contents is None else contents.get_data()
        self.spend(len(drawn))
        self._learn_forms(page.get("/Resources"))
        return drawn

    def before_operator(self, operator: bytes, operands: Any, *_: Any) -> None:
        """pypdf's `visitor_operand_before`: a form is counted each time it is drawn, before it is read.

        What is raised inside of a form pypdf swallows; the next operator outside raises again.
        """
        if operator == b"Do" and operands:
            self.spend(self._forms.get(str(operands[0]), 0))
        elif self._left < 0:
            raise TooMuchEffort

    def _learn_forms(self, resources: Any) -> None:
        """By name: of several forms of one name, the largest counts."""
        left = [resources]
        while left:
            found = _resolved(left.pop())
            named = _resolved(found.get("/XObject")) if found is not None else None
            for name, reference in (named or {}).items():
                form = _resolved(reference)
                if form is None or form.get("/Subtype") != "/Form":
                    continue
                if id(form) not in self._known:
                    self._known[id(form)] = (form, len(form.get_data()))
                    self.spend(self._known[id(form)][1])
                    left.append(form.get("/Resources"))
                self._forms[str(name)] = max(self._forms.get(str(name), 0), self._known[id(form)][1])


def _resolved(one: Any) -> Any:
    """The dictionary that is meant, or None: a broken file has anything anywhere."""
    found = None if one is None else one.get_object()
    return found if hasattr(found, "items") else None
