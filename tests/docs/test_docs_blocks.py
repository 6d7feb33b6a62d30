"""Every block of the documentation is run or read, or says why not.

Python runs, and prints what stands under it. JSON, YAML and TOML are read. Consoles: test_docs_commands.py. Some pages
are played whole, commands and all, by tests of their own.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from doc_blocks import ROOT, Block, blocks_of, name_of, pages
from page_runs import PageRun, steady

from penstock.systems.account_records.config import DEFAULTS

PLAYED_WHOLE = {
    "docs/excel-reports.md": "systems/excel_reports/test_excel_page.py",
    "docs/first-job.md": "jobs/test_job_docs.py",
    "docs/moving-data.md": "tables/data/test_data_pages.py",
    "docs/rekey.md": "tables/data/test_data_pages.py",
    "docs/security-assistant.md": "systems/security_assistant/test_security_page.py",
    "docs/workflows.md": "jobs/test_job_docs.py",
}
"""Pages whose commands and examples are run together, one after another, and by which file of tests/."""

NOT_RUN = 11
"""How many blocks say that they are not run. More than that wants a reason here as well.

Three are in coming-from.md: programs of other systems. Three are in tables-beside-terraform.md: they need Terraform.
"""

SHOWN = {"", "text", "console", "mermaid"}
"""Outputs, commands and pictures: other tests have them."""


def is_run(block: Block) -> bool:
    """Whether the page's run has something to do with the block."""
    if {"not run", "run by"} & block.says.keys():
        return False
    return block.language == "python" or block.says.get("output") == "compared"


PAGES = [
    page for page in pages() if name_of(page) not in PLAYED_WHOLE and any(map(is_run, blocks_of(page.read_text())))
]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder and an environment such as a new reader has: nothing of the tests' own is in them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in (
        *DEFAULTS,
        "PENSTOCK_DB",
        "PENSTOCK_FILES",
        "ENVIRONMENT",
        "TABLE_PREFIX",
        "AWS_REGION",
        "AWS_PROFILE",
    ):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").write_text("[profile reports]\nregion = eu-west-2\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "example")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    before = dict(os.environ)
    yield tmp_path
    for name in [name for name in os.environ if name not in before]:
        del os.environ[name]  # what a page sets ends with it
    os.environ.update(before)


@pytest.fixture
def s3_with_a_bucket(reader: Path, moto_url: str) -> str:
    """moto's S3 with the bucket that the pages speak of."""
    from penstock.client.transports.credentials import new_session

    client = new_session(None).create_client("s3", endpoint_url=moto_url, region_name="us-east-1")
    client.create_bucket(Bucket="acme-jobs")
    return moto_url


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_its_blocks_print_what_stands_under_them(
    page: Path,
    reader: Path,
    penstock_server: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    blocks = blocks_of(page.read_text())
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", penstock_server)
    if any(is_run(block) and "s3://" in block.text for block in blocks):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", request.getfixturevalue("s3_with_a_bucket"))
    if page.parent.parent == ROOT / "examples":  # which runs in a copy of its folder
        shutil.copytree(page.parent, reader, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    run = PageRun(name_of(page), reader, penstock_server, request.getfixturevalue)
    try:
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if not is_run(block):
                continue
            if block.language == "python":
                _compare(page, block, run.run(block), after)
            else:
                assert steady(run.play(block)).splitlines() == steady(block.text).splitlines(), (
                    f"{name_of(page)}:{block.line}"
                )
    finally:
        run.close()


def _compare(page: Path, block: Block, printed: str, after: Block | None) -> None:
    if after is None or not after.near or not after.is_output:
        assert printed == "", f"{name_of(page)}:{block.line} prints something, and shows nothing"
    elif "output" not in after.says:
        assert steady(printed) == steady(after.text), f"{name_of(page)}:{block.line}"


def test_what_is_run_elsewhere_is_named_there() -> None:
    elsewhere = [(page, f"tests/{test}") for page, test in PLAYED_WHOLE.items()]
    for page in pages():
        said = [block.says["run by"] for block in blocks_of(page.read_text()) if "run by" in block.says]
        elsewhere += [(name_of(page), test) for test in said]
    for name, test in elsewhere:
        assert Path(name).name in (ROOT / test).read_text(), f"{test} does not name {name}"


def test_what_is_read_by_programs_can_be_read() -> None:
    readers = {
        "json": json.loads,
        "yaml": yaml.safe_load,
        "toml": tomllib.loads,
        "csv": lambda text: list(csv.reader(text.splitlines(), strict=True)),
        "ini": lambda text: ConfigParser(strict=False, interpolation=None).read_string(text),
    }
    for page in pages():
        for block in blocks_of(page.read_text()):
            if block.language in readers:
                readers[block.language](block.text)


def test_every_block_is_of_a_kind_that_is_looked_at_or_says_why_not() -> None:
    known = {"python", "json", "yaml", "toml", "ini", "csv", *SHOWN}
    for page in pages():
        for block in blocks_of(page.read_text()):
            assert block.language in known or "not run" in block.says, f"{name_of(page)}:{block.line}"


def test_the_blocks_that_are_not_run_are_few_and_give_their_reasons() -> None:
    found = [
        (name_of(page), block.says["not run"])
        for page in pages()
        for block in blocks_of(page.read_text())
        if "not run" in block.says
    ]
    assert all(len(reason.split()) > 3 for _, reason in found), found
    assert len(found) == NOT_RUN, found
