"""`penstock dynamodb-local`: DynamoDB Local's options, as `penstock serve`'s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.database import dynamodb_local, serve
from penstock.cli.main import cli


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `penstock serve` was called with."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(serve.command, "callback", lambda **options: seen.update(options))
    return seen


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, ["dynamodb-local", *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_usual_line_keeps_one_set_of_tables_in_memory(started: dict[str, Any]) -> None:
    run("-inMemory", "-sharedDb")
    assert (started["memory"], started["db"], started["per_account"], started["port"]) == (True, None, False, 8000)
    assert (started["table_delay"], started["index_delay"], started["sync"]) == (0, 0, "normal")


def test_without_shared_db_access_keys_and_regions_are_apart(started: dict[str, Any]) -> None:
    run("-inMemory")
    assert started["per_account"] is True


def test_the_folder_the_port_and_the_rest_are_taken(started: dict[str, Any], tmp_path: Path) -> None:
    words = ("-dbPath", str(tmp_path), "-port", "8123", "-cors", "https://a.example, https://b.example")
    run(*words, "-delayTransientStatuses", "-optimizeDbBeforeStartup", "-disableTelemetry")
    assert (started["db"], started["memory"], started["port"]) == (str(tmp_path / "penstock.db"), False, 8123)
    assert started["origins"] == ("https://a.example", "https://b.example")
    assert started["table_delay"] == started["index_delay"] == dynamodb_local.TRANSIENT_SECONDS


def test_the_command_of_a_container_is_taken_whole(started: dict[str, Any]) -> None:
    """Compose files have it after the image's entry point, which is `java`."""
    run("-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar", "-sharedDb", "-inMemory")
    assert (started["memory"], started["per_account"]) == (True, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-inMemory", "-dbPath", "."), "Give either -inMemory or -dbPath, not both."),
        (("-optimizeDbBeforeStartup",), "-optimizeDbBeforeStartup needs -dbPath DIR"),
        (("-dbPath", "no-such-folder"), "does not exist"),
        (("-port", "70000"), "is not in the range"),
        (("-sharedDB",), "No such option"),
    ],
)
def test_wrong_options_are_named(started: dict[str, Any], words: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(cli, ["dynamodb-local", *words])
    assert result.exit_code == 2
    assert message in result.output
    assert not started
