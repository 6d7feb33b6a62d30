"""`penstock delphi`, `penstock tables … delphi`, the demo, and the seed's own snippets (S3.9, S3.11)."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import delphi_world as world
import pytest
from click.testing import CliRunner, Result

import penstock
from penstock.cli.main import cli
from penstock.extras import ExtraMissing
from penstock.systems.delphi.analysis import libraries
from penstock.systems.delphi.tables import RANGES

ALL = sorted([*RANGES, "Delphi_JobQueue"])


def run(*arguments: str, **environment: str) -> Result:
    clean = {"DELPHI_JOB_ID": None, "DELPHI_REPORT_ID": None, "PENSTOCK_DB": None, "PENSTOCK_FILES": None}
    return CliRunner().invoke(cli, [*arguments], env={**clean, **environment})


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with one run, made by the command."""
    pytest.importorskip("wordllama", reason="needs the extra: pip install 'penstock[delphi]'")
    folder = tmp_path_factory.mktemp("commands")
    ended = run(
        *("delphi", "run", str(world.SAMPLE), "--db", str(folder / "delphi.db"), "--out", str(folder / "out")),
        *("--conversation", "town"),
        DELPHI_JOB_ID="from_outside",
    )
    assert ended.exit_code == 0, ended.output
    assert "87 comments (1 blank, 2 moderated, 1 duplicate left out)" in ended.output
    assert "items in seven tables, job from_outside" in ended.output
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["map.png", "map.svg", "topics.json"]
    return str(folder / "delphi.db")


def test_S3_6_a_run_goes_on_with_the_job_of_the_environment(database: str):
    again = run(
        "delphi",
        "run",
        str(world.SAMPLE.parent),
        "--db",
        database,
        "--conversation",
        "town",
        "--json",
        "--job-id",
        "from_outside",
    )
    assert again.exit_code == 0, again.output
    form = json.loads(again.stdout)
    assert form["job_id"] == "from_outside"
    assert form["ran"] == []
    assert form["items"]["Delphi_CommentEmbeddings"] == 87


def test_S3_12_topics_and_runs_are_shown(database: str):
    shown = run("delphi", "topics", "town", "--db", database, "--layer", "0", "--samples")
    assert "layer 0:" in shown.output
    assert "School lunch" in shown.output
    forms = json.loads(run("delphi", "topics", "--db", database, "--json").stdout)
    assert {form["layer"] for form in forms} == {0, 1}
    listed = run("delphi", "runs", "--db", database)
    assert "from_outside  town  87 comments" in listed.output
    nothing = run("delphi", "topics", "nowhere", "--db", database)
    assert nothing.exit_code == 4
    assert "no complete run of the conversation 'nowhere'" in nothing.output


def test_S3_12_another_namer_names_the_topics(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "shouting_model.py").write_text(
        "class Namer:\n"
        "    model_name = 'shouting-1'\n"
        "    def name(self, topic, comments):\n"
        "        return comments[0].upper()\n"
        "nothing = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    few = tmp_path / "few.csv"
    few.write_text("comment-id,comment-body\n5,one thing\n")
    url = str(tmp_path / "named.db")
    ended = run("delphi", "run", str(few), "--db", url, "--namer", "shouting_model:Namer", "--json", "--job-id", "j")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["topics"][0]["name"] == "ONE THING"
    with penstock.connect(url) as db:
        [item] = db.table("Delphi_CommentClustersLLMTopicNames").query(job_id="j")
        assert (item["topic_name"], item["model_name"]) == ("ONE THING", "shouting-1")
    refused = run("delphi", "run", str(few), "--db", url, "--namer", "shouting_model:nothing")
    assert refused.exit_code == 1
    assert "is no namer: it needs `model_name`" in refused.output


def test_a_file_that_is_no_export_ends_with_what_to_do(tmp_path: Path):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    ended = run("delphi", "run", str(wrong), "--db", str(tmp_path / "d.db"))
    assert ended.exit_code == 1
    assert "no column comment-id and no column comment-body. Its columns: a, b." in ended.output


def test_commands_that_only_look_make_no_database(tmp_path: Path):
    for command in ("topics", "runs", "jobs"):
        ended = run("delphi", command, "--db", str(tmp_path / "none.db"))
        assert ended.exit_code == 1
        assert "there is no such database" in ended.output
    assert not (tmp_path / "none.db").exists()


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    ended = run("delphi", "run", str(world.SAMPLE), "--db", str(tmp_path / "d.db"))
    assert ended.exit_code == 1
    assert "pip install 'penstock[delphi]'" in ended.output
    assert not (tmp_path / "d.db").exists()


def test_minilm_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ExtraMissing, match="pip install sentence-transformers"):
        libraries.library("sentence_transformers")
    ended = run("delphi", "run", str(world.SAMPLE), "--db", str(tmp_path / "d.db"), "--embedder", "minilm")
    assert ended.exit_code == 1
    assert "Delphi needs sentence_transformers" in ended.output
    assert not (tmp_path / "d.db").exists()


def test_a_run_imports_nothing_that_would_compile_itself(tmp_path: Path):
    """The first command of the README ran half a minute longer on each new machine."""
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli.main import cli\n"
        f"words = ['delphi', 'run', {str(world.SAMPLE)!r}, '--db', {str(tmp_path / 'd.db')!r}]\n"
        "assert CliRunner().invoke(cli, words).exit_code == 0\n"
        "print([name for name in ('numba', 'umap', 'pynndescent', 'evoc') if name in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120)
    assert ended.stdout.strip() == "[]"


def test_no_command_of_delphi_imports_a_heavy_library_to_show_its_help():
    code = (
        "import sys; from click.testing import CliRunner; from penstock.cli.main import cli\n"
        "for name in ('run', 'topics', 'poller', 'enqueue'):\n"
        "    assert CliRunner().invoke(cli, ['delphi', name, '--help']).exit_code == 0\n"
        "print([name for name in ('numpy', 'sklearn', 'evoc', 'matplotlib', 'numba') if name in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120)
    assert ended.stdout.strip() == "[]"


# ── tables: recreate and verify ──────────────────────────────────────────────────────────────────


def test_S3_9_recreating_deletes_exactly_delphis_tables_and_makes_them_again(tmp_path: Path):
    url = str(tmp_path / "d.db")
    assert run("tables", "apply", "delphi", "--db", url, "--yes").exit_code == 0
    with penstock.connect(url) as db:
        db.execute(
            "CreateTable",
            {
                "TableName": "Delphi_of_somebody_else",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
    refused = run("tables", "destroy", "delphi", "--db", url)
    assert refused.exit_code == 2
    destroyed = run("tables", "destroy", "delphi", "--db", url, "--yes", "--allow-destroy")
    assert destroyed.exit_code == 0, destroyed.output
    with penstock.connect(url) as db:
        assert db.tables() == ["Delphi_of_somebody_else", "penstock-state"]
    assert run("tables", "apply", "delphi", "--db", url, "--yes").exit_code == 0
    with penstock.connect(url) as db:
        assert sorted(db.tables()) == sorted([*ALL, "Delphi_of_somebody_else", "penstock-state"])


def test_S3_11_verify_compares_keys_and_indexes_and_ends_with_7_on_a_difference(tmp_path: Path):
    url = str(tmp_path / "d.db")
    run("tables", "apply", "delphi", "--db", url, "--yes")
    same = run("tables", "verify", "delphi", "--db", url)
    assert same.exit_code == 0, same.output
    with penstock.connect(url) as db:
        db.execute(
            "UpdateTable",
            {
                "TableName": "Delphi_UMAPGraph",
                "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "ConversationIdIndex"}}],
            },
        )
    different = run("tables", "verify", "delphi", "--db", url)
    assert different.exit_code == 7
    assert "Delphi_UMAPGraph" in different.output


# ── the seed's own code, with endpoint_url at our server ─────────────────────────────────────────


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """`penstock serve` on a file, with Delphi's tables."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = str(tmp_path / "served.db")
    assert run("tables", "apply", "delphi", "--db", url, "--yes").exit_code == 0
    command = [sys.executable, "-m", "penstock", "serve", "--port", str(port), "--db", url]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if str(port) in line:
                break
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.clients
def test_S3_9_and_S3_11_the_seeds_verification_and_deletion_run_against_our_server(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    client = boto3.client("dynamodb", endpoint_url=endpoint, region_name="us-east-1")
    table_info = client.describe_table(TableName="Delphi_CommentEmbeddings")
    assert table_info["Table"]["KeySchema"] == [
        {"AttributeName": "job_id", "KeyType": "HASH"},
        {"AttributeName": "comment_id", "KeyType": "RANGE"},
    ]
    indexes = [
        {"IndexName": gsi["IndexName"], "KeySchema": gsi["KeySchema"]}
        for gsi in table_info["Table"].get("GlobalSecondaryIndexes", [])
    ]
    assert indexes == [
        {
            "IndexName": "ConversationIdIndex",
            "KeySchema": [
                {"AttributeName": "conversation_id", "KeyType": "HASH"},
                {"AttributeName": "comment_id", "KeyType": "RANGE"},
            ],
        }
    ]
    tables = [name for name in client.list_tables()["TableNames"] if name != "penstock-state"]
    assert sorted(tables) == ALL
    for table in tables:
        if table.startswith("Delphi_"):
            client.delete_table(TableName=table)
    assert client.list_tables()["TableNames"] == ["penstock-state"]


def test_the_demo_runs_our_conversation(database: str, tmp_path: Path):
    from penstock.systems.delphi.demo import demo

    told: list[tuple[float, str]] = []
    with penstock.connect(":memory:") as db:
        facts = demo(db, tmp_path, lambda fraction, text: told.append((fraction, text)))
    assert facts["comments"] == 87
    assert Path(str(facts["picture"])).is_file()
    assert [fraction for fraction, _ in told] == sorted(fraction for fraction, _ in told)
    assert told[-1][0] == 1


def test_the_pages_python_prints_what_stands_under_it(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    page = (Path(__file__).parents[3] / "docs" / "delphi.md").read_text()
    [code, output] = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)[0]
    shutil.copy(world.SAMPLE, tmp_path / "comments.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELPHI_JOB_ID", raising=False)
    exec(compile(code, "docs/delphi.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_what_cannot_be_read_leaves_no_database_and_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_bytes(b"")
    result = CliRunner().invoke(cli, ["delphi", "run", "empty.csv", "--db", "d.db"])
    assert result.exit_code == 1
    assert "empty.csv has no column comment-id" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["empty.csv"]


def test_a_job_that_cannot_be_cancelled_stops_no_other(tmp_path: Path) -> None:
    url = str(tmp_path / "d.db")
    comments = tmp_path / "comments.csv"
    comments.write_text("comment-id,comment-body\n1,More buses\n")
    runner = CliRunner()
    made = runner.invoke(cli, ["delphi", "enqueue", str(comments), "--db", url, "--json"])
    job = json.loads(made.stdout)["job_id"]
    result = runner.invoke(cli, ["delphi", "cancel", "job_none", job, "--db", url, "--json"])
    assert result.exit_code == 4
    told = json.loads(result.stdout)
    assert "error" in told[0]
    assert told[1] == {"id": job, "state": "cancelled"}
