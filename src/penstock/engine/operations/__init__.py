"""One file an API call, or a close family of them. Importing a file registers its operations."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from penstock.engine.call import Call
from penstock.engine.registry import OPERATIONS, Kind, Request, Response, operation

# PartiQL's grammar takes as long to import as all the rest: it is imported by the first statement.
_LATER: dict[str, tuple[str, Kind]] = {
    "ExecuteStatement": ("execute_statement", "read"),
    "BatchExecuteStatement": ("partiql_batch", "read"),
    "ExecuteTransaction": ("partiql_transaction", "write"),
}


def load() -> None:
    """Makes every operation of this folder known."""
    for name, (module, kind) in _LATER.items():
        _register_later(name, module, kind)
    later = {module for module, _ in _LATER.values()}
    for found in iter_modules(__path__):
        if found.name not in later and not found.name.startswith("partiql"):
            import_module(f"{__name__}.{found.name}")


def _register_later(name: str, module: str, kind: Kind) -> None:
    def run(call: Call, request: Request) -> Response:
        import_module(f"{__name__}.{module}")  # registers itself in this function's place
        return OPERATIONS[name].run(call, request)

    operation(name, kind)(run)
