"""`python docs/generate`: writes the pages that are made from the program itself, and llms.txt.

    python docs/generate             writes them
    python docs/generate --check     writes nothing; names those that are out of date, and ends with 1 if there are any
    python docs/generate --walks     also the walks of docs/architecture.md, which take some seconds
    python docs/generate --site      writes them, then builds the documentation as a site, in build/site/

docs/api/ is made from the public names' signatures and docstrings, docs/cli/ from the commands, llms.txt from
docs/README.md. The tables of figures in docs/compare.md are written anew from bench/results.json, and are not checked.
"""

from __future__ import annotations

import argparse
import sys

from contents import sections
from figures import with_figures
from made_pages import ROOT, is_so, made, stale, there
from site_pages import SiteError, site_pages
from static_site import MISSING, build_site, is_possible
from walks import with_walks

SITE = ROOT / "build" / "site"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/generate", description="Write the pages made from the program.")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if a page is out of date")
    parser.add_argument("--walks", action="store_true", help="also walk through the code for docs/architecture.md")
    parser.add_argument("--site", action="store_true", help="also build the documentation as a site, in build/site/")
    options = parser.parse_args()
    if options.check:
        return _check()
    _write(walks=options.walks)
    return _site() if options.site else 0


def _check() -> int:
    old = stale()
    for path in old:
        print(f"{path} is out of date: run `python docs/generate`.")
    return 1 if old else 0


def _write(*, walks: bool) -> None:
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


def _site() -> int:
    if not is_possible():
        print(MISSING, file=sys.stderr)
        return 1
    contents = sections(ROOT, set())
    try:
        number = build_site(site_pages(ROOT, contents), contents, SITE)
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The site has {number} pages: {SITE / 'index.html'}")
    return 0


def _compared() -> str:
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    return with_figures(page, ROOT / "bench/results.json")


if __name__ == "__main__":
    sys.exit(main())
