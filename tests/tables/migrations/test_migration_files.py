"""The files of migrations: their order, what is wrong with one, and a new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.tables.migrations.migration import BadMigration, find, load_folder, write_new

GOOD = 'table = "users"\n\n\ndef up(item):\n    return item\n'


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("0010_c", "0002_b", "1_a"):
        (tmp_path / f"{name}.py").write_text(GOOD)
    (tmp_path / "_shared.py").write_text("raise ValueError")
    found = load_folder(tmp_path)
    assert [one.id for one in found] == ["1_a", "0002_b", "0010_c"]
    assert find(found, "2").id == find(found, "0002").id == find(found, "0002_b").id == "0002_b"
    with pytest.raises(BadMigration, match=r"no migration 7\. The last ones are: 1_a, 0002_b"):
        find(found, "7")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def up(item): return item", "it names no table"),
        ('table = "users"', r"no function up\(item\)"),
        ('table = "users"\nwhere = 5\ndef up(item): return item', r"where is a condition, .* not 5"),
        ('table = "users"\nversion = 5\ndef up(item): return item', "version is the name of an attribute"),
        ('table = "users"\ndown = 5\ndef up(item): return item', "down is a function"),
        ('table = "users"\nWhere = None\ndef up(item): return item', "Where is written where"),
        ('table = "users"\nx = (', "line 2: "),
        ('table = "users"\n\nx = 1 / 0', "line 3: ZeroDivisionError"),
        ("import sys\nsys.exit(3)", r"calls sys.exit\(3\)"),
    ],
)
def test_a_wrong_file_is_named_with_the_member_or_the_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "0001_a.py").write_text(text)
    with pytest.raises(BadMigration, match=told) as error:
        load_folder(tmp_path)
    assert "0001_a.py" in str(error.value)


def test_names_without_a_number_and_numbers_twice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "0001_a.py").write_text(GOOD)
    (tmp_path / "001_b.py").write_text(GOOD)
    with pytest.raises(BadMigration, match="the same number"):
        load_folder(tmp_path)
    (tmp_path / "001_b.py").rename(tmp_path / "helpers.py")
    with pytest.raises(BadMigration, match="is named NUMBER_what_it_does"):
        load_folder(tmp_path)
    with pytest.raises(BadMigration, match="no folder"):
        load_folder(tmp_path / "nowhere")


def test_the_checksum_is_of_the_text_whatever_its_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "0001_a.py"
    sums = []
    for text in (GOOD, GOOD.replace("\n", "\r\n"), GOOD + "# more\n"):
        path.write_bytes(text.encode())
        sums.append(load_folder(tmp_path)[0].checksum)
    assert sums[0] == sums[1] != sums[2]


def test_a_new_file_has_the_next_number_and_can_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    assert write_new(folder, "Split name!", "users").name == "0001_split_name.py"
    assert write_new(folder, "drop_old", "users").name == "0002_drop_old.py"
    first = load_folder(folder)[0]
    assert first.table == "users"
    assert first.up({"id": "1", "name": "Ada"}) == {"id": "1", "full_name": "Ada"}
    with pytest.raises(BadMigration, match="letters and digits"):
        write_new(folder, "…", "users")
