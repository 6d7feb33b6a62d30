"""`python -m trust`: names the runs, each a command of its own."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    for path in sorted(HERE.glob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = text.partition("\n")[0]
        if first.startswith("`python -m trust."):  # the others are parts that runs share
            sys.stdout.write(f"{first}\n")


if __name__ == "__main__":
    main()
