"""The pages of the site: those that docs/README.md lists, their links, and the files that they show.

The repository's pages link to each other as files, and GitHub shows them so. The site has all of them in one tree:
the README is its first page, and a README of a folder is that folder's page.

1. Every page that the contents list is in the site, once.
2. Each link of a page leads to a page of the site, to a file that is copied into it, or to another host. A link to
   a source file leads to a page that shows the file. A link to anything else raises `SiteError`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contents import Section, title_of
from state_diagram import state_table

HOME = "README.md"
CONTENTS = "docs/README.md"
DECISIONS = "docs/decisions/README.md"

_PLACES = {
    HOME: "index.md",
    CONTENTS: "all-pages.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/README.md": "bench.md",
    "bench/RESULTS.md": "figures.md",
    "trust/README.md": "trust-programs.md",
}
"""Where the pages are that are not in docs/ or examples/, which keep their paths."""

_PICTURES = {".png", ".svg"}
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yml": "yaml", ".sh": "bash", "Makefile": "make"}
"""Of source files that a page links to, by their names' ends; others are shown as plain text."""
_FENCE = re.compile(r"^ *(`{3,})([\w-]*)")
_LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))")
_CODE = re.compile(r"`+[^`]*`+")
_COMMENT = re.compile(r"^ {0,3}<!--.*?-->\n", re.DOTALL | re.MULTILINE)  # those of its own lines: others are shown


class SiteError(Exception):
    """The site cannot be built as the pages are; the message says which page is wrong."""


@dataclass
class SitePages:
    """What is built: texts by their path in the site, and files to copy."""

    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


def place_of(path: str) -> str:
    """Where a page of the repository is in the site."""
    if path in _PLACES:
        return _PLACES[path]
    folder, name = posixpath.split(path.removeprefix("docs/"))
    return posixpath.join(folder, "index.md" if name == "README.md" else name)


def listed(sections: Iterable[Section]) -> list[str]:
    """The pages of the contents, in their order."""
    return [entry.path for section in sections for group in section.groups for entry in group.entries]


def site_pages(root: Path, sections: list[Section]) -> SitePages:
    pages = SitePages()
    paths = [HOME, CONTENTS, *listed(sections)]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise SiteError(f"docs/README.md lists {', '.join(twice)} twice")
    texts = {path: (root / path).read_text(encoding="utf-8") for path in paths}
    texts[DECISIONS] = _decisions(root, paths)
    for path, text in texts.items():
        links = _Links(root, path, set(texts), pages)
        pages.texts[place_of(path)] = _page(text, links.moved)
    return pages


def _decisions(root: Path, paths: list[str]) -> str:
    found = [path for path in paths if path.startswith("docs/decisions/")]
    rows = [f"- [{title_of(root / path)}]({posixpath.basename(path)})" for path in found]
    return "\n".join(["# Decisions", "", "Why things are as they are.", "", *rows, ""])


@dataclass(frozen=True)
class _Links:
    """The links of one page; what they lead to is added to the site's pages."""

    root: Path
    page: str
    texts: set[str]
    pages: SitePages

    def moved(self, link: str) -> str:
        """The link as the site has it."""
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:") or not path:
            return link
        target = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), path))
        place = self._place(target, link)
        here = posixpath.dirname(place_of(self.page))
        return posixpath.relpath(place, here or ".") + (f"#{anchor}" if anchor else "")

    def _place(self, target: str, link: str) -> str:
        index = posixpath.join(target, "README.md")
        if target in self.texts or index in self.texts:
            return place_of(target if target in self.texts else index)
        file = self.root / target
        if not file.is_file() or target.startswith(".."):
            raise SiteError(f"{self.page} links to {link}, which the site does not have")
        place = target.removeprefix("docs/")
        if file.suffix in _PICTURES:
            self.pages.files[place] = file
            return place
        if file.suffix == ".md":
            raise SiteError(f"{self.page} links to {link}, which docs/README.md does not list")
        self.pages.texts[f"{place}.md"] = _source_page(target, file)
        return f"{place}.md"


def _source_page(path: str, file: Path) -> str:
    text = file.read_text(encoding="utf-8").rstrip("\n")
    language = _LANGUAGES.get(file.suffix or file.name, "text")
    return f"# {path}\n\n````{language}\n{text}\n````\n"


def _page(text: str, moved: Callable[[str], str]) -> str:
    return "\n".join(_lines(_COMMENT.sub("", text).splitlines(), moved)) + "\n"


def _lines(lines: list[str], moved: Callable[[str], str]) -> Iterator[str]:
    """The page's lines: links moved outside code, and diagrams as tables, which need no script."""
    fence, diagram = "", []
    for line in lines:
        opened = _FENCE.match(line)
        if fence:
            closed = line.strip() == fence
            if diagram:
                diagram.append(line)
                yield from state_table(diagram) if closed else ()
            else:
                yield line
            fence, diagram = ("", []) if closed else (fence, diagram)
        elif opened:
            fence = opened[1]
            if opened[2] == "mermaid":
                diagram = [line]
            else:
                yield _plain_fence(line, opened[2])
        else:
            yield line if line.startswith("    ") else _moved(line, moved)


def _plain_fence(line: str, language: str) -> str:
    return f"{line}text" if not language else line


def _moved(line: str, moved: Callable[[str], str]) -> str:
    code = [found.span() for found in _CODE.finditer(line)]

    def link(found: re.Match[str]) -> str:
        inside = any(begin <= found.start() < end for begin, end in code)
        return found[0] if inside else moved(found[0])

    return _LINK.sub(link, line)
