"""What a built site must keep: every link leads somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
_CSS_URL = re.compile(r"url\(['\"]?(?:https?:)?//")


@dataclass
class _Page(HTMLParser):
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag in _LOADED and given.get(_LOADED[tag]):
            self.loaded.append(given[_LOADED[tag]] or "")


def faults(site: Path) -> list[str]:
    """What is wrong with the site, a line for each fault."""
    pages = {str(path.relative_to(site)): _read(path) for path in sorted(site.rglob("*.html"))}
    found = [f"{name}: {fault}" for name, page in pages.items() for fault in _faults(name, page, pages, site)]
    for sheet in sorted(site.rglob("*.css")):
        if _CSS_URL.search(sheet.read_text(encoding="utf-8")):
            found.append(f"{sheet.relative_to(site)} loads something from another host")
    return found


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _faults(name: str, page: _Page, pages: dict[str, _Page], site: Path) -> Iterator[str]:
    for link in page.loaded:
        if "://" in link or link.startswith("//"):
            yield f"loads {link} from another host"
        elif not link.startswith("data:") and not _target(name, link, site):
            yield f"loads {link}, which is not there"
    for link in page.links:
        if "://" in link or link.startswith(("mailto:", "//")):
            continue
        target = _target(name, link, site)
        anchor = unquote(link.partition("#")[2])
        if not target:
            yield f"links to {link}, which is not there"
        elif anchor and target in pages and anchor not in pages[target].ids and not anchor.startswith("__"):
            yield f"links to {link}: there is no such heading"


def _target(page: str, link: str, site: Path) -> str:
    """The file that a link of this page names, from the site's root; empty if it is not there."""
    path = unquote(link.partition("#")[0].partition("?")[0])
    if not path:
        return page
    joined = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(page), path)
    target = posixpath.normpath(joined)
    if (site / target).is_dir():
        target = posixpath.normpath(posixpath.join(target, "index.html"))
    return target if not target.startswith("..") and (site / target).is_file() else ""
