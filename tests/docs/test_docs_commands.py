"""Every command that the documentation shows is one that there is, with the options that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_blocks import blocks_of, name_of, pages
from shown_commands import faults_of, is_module, modules, named_commands, shown_lines

PAGES = [page for page in pages() if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_its_commands_are_there(page: Path) -> None:
    text = page.read_text()
    faults = [fault for line in shown_lines(text, blocks_of(text)) for fault in faults_of(line, whole=True)]
    faults += [fault for line in named_commands(text) for fault in faults_of(line, whole=False)]
    faults += [f"there is no module {name}" for name in modules(text) if not is_module(name)]
    assert faults == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("penstock jobs whhy j1", "penstock jobs has no command whhy"),
        ("penstock worker reports:app --concurency 4", "penstock worker: No such option"),
        ("penstock worker", "penstock worker wants"),
        ("penstock jobs why j1 j2 --db x.db", "penstock jobs why does not take"),
        ("penstock serve --sync never", "'never' is none of normal, full"),
        ("A=1 penstock serve --memory & penstock heat --depth 4", "penstock heat: No such option"),
    ],
)
def test_a_command_that_is_not_taken_is_found(line: str, fault: str) -> None:
    (found,) = faults_of(line, whole=True)
    assert found.startswith(fault) or fault in found
