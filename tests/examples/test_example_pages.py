"""What docs/in-your-program.md shows of the examples is what stands in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from example_programs import EXAMPLES

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))

from doc_blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "in-your-program.md"
SHOWN = [
    block
    for block in blocks_of(PAGE.read_text())
    if block.says.get("run by") == f"tests/examples/{Path(__file__).name}"
]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"line {block.line}")
def test_a_block_of_the_page_is_part_of_an_example(block: object) -> None:
    text = block.text.strip("\n")  # type: ignore[attr-defined]
    assert [file for file in EXAMPLES.rglob("*.py") if text in file.read_text()] != []


def test_the_page_shows_examples() -> None:
    assert len(SHOWN) > 5


def test_the_readme_lists_every_example() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [folder.name for folder in EXAMPLES.iterdir() if folder.is_dir() and f"({folder.name}/" not in listed] == []
