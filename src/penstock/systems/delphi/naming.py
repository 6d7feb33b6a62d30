"""Finding a namer of topics by its name: `module:namer`."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.systems.delphi.topics import Namer
from penstock.user_modules import named


def load_namer(place: str) -> Namer:
    """The namer that `module:attribute` names; a class is called without arguments. Raises PenstockError."""
    _, _, found = named(place, what="namer", example="models:namer")
    namer = found() if isinstance(found, type) else found
    if not callable(getattr(namer, "name", None)) or not isinstance(getattr(namer, "model_name", None), str):
        raise PenstockError(f"{place} is no namer: it needs `model_name`, a text, and `name(topic, comments)`.")
    kept: Namer = namer
    return kept
