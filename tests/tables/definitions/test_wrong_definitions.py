"""Wrong definitions: each error is ours, and names the table, the member and the line."""

from __future__ import annotations

import copy
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.main import cli
from penstock.tables.definitions.definition import Index, Maximum, Table, Throughput
from penstock.tables.definitions.export_file import ExportError, export_form, read_export
from penstock.tables.definitions.problems import DefinitionError

WRONG = """from penstock.tables.definitions.definition import Index, Maximum, Table, Throughput, VectorIndex

all = [
    Table("logs", "id:S"),
    {definition},
]
"""


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ('Table("jobs", "id:S", ttl=True)', "table 'jobs': ttl is True. Use the name of an attribute"),
        ('Table("jobs", "id:S", indexes=["x"])', "table 'jobs': indexes is ('x',). Use a list of Index(…)"),
        (
            'Table("jobs", "id:S", indexes=[VectorIndex("near", "embedding", dimensions=4)])',
            "table 'jobs': indexes is (VectorIndex(n...jection='ALL'),). Use a list of Index(…), such as "
            '[Index("by-state", "state:S")]; a VectorIndex belongs to vector_indexes',
        ),
        ('Table("jobs", "id:S", tags=["a"])', "table 'jobs': tags is ['a']. Use a mapping"),
        ('Table("jobs")', 'table \'jobs\': key is missing. Write Table("jobs", "id:S")'),
        ('Table(key="id:S")', "table: name is missing"),
        ('Table("jobs", "id:S", indexs=[])', "table 'jobs': 'indexs' is no member of a Table. Did you mean 'indexes'"),
        ('Table("jobs", "id:S", zzz=1)', "table 'jobs': 'zzz' is no member of a Table. It may have name, key, indexes"),
        ('Table("jobs", "id:S", [])', "table 'jobs': it has 3 values without a name, and takes 2 (name, key)"),
        ('Table("jobs", "id:S", key="id:S")', "table 'jobs': key is given twice"),
        ('Table("jobs", "id:S", deletion_protection="no")', "table 'jobs': deletion_protection is 'no'. Use True"),
        ('Table("jobs", "id:S", sse="AES256")', "table 'jobs': sse is 'AES256', which is the name of a method"),
        ('Table("jobs", "id:S", billing=Throughput(5))', "Throughput: write is missing"),
        ('Table("jobs", "id:S", on_demand_max=Maximum(reads=5))', "Maximum: 'reads' is no member of a Maximum"),
        ('Table("jobs", "id:S", on_demand_max=Maximum(True))', "table 'jobs': on_demand_max is Maximum(read=True"),
        ('Table("jobs", "id:S", indexes=[Index()])', "index: name is missing"),
        ('Table("jobs", "id:S", indexes=[Index(["x"], "x:S")])', "table 'jobs', index ['x']: name is ['x']"),
        ('Table("jobs", "id:S", indexes=[Index("by-x", hsh="x:S")])', "index 'by-x': 'hsh' is no member of an Index"),
        (
            'Table("jobs", "\\ud800:S")',
            "table 'jobs': the name of a key attribute ('\\ud800') has half of a surrogate pair",
        ),
        ('Table("jobs", "id:S", ignore=[["billing"]])', "table 'jobs': ignore is (['billing'],)"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_a_wrong_definition_names_table_member_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, definition: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "wrong", raising=False)
    (tmp_path / "wrong.py").write_text(WRONG.format(definition=definition))
    result = CliRunner().invoke(cli, ["tables", command, "wrong:all", "--db", "tables.db"])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), "no traceback"
    assert f"wrong.py:5: {told}" in result.output
    assert not (tmp_path / "tables.db").exists()


def test_the_line_is_that_of_the_one_who_calls() -> None:
    here = inspect.currentframe()
    assert here is not None
    with pytest.raises(DefinitionError) as caught:
        line = here.f_lineno; Table("jobs", "id")  # noqa: E702  # fmt: skip
    (problem,) = caught.value.problems
    assert problem.source.endswith(f"test_wrong_definitions.py:{line}")


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────

FULL = Table(
    "jobs",
    ("id:S", "at:N"),
    indexes=[
        Index("by-at", "id:S", "x:S", local=True),
        Index("by-state", "state:S", projection=["a"], on_demand_max=Maximum(5, 6), warm=Throughput(13_000, 5_000)),
    ],
    ttl="expires",
    stream="NEW_IMAGE",
    pitr=7,
    tags={"team": "billing"},
    on_demand_max=Maximum(7, 8),
    warm=Throughput(14_000, 5_000),
    table_class="STANDARD",
    deletion_protection=True,
    sse=True,
    ignore=["billing"],
)
FORM = export_form(FULL, warm=True)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"DeletionProtectionEnabled": true', '"DeletionProtectionEnabled": "no"', "is 'no', and not true or false"),
        ('"TimeToLiveStatus": "ENABLED"', '"TimeToLiveStatus": "ON"', "is 'ON', and not one of DISABLED, DISABLING"),
        ('"BillingMode": "PAY_PER_REQUEST"', '"BillingMode": "ondemand"', "and not one of PAY_PER_REQUEST, PROV"),
        ('"KeyType": "RANGE"', '"KeyType": "SORT"', "/Table/KeySchema/1/KeyType is 'SORT'"),
        ('"StreamEnabled": true', '"StreamEnabled": "no"', "/Table/StreamSpecification/StreamEnabled is 'no'"),
        ('"Key": "team"', '"Key": null', "/Tags/0/Key is null, and not a text"),
    ],
)
def test_a_wrong_value_in_json_is_told_with_its_line(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = json.dumps(FORM, indent=2)
    assert old in text
    number = text[: text.index(old)].count("\n") + 1
    changed = text.replace(old, new, 1)
    with pytest.raises(ExportError) as caught:
        read_export(changed, "jobs.json")
    assert str(caught.value).startswith(f"jobs.json:{number}: table 'jobs': ") and told in str(caught.value)
    file = tmp_path / "several.json"
    file.write_text(f"[{json.dumps(FORM)},\n{changed}]")
    result = CliRunner().invoke(cli, ["tables", "doctor", str(file)])
    assert result.exit_code == 1 and f"several.json:{number + 1}: table 'jobs': " in result.output


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 40)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(["id:S", "AES256", "no", "ALL", "\ud800:S"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
OBJECTS = VALUES | st.binary(max_size=2) | st.tuples(VALUES) | st.builds(object) | st.sampled_from([Table, len, Index])
TABLE_MEMBERS = list(inspect.signature(Table).parameters)
INDEX_MEMBERS = list(inspect.signature(Index).parameters)


@given(member=st.sampled_from(TABLE_MEMBERS), value=OBJECTS)
def test_any_value_of_any_member_of_a_table_is_taken_or_refused_as_ours(member: str, value: Any) -> None:
    members: dict[str, Any] = {"name": "jobs", "key": "id:S", "indexes": [Index("by-x", "x:S")]}
    try:
        table = Table(**(members | {member: value}))
    except DefinitionError as error:
        assert all(one.source and one.mend for one in error.problems)
    else:
        json.dumps(export_form(table))  # what is taken can be written


@given(
    member=st.sampled_from(INDEX_MEMBERS), value=OBJECTS, billing=st.sampled_from(["on-demand", Throughput(1, 1), 5])
)
def test_any_value_of_any_member_of_an_index_is_taken_or_refused_as_ours(member: str, value: Any, billing: Any) -> None:
    members: dict[str, Any] = {"name": "by-x", "hash": "x:S"}
    try:
        json.dumps(export_form(Table("jobs", "id:S", indexes=[Index(**(members | {member: value}))], billing=billing)))
    except DefinitionError as error:
        assert all(one.source and one.mend for one in error.problems)


@given(kind=st.sampled_from([Throughput, Maximum]), values=st.lists(OBJECTS, max_size=3), place=st.integers(0, 2))
def test_any_capacity_is_taken_or_refused_as_ours(kind: Any, values: list[Any], place: int) -> None:
    member = ("billing", "on_demand_max", "warm")[place]
    try:
        Table("jobs", "id:S", **{member: kind(*values)})
    except DefinitionError as error:
        assert all(one.source and one.mend for one in error.problems)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, one in inner for place in _places(one, (*path, name)))]


@given(place=st.sampled_from(_places(FORM)), value=VALUES, missing=st.booleans())
def test_any_value_at_any_place_of_json_is_taken_or_refused_as_ours(
    place: tuple[Any, ...], value: Any, missing: bool
) -> None:
    root = {"": copy.deepcopy(FORM)}
    holder: Any = root
    for name in ("", *place)[:-1]:
        holder = holder[name]
    last = ("", *place)[-1]
    if missing:
        holder.pop(last)
    else:
        holder[last] = value
    text = json.dumps(root.get(""))
    try:
        read_export(text, "jobs.json")
    except (ExportError, DefinitionError) as error:
        assert "jobs.json" in str(error)
