"""One file an API call, or a close family of them. Importing a file registers its operations."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Imports every file of this folder."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
