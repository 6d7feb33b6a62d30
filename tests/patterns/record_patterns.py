"""Import the named modules and print what each place of their source compiles meanwhile, as JSON.

python record_patterns.py ROOT MODULE…
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any


def record(root: Path, modules: list[str]) -> dict[str, list[tuple[str, str, int]]]:
    compiled: dict[str, list[tuple[str, str, int]]] = {}
    compile_pattern = re.compile

    def compile_and_record(pattern: Any, flags: int = 0) -> Any:
        frame = sys._getframe(1)
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(root) and isinstance(pattern, str | bytes):
            place = f"{path.relative_to(root).as_posix()}:{frame.f_lineno}"
            text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
            entry = (type(pattern).__name__, text, int(flags))
            if entry not in compiled.setdefault(place, []):
                compiled[place].append(entry)
        return compile_pattern(pattern, flags)

    re.compile = compile_and_record  # type: ignore[assignment]
    for name in modules:
        importlib.import_module(name)
    return compiled


if __name__ == "__main__":
    print(json.dumps(record(Path(sys.argv[1]), sys.argv[2:])))
