"""`python docs/generate`: writes the pages that are made from the program itself, and llms.txt.

    python docs/generate             writes them
    python docs/generate --check     writes nothing; names those that are out of date, and ends with 1 if there are any

docs/api/ is made from the public names' signatures and docstrings, docs/cli.md from the commands, llms.txt from
docs/README.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from api_pages import api_pages
from cli_page import cli_page
from contents import llms_text

ROOT = Path(__file__).parents[2]


def made() -> dict[str, str]:
    """Every page that is made, by its path from the root."""
    pages = {f"docs/api/{name}": text for name, text in api_pages().items()}
    return {**pages, "docs/cli.md": cli_page(), "llms.txt": llms_text(ROOT, {*pages, "docs/cli.md"})}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/generate", description="Write the pages made from the program.")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if a page is out of date")
    check = parser.parse_args().check
    pages = made()
    stale = [path for path, text in pages.items() if not _is_so(ROOT / path, text)]
    extra = [
        str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs/api").glob("*.md")) if not _known(page, pages)
    ]
    if check:
        for path in [*stale, *extra]:
            print(f"{path} is out of date: run `python docs/generate`.")
        return 1 if stale or extra else 0
    for path in stale:
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(pages[path], encoding="utf-8")
        print(f"written: {path}")
    for path in extra:
        (ROOT / path).unlink()
        print(f"removed: {path}")
    return 0


def _is_so(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def _known(page: Path, pages: dict[str, str]) -> bool:
    return str(page.relative_to(ROOT)) in pages


if __name__ == "__main__":
    sys.exit(main())
