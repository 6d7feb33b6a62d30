"""DEFINITIONS: a system's name, a folder of exports, or module:attribute."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.registry import system_tables
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.definitions.export_file import ExportError, export_text
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.sources import LoadingError, load

MODULE = """
from penstock import Attr, attr, item
from penstock.tables.definitions.definition import Index, Table

companies = Table("companies", "companyId:S", indexes=[Index("by-email", "email:S")])
all = [companies, Table("jobs", "id:S")]
by_name = {"companies": companies}
twice = [companies, companies]
nothing = []
wrong = [companies, "jobs"]


def made():
    return all


def laid_out(layout="safe"):
    return [Table(layout, "id:S")]


class group:
    one = companies


@item("people")
class Person:
    id: Attr[str] = attr(key=True)


@item("shop")
class Customer:
    pk: Attr[str] = attr(key=True)


@item("shop")
class Order:
    pk: Attr[str] = attr(key=True)
    day: Attr[str] = attr(index="by-day")


models = [companies, Customer, Person, Order]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith("penstock"):  # a class of the second import is not that of the first
            del sys.modules[name]


@pytest.mark.parametrize(
    ("attribute", "names"),
    [
        ("companies", ["companies"]),
        ("all", ["companies", "jobs"]),
        ("by_name", ["companies"]),
        ("made", ["companies", "jobs"]),
        ("laid_out", ["compat"]),
        ("group.one", ["companies"]),
        ("Person", ["people"]),
        ("models", ["companies", "shop", "people"]),
    ],
)
def test_an_attribute_of_a_module(here: Path, attribute: str, names: list[str]) -> None:
    (here / "shop_tables.py").write_text(MODULE)
    found = load(f"shop_tables:{attribute}", system_tables(), layout="compat")
    assert [table.name for table in found.tables] == names
    assert found.prefix == ""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("shop_tables:missing", "shop_tables has no missing"),
        ("shop_tables.py", "a Python file is given as MODULE:NAME. Write, for example, shop_tables:all."),
        ("shop_tables:nothing", "there is no Table in it: it is empty"),
        ("shop_tables:wrong", "a Table was expected there, not str"),
        ("shop_tables:Table", "a Table was expected there, not the class Table"),
        ("no_such_module_here:x", "there is no module no_such_module_here"),
        ("broken_tables:x", "importing broken_tables fails: ZeroDivisionError: division by zero"),
        ("lacking_tables:x", "importing lacking_tables fails: No module named 'not_there_either'"),
        ("nowhere", "it is no system, no folder that exists, and no module:attribute"),
        ("", "it is no system, no folder"),
    ],
)
def test_what_leads_to_no_tables(here: Path, given: str, reason: str) -> None:
    (here / "shop_tables.py").write_text(MODULE)
    (here / "broken_tables.py").write_text("1 / 0")
    (here / "lacking_tables.py").write_text("import not_there_either")
    with pytest.raises(LoadingError) as caught:
        load(given, system_tables())
    assert reason in str(caught.value)
    assert caught.value.next_step


def test_a_definition_that_cannot_be_is_told_as_it_is(here: Path) -> None:
    (here / "bad_tables.py").write_text(
        'from penstock.tables.definitions.definition import Table\nx = Table("a b", "id")\n'
    )
    with pytest.raises(DefinitionError, match="2 problems"):
        load("bad_tables:x", system_tables())
    (here / "shop_tables.py").write_text(MODULE)
    with pytest.raises(DefinitionError, match="'companies': it is defined 2 times"):
        load("shop_tables:twice", system_tables())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "def all(): raise KeyError('x')",
            r"failing:all: calling it fails: KeyError: 'x' \(failing.py:1\). Mend the f",
        ),
        ("def all(): exit(3)", r"failing:all: calling it fails: SystemExit: 3 \(failing.py:1\). Mend the function."),
        ("\nall = (1 / 0 for _ in '1')", r"calling it fails: ZeroDivisionError: division by zero \(failing.py:2\)"),
        ("def all():\n    yield 1 / 0", "calling it fails: ZeroDivisionError"),
        ("def all(name): return []", "calling it fails: TypeError"),
        ("import sys; sys.exit(3)", r"failing calls sys.exit\(3\) when it is imported"),
    ],
)
def test_a_module_or_function_that_fails_is_an_error_of_one_line(here: Path, body: str, reason: str) -> None:
    (here / "failing.py").write_text(body)
    sys.modules.pop("failing", None)
    importlib.invalidate_caches()
    with pytest.raises(PenstockError, match=reason) as error:
        load("failing:all", {})
    assert "\n" not in str(error.value)


def test_a_folder_of_exports(here: Path) -> None:
    folder = here / "schemas"
    folder.mkdir()
    table = Table("whatever", "id:S", indexes=[Index("one", "a:S")], ttl="ttl")
    (folder / "jobs.json").write_text(export_text(table))
    (folder / "table-summary.txt").write_text("not read")
    assert load("schemas", system_tables()).tables == (table.replace(name="jobs"),)


def test_an_empty_folder_says_what_to_do_first(here: Path) -> None:
    (here / "schemas").mkdir()
    with pytest.raises(LoadingError, match=r"there is no \.json file in it. Run `penstock tables export` first"):
        load("schemas", system_tables())


def test_all_problems_of_a_folder_are_told_at_once(here: Path) -> None:
    good = export_text(Table("x", "id:S"))
    for name, text in (("half", good[:50]), ("odd", good.replace('"S"', '"Q"')), ("fine", good)):
        (here / f"{name}.json").write_text(text)
    with pytest.raises(DefinitionError) as caught:
        load(".", system_tables())
    places = sorted(one.located for one in caught.value.problems)
    assert len(places) == 2
    assert places[0].startswith("half.json:")
    assert places[1].startswith("odd.json:7: table 'odd': /Table/AttributeDefinitions/0/AttributeType is 'Q'")
    (here / "odd.json").unlink()
    with pytest.raises(ExportError, match=r"half\.json:\d+:\d+: it ends too early"):
        load(".", system_tables())


def test_variables_name_a_systems_tables() -> None:
    environment = {"USER_TABLE": "People", "RECORD_TABLE": ""}
    names = [table.name for table in load("account-records", system_tables(), variables=environment).tables]
    assert names == ["People", "Records"]
    (jobs,) = load("excel-reports", system_tables(), variables={"JOBS_TABLE": "my-jobs"}).tables
    assert jobs.name == "my-jobs"


def test_what_was_replaced_is_spelled_and_checked_as_in_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Table("replaced", "id:S")
    more = {
        "pitr": True,
        "tags": {"b": "2", "a": "1"},
        "indexes": [Index("by-b", "b:S"), Index("by-a", "a:S")],
        "resource_policy": {"Version": "2012-10-17", "Statement": [{"Effect": "Deny"}]},
        "ignore": ["billing"],
    }
    assert plain.replace(key=("id:S", "at:N"), **more) == Table("replaced", ("id:S", "at:N"), **more)  # type: ignore[arg-type]
    (tmp_path / "replaced_tables.py").write_text(
        "from penstock import Table\nall = [Table('replaced', 'id:S').replace(ttl=True, pitr=99)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DefinitionError, match="replaced_tables:all: table 'replaced': ttl is True"):
        load("replaced_tables:all", {})
