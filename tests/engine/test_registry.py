"""Every operation is known before its file is imported, and as the file itself says it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

from penstock.engine import operations
from penstock.engine.registry import OPERATIONS


def test_what_is_said_of_operations_beforehand_is_what_their_files_say() -> None:
    before = {name: found.kind for name, found in OPERATIONS.items()}
    for module in iter_modules(operations.__path__):
        import_module(f"{operations.__name__}.{module.name}")
    assert {name: found.kind for name, found in OPERATIONS.items()} == before
    for name, (module_name, _) in operations.LATER.items():
        assert OPERATIONS[name].run.__module__ == f"{operations.__name__}.{module_name}"


def test_opening_a_database_imports_neither_partiql_nor_the_control_plane() -> None:
    code = (
        "import sys, penstock\n"
        "penstock.connect().close()\n"
        "print([name for name in sys.modules if 'partiql' in name or 'create_table' in name or 'botocore' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
