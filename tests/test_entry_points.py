"""Entry points are found as importlib.metadata finds them."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path

import pytest

from penstock.entry_points import EntryPoint, entry_points

TEXT = """[console_scripts]
tool = tool.main:main

[penstock.systems]
# a comment = none
shop = shop.system:SYSTEM
office=shop.office:PARTS.system [extra]

[pytest11]
penstock.systems = no.such:group
"""


def distribution(folder: Path, name: str, text: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(text)


def test_the_installed_systems_are_those_that_importlib_finds() -> None:
    found = {(one.name, one.value) for one in entry_points("penstock.systems")}
    assert found == {(one.name, one.value) for one in importlib.metadata.entry_points(group="penstock.systems")}
    assert len(found) >= 5


def test_only_the_group_is_read_and_of_two_versions_the_first_counts(tmp_path: Path) -> None:
    distribution(tmp_path / "a", "shop", TEXT)
    distribution(tmp_path / "b", "Shop", "[penstock.systems]\nold = old:SYSTEM\n")
    distribution(tmp_path / "b", "other", "[penstock.systems]\nother = other:SYSTEM\n")
    (tmp_path / "b" / "broken-1.dist-info").mkdir()
    (tmp_path / "b" / "broken-1.dist-info" / "entry_points.txt").write_bytes(b"[penstock.systems]\n\xff = x:y\n")
    found = entry_points("penstock.systems", [str(tmp_path / "a"), str(tmp_path / "none"), str(tmp_path / "b")])
    assert [(one.name, one.value) for one in found] == [
        ("shop", "shop.system:SYSTEM"),
        ("office", "shop.office:PARTS.system [extra]"),
        ("other", "other:SYSTEM"),
    ]


def test_a_zip_file_on_the_path_is_read_too(tmp_path: Path) -> None:
    distribution(tmp_path / "a", "shop", TEXT)
    archive = tmp_path / "shop.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for one in (tmp_path / "a").rglob("*"):
            file.write(one, one.relative_to(tmp_path / "a"))
    assert [one.name for one in entry_points("penstock.systems", [str(archive)])] == ["shop", "office"]


@pytest.mark.parametrize("value", ["os.path:join", "os.path:join [extra]", "os:path.join"])
def test_an_entry_point_loads_what_it_names(value: str) -> None:
    import os

    assert EntryPoint("name", value).load() is os.path.join
