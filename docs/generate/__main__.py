"""`python docs/generate`: writes the pages that are made from the program itself, and llms.txt.

    python docs/generate             writes them
    python docs/generate --check     writes nothing; names those that are out of date, and ends with 1 if there are any
    python docs/generate --walks     also the walks of docs/architecture.md, which take some seconds

docs/api/ is made from the public names' signatures and docstrings, docs/cli/ from the commands, llms.txt from
docs/README.md. The tables of figures in docs/compare.md are written anew from bench/results.json, and are not checked.
"""

from __future__ import annotations

import argparse
import sys

from figures import with_figures
from made_pages import ROOT, is_so, made, stale, there
from walks import with_walks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/generate", description="Write the pages made from the program.")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if a page is out of date")
    parser.add_argument("--walks", action="store_true", help="also walk through the code for docs/architecture.md")
    options = parser.parse_args()
    return _check() if options.check else _write(walks=options.walks)


def _check() -> int:
    old = stale()
    for path in old:
        print(f"{path} is out of date: run `python docs/generate`.")
    return 1 if old else 0


def _write(*, walks: bool) -> int:
    pages = made() | {"docs/compare.md": _compared()}
    if walks:
        pages["docs/architecture.md"] = with_walks((ROOT / "docs/architecture.md").read_text(encoding="utf-8"))
    for path, text in pages.items():
        if not is_so(ROOT / path, text):
            (ROOT / path).parent.mkdir(exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"written: {path}")
    for path in there():
        if path not in pages:
            (ROOT / path).unlink()
            print(f"removed: {path}")
    return 0


def _compared() -> str:
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    return with_figures(page, ROOT / "bench/results.json")


if __name__ == "__main__":
    sys.exit(main())
