"""The context of a drawing: what a document beside it (.docx, .txt, .md) says. `context_document/` reads it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from penstock.systems.security_assistant.drawing.pdf import BadDrawing

CONTEXT_BYTES: Final = 10 * 1024 * 1024
ENDINGS: Final = (".docx", ".txt", ".md")


class BadContext(BadDrawing):
    """A document that cannot be read."""


@dataclass(frozen=True, slots=True)
class Context:
    """Facts (`Standard: EN 60839`), and sentences that ask for something."""

    facts: dict[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    lines: int = 0

    def summary(self) -> dict[str, Any]:
        return {"lines": self.lines, "facts": len(self.facts), "requirements": len(self.requirements)}

    def form(self) -> dict[str, Any]:
        return asdict(self) | {"requirements": list(self.requirements)}

    @classmethod
    def of(cls, form: dict[str, Any]) -> Context:
        return cls(form["facts"], tuple(form["requirements"]), form["lines"])


def ending_of(file_name: str) -> str:
    """`.docx`; raises BadContext for a kind that is not read."""
    ending = PurePosixPath(file_name).suffix.lower()
    if ending not in ENDINGS:
        raise BadContext(f"A context is {', '.join(ENDINGS)}, not {file_name[:100]!r}. Save it as one of them.")
    return ending
