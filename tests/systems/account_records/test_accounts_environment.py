"""S4.1, S4.2: a local DynamoDB without Docker and Java, and `.env`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.database import serve
from penstock.errors import BadUrl
from penstock.systems.account_records.config import DEFAULTS, EXAMPLE, BadEnvironmentFile, Config, variables_of
from penstock.systems.account_records.models.record import RecordModel
from penstock.systems.account_records.models.user import UserModel
from penstock.systems.account_records.services.dynamodb import create_tables, default_database, open_database


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (*DEFAULTS, "PENSTOCK_DB"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def served(here: Path) -> Iterator[str]:
    """`penstock serve` as a process of its own, on a free port."""
    words = [sys.executable, "-m", "penstock", "serve", "--memory", "--port", "0", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=here)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_S4_1_a_local_dynamodb_needs_neither_docker_nor_java(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models without a database use the one that the configuration names."""
    monkeypatch.setenv("DYNAMODB_ENDPOINT", served)
    create_tables(default_database(), Config.load())
    records = RecordModel()
    records.put_item({"AccountId": "ACC12345", "RunTime": "2026-02-17T12:00:00Z", "Processed": 0})
    assert len(list(records.query_unprocessed())) == 1
    users = UserModel()
    users.put_item({"id": "1"})
    assert users.db is records.db, "it is opened once"


def test_S4_1_its_port_is_8000_unless_told_otherwise() -> None:
    (port,) = [one for one in serve.command.params if one.name == "port"]
    assert port.default == 8000
    assert Config().endpoint == "http://localhost:8000"


def test_S4_2_everything_comes_from_the_file(here: Path) -> None:
    (here / ".env").write_text(
        "DYNAMODB_ENDPOINT=http://localhost:8123\nAWS_REGION=eu-west-2\nAWS_ACCESS_KEY_ID=key\n"
        "AWS_SECRET_ACCESS_KEY=secret\nUSER_TABLE=People\nRECORD_TABLE=Runs\n"
    )
    assert Config.load() == Config("http://localhost:8123", "eu-west-2", "key", "secret", "People", "Runs")
    with open_database(Config.load()) as db:
        assert "8123" in db.name


def test_S4_2_without_a_file_the_defaults_are_those_of_a_local_dynamodb() -> None:
    config = Config.load()
    assert (config.endpoint, config.region) == ("http://localhost:8000", "us-east-1")
    assert (config.user_table, config.record_table) == ("Users", "Records")
    assert variables_of(EXAMPLE) == DEFAULTS


def test_S4_2_the_real_environment_is_never_overridden(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / ".env").write_text("RECORD_TABLE=FromFile\nUSER_TABLE=FromFile\nAWS_REGION=eu-west-2\n")
    monkeypatch.setenv("RECORD_TABLE", "FromEnvironment")
    monkeypatch.setenv("USER_TABLE", "")
    config = Config.load()
    assert (config.record_table, config.user_table) == ("FromEnvironment", "FromFile")
    assert config.region == "eu-west-2"
    assert os.environ["USER_TABLE"] == "", "and nothing is written into it"
    assert "AWS_REGION" not in os.environ


def test_S4_2_a_named_file_must_be_there(here: Path) -> None:
    with pytest.raises(BadEnvironmentFile, match=r"other\.env: it cannot be read"):
        Config.load("other.env")
    (here / "other.env").write_text("RECORD_TABLE=Other")
    assert Config.load("other.env").record_table == "Other"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NAME=value", "value"),
        ("export NAME=value", "value"),
        ("  NAME =  value  ", "value"),
        ("NAME=", ""),
        ("NAME=a b", "a b"),
        ("NAME=value # a comment", "value"),
        ("NAME=value#not a comment", "value#not a comment"),
        ("NAME=# only a comment", ""),
        ('NAME="a # b"', "a # b"),
        ('NAME="a" # b', "a"),
        (r'NAME="line\nnext \"quoted\" \\ \$HOME"', 'line\nnext "quoted" \\ $HOME'),
        (r"NAME='as it stands \n $HOME # x'", r"as it stands \n $HOME # x"),
        ("NAME=$HOME`whoami`$(whoami)", "$HOME`whoami`$(whoami)"),
        ("NAME=http://localhost:8000/?a=b", "http://localhost:8000/?a=b"),
        ("NAME=value\r", "value"),
        ('NAME="x"\r', "x"),
        ("NAME=it's", "it's"),
        ("NAME=1\nNAME=2", "2"),
        ("# NAME=1\n\nNAME=2", "2"),
    ],
)
def test_S4_2_quotes_comments_and_export(line: str, value: str) -> None:
    assert variables_of(line) == {"NAME": value}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A=1\nsecret-without-a-name", ".env:2: a line is NAME=value"),
        ("=value", ".env:1: a line is NAME=value"),
        ("1A=x", ".env:1: a line is NAME=value"),
        ("A B=x", ".env:1: a line is NAME=value"),
        ('A="open', ".env:1: its quotes do not match"),
        ("A='open", ".env:1: its quotes do not match"),
        ('A="x" y', ".env:1: its quotes do not match, or something stands after them"),
        ("A=a\0b", ".env:1: it has a zero byte"),
    ],
)
def test_S4_2_a_line_that_is_no_variable_is_told_without_what_it_says(text: str, told: str) -> None:
    with pytest.raises(BadEnvironmentFile) as refused:
        variables_of(text)
    assert str(refused.value).startswith(told)
    assert "secret" not in str(refused.value)


def test_S4_2_a_file_that_is_no_text_or_too_large_is_told(here: Path) -> None:
    (here / ".env").write_bytes(b"A=\xff\xfe")
    with pytest.raises(BadEnvironmentFile, match="no UTF-8 text"):
        Config.load()
    (here / ".env").write_bytes(b"A=" + b"x" * 200_000)
    with pytest.raises(BadEnvironmentFile, match="more than 100,000 bytes"):
        Config.load()
    (here / ".env").write_bytes("\ufeffRECORD_TABLE=Bom".encode())
    assert Config.load().record_table == "Bom"


@given(st.text())
def test_S4_2_whatever_a_file_holds_is_read_or_refused(text: str) -> None:
    try:
        found = variables_of(text)
    except BadEnvironmentFile:
        return
    assert all(name and "=" not in name for name in found)


@given(st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"])))
def test_S4_2_what_is_quoted_comes_back_as_it_was(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert variables_of(f'NAME="{quoted}"') == {"NAME": value}


def test_S4_2_a_secret_is_in_no_text_of_the_configuration() -> None:
    assert "hush" not in repr(Config(access_key_id="key", secret_access_key="hush"))


def test_S4_2_the_endpoint_may_be_a_file_or_aws(here: Path) -> None:
    with open_database(Config(endpoint="accounts.db")) as db:
        assert create_tables(db, Config()) == ("Users", "Records")
    assert (here / "accounts.db").exists()
    with open_database(Config(endpoint="aws://eu-west-2", access_key_id="k", secret_access_key="s")) as db:
        assert db.name == "aws://eu-west-2"
    with pytest.raises(BadUrl):
        open_database(Config(endpoint="ftp://x"))
