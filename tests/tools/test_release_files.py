"""What publishes a version fits together: the workflows, the Makefile, the hooks, the metadata."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import penstock

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_version_is_told_in_one_place_and_the_changelog_has_it():
    assert "version" in PROJECT["project"]["dynamic"] and "version" not in PROJECT["project"]
    assert (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).samefile(penstock.__file__)
    assert re.fullmatch(r"\d+\.\d+\.\d+", penstock.__version__)
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None and first[1] == penstock.__version__


def test_the_pythons_are_the_same_everywhere():
    wanted = [f"Programming Language :: Python :: {one}" for one in PYTHONS]
    assert [one for one in PROJECT["project"]["classifiers"] if "Python :: 3" in one] == wanted
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"
    text = (ROOT / "docs" / "versions.md").read_text()
    assert all(one in text for one in PYTHONS)
    for name, job in (("test", "wheel"), ("release", "try")):
        workflow = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
        assert workflow["jobs"][job]["strategy"]["matrix"]["python"] == PYTHONS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_is_there_with_no_more_rights_than_it_needs(path: Path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        rights = {name for name, value in job.get("permissions", {}).items() if value == "write"}
        assert rights <= {"id-token", "pages"}
        for step in job["steps"]:
            for target in re.findall(r"make ([a-z]+)", step.get("run", "")):
                assert target in targets(), f"{path.name}: make {target}"
            for file in re.findall(r"python (\S+\.py)", step.get("run", "")):
                assert (ROOT / file).exists(), f"{path.name}: {file}"
    assert "secrets." not in path.read_text(), "a release is trusted by where it comes from, not by a token"


def test_the_makefile_lists_each_of_its_commands():
    text = (ROOT / "Makefile").read_text()
    explained = set(re.findall(r"^([a-z]+):.*## ", text, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None and explained == targets() == set(phony[1].split())
    shown = set(re.findall(r"`?make ([a-z]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"install", "test", "lint", "docs", "bench"} <= shown <= targets()


def test_the_hooks_are_the_checks_of_ci():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    checks = re.search(r"for check in (.*); do", (ROOT / ".ci" / "run").read_text())
    assert checks is not None
    assert {one["entry"].split()[0].removeprefix(".venv/bin/") for one in hooks} == set(
        re.findall(r'"([\w-]+)', checks[1])
    )


def test_issue_forms_ask_for_what_is_needed():
    for name in ("bug", "wish"):
        form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
        assert form["name"] and form["description"]
        assert [one for one in form["body"] if one.get("validations", {}).get("required")]


def test_the_source_distribution_has_what_a_packager_needs_and_no_tools_of_ours():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for one in ("src", "tests", "docs", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"):
        assert one in included
    assert not {".ci", ".github", "Dockerfile"} & set(included)
    assert all((ROOT / one).exists() for one in included)
