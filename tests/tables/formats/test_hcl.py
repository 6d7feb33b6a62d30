"""HCL: what is written is read again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tables.definitions.export_file import ExportError
from penstock.tables.formats.terraform import Block, HclError, Reference, parse, read_template, render

names = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True).filter(lambda name: name not in ("true", "false"))
texts = st.text(st.characters(exclude_categories=("Cs", "Cc"))) | st.text('a"\\${}%\n\r\t#/*', max_size=8)
scalars = texts | st.integers(-(10**12), 10**12) | st.booleans() | names.map(lambda one: Reference(f"data.{one}.arn"))
values: Any = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=3)


def blocks(depth: int) -> st.SearchStrategy[Block]:
    inner: st.SearchStrategy[list[Block]] = st.lists(blocks(depth - 1), max_size=2) if depth else st.just([])
    labels = st.lists(texts, max_size=2).map(tuple)
    return st.builds(Block, names, labels, st.dictionaries(names, values, max_size=3), inner)


@given(st.lists(blocks(2), min_size=1, max_size=3))
def test_what_is_written_is_read_again(several: list[Block]) -> None:
    assert parse(render(Block(blocks=several))) == Block(blocks=several)


@given(st.text('a"\\${}[]=%\n#/*,1-.', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except HclError as error:
        assert 1 <= error.line <= text.count("\n") + 1


def test_a_mistake_has_its_line() -> None:
    with pytest.raises(HclError, match=r"line 2: '=' where \{ was expected"):
        parse('\nresource "x" = 5')


def test_a_list_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(ExportError, match=r"tables\.tf: it is nested too deep"):
        read_template("a = " + "[" * 100_000)
