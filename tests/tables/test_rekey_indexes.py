"""The new table of a rekey: local indexes added, dropped and changed; and the command that plan advises."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from rekey_world import NEW_KEY, comment, filled_world
from table_strategies import tables

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import Index, Table, Throughput, VectorIndex
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import require_table
from penstock.tables.rekey.new_table import TableOptions, index_changes, new_definition, option_words, options_for

LOCAL = Table(
    "old",
    key=("a:S", "b:S"),
    indexes=[
        Index("by-c", "a:S", "c:S", local=True, projection=["x", "y"]),
        Index("by-d", "d:S", projection="KEYS_ONLY"),
    ],
)


def texts(options: TableOptions, old: Table = LOCAL) -> list[str]:
    return [str(one) for one in index_changes(old, new_definition(old, "new", options))]


# ── the definition ───────────────────────────────────────────────────────────────────────────────


def test_vector_indexes_are_kept_or_dropped_and_told() -> None:
    near = [VectorIndex("near", "v", dimensions=4), VectorIndex("other", "w", dimensions=8, distance="euclidean")]
    old = LOCAL.replace(vector_indexes=near)
    kept = TableOptions(key="b:S", drop_indexes=("other",))
    assert new_definition(old, "new", kept).vector_indexes == (near[0],)
    assert texts(kept, old)[-2:] == [
        "= vector index near (v, 4 dimensions, cosine)",
        "- vector index other (w, 8 dimensions, euclidean)",
    ]
    assert {one.form["action"] for one in index_changes(old, new_definition(old, "new", kept))} >= {"keep", "drop"}


def test_local_indexes_are_added_dropped_and_changed_and_the_rest_is_kept() -> None:
    assert texts(TableOptions(local_indexes=("by-e=e:N/KEYS_ONLY",))) == [
        "= local index by-c (a, c), projection x, y",
        "= index by-d (d), projection KEYS_ONLY",
        "+ local index by-e (a, e), projection KEYS_ONLY",
    ]
    assert texts(TableOptions(drop_indexes=("by-c",)))[0] == "- local index by-c"
    assert texts(TableOptions(local_indexes=("by-c=e:N/p,q",)))[0] == (
        "~ local index by-c: key (a, c) → (a, e); projection x, y → p, q"
    )
    assert texts(TableOptions(local_indexes=("by-d=e:N",)))[1] == "~ local index by-d: global → local; key (d) → (a, e)"


@pytest.mark.parametrize(
    "options",
    [
        TableOptions(local_indexes=("by-c=e:N",)),
        TableOptions(indexes=("by-c=c:S,b:S",)),
        TableOptions(key="z:S,b:S"),
        TableOptions(key="z:S,b:S", local_indexes=("by-c=c:S",)),
    ],
)
def test_an_index_of_the_same_name_keeps_its_projection_unless_told(options: TableOptions) -> None:
    index = new_definition(LOCAL, "new", options).index("by-c")
    assert index is not None
    assert index.projection == ("x", "y")


def test_an_index_with_another_key_keeps_its_capacity_and_the_table_its_settings() -> None:
    units, own = Throughput(7, 7), Throughput(3, 3)
    old = Table(
        "old", "a:S", billing=units, indexes=[Index("by-d", "d:S", throughput=own)], ttl="ends", ignore=["billing"]
    )
    new = new_definition(old, "new", TableOptions(indexes=("by-d=e:S+f:N,g:B", "by-h=h:S")))
    changed, added = new.indexes
    assert ([str(one) for one in changed.key.hash], changed.throughput) == (["e:S", "f:N"], own)
    assert added.throughput == units
    assert (new.ttl, new.billing, new.ignore) == ("ends", units, ("billing",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TableOptions(key="a"), "'a' has no type"),
        (TableOptions(local_indexes=("by-e=e",)), r"write NAME=SORT:T\[/PROJECTION\]"),
        (TableOptions(local_indexes=("by-e=e:N,f:N",)), "partition key .a:S. and one sort key"),
        (TableOptions(indexes=("by-e=e:N/keys_only",)), "KEYS_ONLY in capitals"),
        (TableOptions(drop_indexes=("nope",)), "old has no such index; it has by-c, by-d"),
        (TableOptions(drop_indexes=("by-c",), local_indexes=("by-c=e:N",)), "by-c is named twice"),
        (TableOptions(key="a:S"), "by-c"),
        (TableOptions(indexes=("by-e=a:N",)), "attribute 'a'|a is"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: TableOptions, message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        new_definition(LOCAL, "new", options)


@given(tables(), tables())
@settings(max_examples=60, deadline=None)
def test_what_plan_advises_gives_the_key_and_the_indexes_that_are_wanted(live: Table, wanted: Table) -> None:
    options = options_for(live, wanted)
    try:
        new = new_definition(live, "new", options)
    except PenstockError:
        return  # a kept global index has an attribute of another type: the command says so
    assert new.key == wanted.key
    assert {one.name: one.shape for one in new.local_indexes} == {one.name: one.shape for one in wanted.local_indexes}
    for index in wanted.indexes:
        found = new.index(index.name)
        assert found is not None
        assert found.shape == index.shape
    assert "ReplaceTable" not in {type(one).__name__ for one in diff(new, wanted)}


def test_options_and_words_say_the_same() -> None:
    options = TableOptions("a:S", ("by-x=x:S",), ("by-y=y:N/p,q",), ("by-z",))
    assert shlex.join(option_words(options)) == (
        "--key a:S --index by-x=x:S --local-index by-y=y:N/p,q --drop-index by-z"
    )


# ── the command ──────────────────────────────────────────────────────────────────────────────────

MODULE = """
from rekey_world import OLD
from penstock.tables.definitions.definition import Index

BY_TEXT = Index("by-text", "conversation_id:S", "text:S", local=True, projection="KEYS_ONLY")
other_index = [OLD.replace(indexes=[*OLD.indexes, BY_TEXT])]
without = [OLD.replace(indexes=[OLD.indexes[0]])]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PENSTOCK_ACTOR", "ada@laptop")
    Path("advised.py").write_text(MODULE)


def penstock(*words: str, code: int = 0) -> Result:
    told = CliRunner().invoke(cli, ["tables", *words])
    assert told.exit_code == code, told.output
    return told


@pytest.mark.parametrize("definition", ["other_index", "without"])
def test_the_command_that_plan_prints_leads_to_the_table_that_is_defined(definition: str) -> None:
    filled_world("a.db", count=40).close()
    plan = ("plan", f"advised:{definition}", "--prefix", "", "--db", "a.db")
    told = penstock(*plan).output
    line = next(one.strip() for one in told.splitlines() if one.strip().startswith("penstock tables rekey"))
    assert json.loads(penstock(*plan, "--json").output)["rekey"] == {"old": line}
    words = shlex.split(line)[2:]
    dry = penstock(*words, "--dry-run").output
    assert ("- local index by-time" if definition == "without" else "+ local index by-text") in dry
    told = penstock(*words).output
    confirm = next(one for one in told.splitlines() if "rekey confirm" in one).partition("penstock ")[2]
    assert "--db a.db" in confirm
    penstock(*shlex.split(confirm)[1:])
    with connect("a.db") as db:
        found = require_table(db, "old-2").table
        projections = {one.name: one.projection for one in found.local_indexes}
        assert projections == ({} if definition == "without" else {"by-text": "KEYS_ONLY", "by-time": "ALL"})


@pytest.mark.parametrize(
    "other",
    [
        ("--key", "author:S,comment_id:N"),
        ("--into", "third"),
        ("--index", "by-x=x:S"),
        ("--local-index", "by-text=text:S/KEYS_ONLY"),
        ("--drop-index", "by-time"),
    ],
)
def test_a_rekey_that_has_begun_refuses_other_options(other: tuple[str, ...]) -> None:
    filled_world("a.db", count=20).close()
    begun = ("rekey", "old", "--into", "new", "--local-index", "by-text=text:S", "--db", "a.db")
    penstock(*begun)
    told = penstock("rekey", "old", *other, "--db", "a.db", "--rate", "500", code=1).output
    assert f"other options for {other[0]}: --into new --key conversation_id:S,comment_id:N" in told
    assert "`penstock tables rekey old --rate 500 --db a.db`" in told
    penstock(*begun)  # the same ones continue it
    penstock("rekey", "old", "--key", " conversation_id:S, comment_id:N".strip(), "--db", "a.db")


def test_an_option_that_an_action_does_not_use_is_refused() -> None:
    filled_world("a.db", count=1).close()
    told = penstock("rekey", "confirm", "old", "--key", "x:S", "--db", "a.db", code=2)
    assert "--key is an option of `rekey TABLE`, not of `rekey confirm`." in told.output


def test_without_a_rekey_and_before_it_is_ready_the_exit_code_says_so() -> None:
    filled_world("a.db", count=20).close()
    penstock("rekey", "status", "old", "--db", "a.db", code=4)
    with connect("a.db") as db:
        broken = {name: value for name, value in comment(7).items() if name != "job_id"}
        db.execute("PutItem", {"TableName": "old", "Item": broken})
    told = penstock("rekey", "old", "--key", NEW_KEY, "--into", "new", "--db", "a.db", "--json", code=1)
    document = json.loads(told.stdout)
    assert (document["phase"], document["problem_count"]) == ("following", 1)
    assert document["next"]["continue"] == "penstock tables rekey old --db a.db"
    error = json.loads(told.stderr.splitlines()[-1])["error"]
    assert error["next"] == "penstock tables rekey old --db a.db"
    assert error["details"]["problems"][0]["key"]["comment_id"] == {"N": "7"}
    told = penstock("rekey", "confirm", "old", "--db", "a.db", "--json", code=5)
    assert json.loads(told.stderr.splitlines()[-1])["error"]["kind"] == "NotReady"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--key", NEW_KEY), ""),
        (("--key", "none:S"), "40 of 40 items that were looked at cannot be moved:\n  !   conversation_id="),
        (("--key", "job_id:S"), "22 of 40 items that were looked at have a new key that another one has too"),
        (
            ("--index", "by-text=text:N"),
            "40 of 40 items that were looked at cannot be moved: index by-text refuses them: "
            "text should be N, and is S in 40",
        ),
    ],
)
def test_a_dry_run_looks_at_the_items_as_adding_an_index_does(asked: tuple[str, ...], told: str) -> None:
    filled_world("a.db", count=40).close()
    words = ("rekey", "old", "--into", "new", *asked, "--db", "a.db", "--dry-run")
    shown = penstock(*words).output
    items = json.loads(penstock(*words, "--json").output)["items"]
    assert items["looked_at"] == 40
    assert told in shown
    assert (" ! " in shown) == bool(told)
    assert bool(items["cannot_be_moved"] or items["with_the_same_key"] or items["index_misfits"]) == bool(told)


def test_a_definition_that_options_make_wrong_is_told_without_a_line_of_penstock() -> None:
    filled_world("a.db", count=1).close()
    told = penstock("rekey", "old", "--into", "new", "--index", "by-at=at:S", "--db", "a.db", "--dry-run", code=1)
    assert told.output.startswith("Error: table 'new': attribute 'at' is S in index by-at and N in index by-time.")
