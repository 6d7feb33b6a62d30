"""`penstock construction`: what its commands print, and how they exit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from construction_world import event

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.systems.construction_expenses.commands import command

LETTER = "dlq_sample-evt-wrong"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ENVIRONMENT", "TABLE_PREFIX", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_DB", "expenses.db")
    return tmp_path


@pytest.fixture
def loaded() -> None:
    run("load-sample", "--yes", "--companies", "2", "--expenses", "30")


def run(*arguments: str, code: int = 0, given: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["construction", *arguments], input=given)
    assert result.exit_code == code, result.output
    return result


def told(*arguments: str, **options: Any) -> Any:
    return json.loads(run(*arguments, "--json", **options).stdout)


def all_commands() -> list[tuple[str, ...]]:
    return [(name,) for name in command.commands] + [
        (group, name)
        for group in ("company", "dlq", "expenses")
        for name in _group(group).list_commands(click.Context(cli))
    ]


def _group(name: str) -> click.Group:
    top = cli.get_command(click.Context(cli), "construction")
    assert isinstance(top, click.Group)
    found = top.get_command(click.Context(top), name)
    assert isinstance(found, click.Group)
    return found


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(words: tuple[str, ...]) -> None:
    help_text = run(*words, "--help").output
    assert f"penstock construction {' '.join(words)}" in help_text
    assert "Example" in help_text


def test_the_sample_fills_all_thirteen_tables_and_loading_it_again_changes_no_count(loaded: None) -> None:
    def counts() -> dict[str, int]:
        with connect("expenses.db") as db:
            return {name: sum(1 for _ in db.table(name).scan()) for name in db.tables()}

    first = counts()
    assert len(first) == 13
    assert min(first.values()) > 0
    run("load-sample", "--yes", "--companies", "2", "--expenses", "30")
    assert counts() == first


def test_nothing_is_loaded_unasked(here: Path) -> None:
    assert "Give --yes" in run("load-sample", code=2).output
    assert told("load-sample", "--dry-run")["companies"] == 3
    assert not (here / "expenses.db").exists()


def test_a_company_is_shown_listed_and_found(loaded: None) -> None:
    shown = told("company", "show", "sample-c0001")
    assert shown["counts"]["expenses"] == 30
    assert shown["subscription"]["status"] == "active"
    assert "expenses      30" in run("company", "show", "sample-c0001").output
    # Expenses may be imported before anybody has written the company.
    run("expenses", "add", "unwritten", "--amount", "5", "--currency", "EUR", "--date", "2026-01-02")
    assert "expenses      1\n" in run("company", "show", "unwritten").output
    page = told("company", "list", "--limit", "1")
    rest = told("company", "list", "--token", page["token"])
    assert {one["companyId"] for one in page["items"] + rest["items"]} == {"sample-c0001", "sample-c0002"}
    assert rest["token"] is None
    (found,) = told("company", "find", "company-users", "email=bela.1@example.org")["items"]
    assert found["userId"] == "sample-u0001-0"
    (keys,) = told("company", "find", "company-expenses", "companyId=sample-c0001", "invoiceNum=2025-00007")["items"]
    assert set(keys) == {"companyId", "expenseId", "invoiceNum"}
    assert "Nothing." in run("company", "find", "company-users", "userId=nobody").output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("company", "show", "nobody"), 4, "has no companyId 'nobody'"),
        (("company", "find", "nothing", "a=b"), 2, "there is no table nothing; there are companies, "),
        (("company", "find", "companies", "a"), 2, "'a' is not ATTRIBUTE=VALUE"),
        (("company", "find", "companies", "name=x"), 1, "cannot be asked by name. It can by companyId; apple"),
        (("company", "list", "--token", "x"), 1, "oken"),
        (("company", "list", "--env", "dev"), 1, "`penstock construction tables apply` makes them"),
        (("company", "list", "--db", "none.db"), 1, "none.db: there is no such database"),
        (("dlq", "show", "nothing"), 4, "has no dlqEntryId 'nothing'"),
        (("dlq", "replay", LETTER, "nothing"), 4, "Error: construction-expenses-paddle-webhook-dlq has no dlqEntryId"),
        (("dlq", "replay"), 2, "Give the entries to replay, or --status"),
        (("dlq", "replay", "--status", "pending"), 2, "Give --yes"),
        (("webhook", "--handler", "nonsense"), 1, "MODULE:FUNCTION"),
        (("webhook", "--handler", "json:nothing"), 1, "json has no nothing"),
    ],
)
def test_what_is_wrong_is_told_with_its_exit_code(loaded: None, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in run(*words, code=code, given=json.dumps(event())).output


def test_S1_20_a_webhook_is_received_from_a_file_and_from_stdin(loaded: None, here: Path) -> None:
    own = {"companyId": "sample-c0001"}
    (here / "event.json").write_text(json.dumps(event(1, custom_data=own)))
    assert run("webhook", "event.json").output == "evt_001  handled  completed after 1 attempt\n"
    (receipt,) = told("webhook", "event.json")
    assert (receipt["outcome"], receipt["attempts"]) == ("duplicate", 1)
    lines = "\n".join(json.dumps(event(number, custom_data=own)) for number in (2, 3))
    assert [one["outcome"] for one in told("webhook", given=lines)] == ["handled", "handled"]
    assert "this is no JSON" in run("webhook", given="{", code=1).output


def test_S1_20_a_handler_of_ones_own_may_be_named(loaded: None, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(here))
    (here / "my_webhooks.py").write_text(
        "def add_company(webhook, books):\n"
        "    item = books.companies.prepare_item({'companyId': webhook.webhook_id})\n"
        "    return [books.companies.table.put_action(item)]\n"
        "def busy(webhook, books):\n    raise TimeoutError('busy')\n"
    )
    run("webhook", "--handler", "my_webhooks:add_company", given=json.dumps(event(1)))
    assert told("company", "show", "evt_001")["counts"]["users"] == 0
    (left,) = told("webhook", "--no-wait", "--handler", "my_webhooks:busy", given=json.dumps(event(2)))
    assert (left["outcome"], left["retries"], left["reason"]) == ("waiting", 1, "TimeoutError: busy")


def test_S1_21_dead_letters_are_listed_shown_and_replayed(loaded: None) -> None:
    (entry,) = told("dlq", "list")["items"]
    assert entry["dlqEntryId"] == LETTER
    assert "BadWebhook: subscription.created has no subscription_id or id" in run("dlq", "list").output
    shown = run("dlq", "show", LETTER).output
    assert "retries        0 of 5" in shown
    assert '"customer_id": "sample-ctm-none"' in shown
    assert told("dlq", "show", LETTER)["status"] == "pending"
    assert told("dlq", "replay", "--status", "pending", "--dry-run")["entries"] == [LETTER]
    assert "Would replay 1." in run("dlq", "replay", LETTER, "--dry-run").output
    failed = run("dlq", "replay", "--status", "pending", "--yes", code=3)
    assert failed.output.startswith("sample-evt-wrong  dead-lettered  failed after 2 attempts: BadWebhook")
    assert run("dlq", "replay", "--status", "pending").output == "Nothing to do.\n"
    assert len(told("dlq", "list", "--status", "failed")["items"]) == 1
    run("dlq", "replay", "--status", "failed", "--limit", "1", "--yes", code=3)


def test_S1_21_a_mended_cause_and_a_replay(loaded: None, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(here))
    (here / "mended.py").write_text("def handle(webhook, books): ...\n")
    (receipt,) = told("dlq", "replay", LETTER, "--handler", "mended:handle")
    assert (receipt["outcome"], receipt["status"]) == ("handled", "completed")
    assert "sample-evt-wrong  duplicate  completed" in run("dlq", "replay", LETTER).output
    assert told("dlq", "list", "--status", "replayed")["items"][0]["dlqEntryId"] == LETTER


def test_resume_goes_on_with_what_was_left(loaded: None) -> None:
    assert run("resume").output == "Nothing to do.\n"
    assert told("resume") == []
