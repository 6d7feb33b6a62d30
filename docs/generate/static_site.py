"""`python docs/generate --site`: the documentation as a static site, built by Zensical.

docs/decisions/0090-the-site.md says why by Zensical.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from contents import Entry, Section
from site_check import faults
from site_pages import CONTENTS, DECISIONS, HOME, SiteError, SitePages, place_of

_SETTINGS = Path(__file__).parent / "site.toml"
_THEME = Path(__file__).parent / "theme"
_STYLE = Path(__file__).parent / "site.css"

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

MISSING = "The site is built by Zensical: pip install -e '.[docs]'"


def is_possible() -> bool:
    return find_spec("zensical") is not None


def navigation(sections: list[Section]) -> list[dict[str, object]]:
    """The contents as the site's tool takes them: a tab for each section, a group for each heading in it."""
    tabs: list[dict[str, object]] = [{"Home": place_of(HOME)}]
    for section in sections:
        inside: list[dict[str, object]] = []
        for group in section.groups:
            entries = [_item(entry) for entry in group.entries]
            if any(entry.path.startswith("docs/decisions/") for entry in group.entries):
                entries.insert(0, {"All decisions": place_of(DECISIONS)})
            inside += [{group.title: entries}] if group.title else entries
        tabs.append({section.title: inside})
    tabs.append({"All pages": place_of(CONTENTS)})
    return tabs


def _item(entry: Entry) -> dict[str, object]:
    return {entry.title.replace("`", ""): place_of(entry.path)}


def build_site(pages: SitePages, sections: list[Section], target: Path) -> int:
    """Builds the site in `target`, in place of what was there. Raises SiteError, and leaves the old one."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write(pages, work / "pages")
        shutil.copytree(_THEME, work / "theme")
        settings = _SETTINGS.read_text(encoding="utf-8")
        added = f'[project]\ndocs_dir = "pages"\nsite_dir = "site"\nnav = {_toml(navigation(sections))}\n'
        (work / "zensical.toml").write_text(settings.replace("[project]\n", added, 1), encoding="utf-8")
        _run(work)
        wrong = faults(work / "site")
        missing = [place for place in pages.texts if not built(work / "site", place).is_file()]
        if wrong or missing:
            raise SiteError("\n".join([*wrong, *(f"{place} was not built" for place in missing)]))
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(work / "site", target)
    return len(pages.texts)


def _write(pages: SitePages, folder: Path) -> None:
    for place, text in pages.texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    for place, file in pages.files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / place)
    shutil.copyfile(_STYLE, folder / _STYLE.name)


def _run(work: Path) -> None:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "zensical.toml"]
    ran = subprocess.run(  # noqa: S603  a module of this environment, with no argument from outside
        command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ran.returncode:
        said, _, trace = _COLOUR.sub("", ran.stdout).partition("Traceback ")
        raise SiteError(said.rstrip() or trace)


def built(site: Path, place: str) -> Path:
    """Where a page is in the built site: each in a folder of its own."""
    path = site / place
    return path.with_suffix(".html") if path.name == "index.md" else path.with_suffix("") / "index.html"


def _toml(value: object) -> str:
    """A list or table of texts as TOML: JSON's texts are TOML's, and tables have `=`."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
