"""The workflows of docs/tables-in-ci.md: YAML that GitHub takes, whose penstock commands and options there are."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from doc_blocks import ROOT, blocks_of

from penstock.cli.main import cli

PAGE = (ROOT / "docs" / "tables-in-ci.md").read_text()
WORKFLOWS = [yaml.safe_load(block.text) for block in blocks_of(PAGE) if block.language == "yaml"]


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def commands() -> list[list[str]]:
    lines = [line for one in WORKFLOWS for step in steps_of(one) for line in step.get("run", "").splitlines()]
    return [shlex.split(line.partition(" > ")[0]) for line in lines if line.startswith("penstock ")]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one["name"])
def test_a_workflow_has_what_github_wants(workflow: dict[str, Any]) -> None:
    assert {"name", True, "permissions", "jobs"} <= workflow.keys(), "YAML reads `on` as true, and GitHub does not mind"
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert set(job.get("needs", "").split()) <= workflow["jobs"].keys()
    for step in steps_of(workflow):
        assert ("run" in step) != ("uses" in step)
        assert "uses" not in step or step["uses"].partition("@")[2]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_its_commands_and_options_are_there(words: list[str]) -> None:
    group: click.Command = cli
    context = click.Context(cli)
    names = list(words[1:])
    while isinstance(group, click.Group):
        found = group.get_command(context, names.pop(0))
        assert found is not None, words
        group, context = found, click.Context(found, parent=context)
    group.make_parser(context).parse_args(list(names))
    help_page = CliRunner().invoke(cli, [*words[1 : len(words) - len(names)], "--help"])
    assert help_page.exit_code == 0
    assert all(word in help_page.output for word in names if word.startswith("--"))


def test_the_page_plans_saves_comments_approves_and_applies() -> None:
    said = [" ".join(words) for words in commands()]
    assert any("plan" in one and "--markdown" in one for one in said)
    (saved,) = [words[words.index("--out") + 1] for words in commands() if "--out" in words]
    (applied,) = [words for words in commands() if words[2] == "apply"]
    assert applied[3] == saved and "--yes" in applied
    apply_job = next(job for one in WORKFLOWS for name, job in one["jobs"].items() if name == "apply")
    assert apply_job["environment"] == "production" and apply_job["needs"] == "plan"
