"""The examples of the client's pages run, and print what stands under them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
_MARK = "-- next --\n"


def run(page, folder, environment, replaced=()):
    """Runs a page's examples as one program; each must print what stands under it."""
    text = (DOCS / page).read_text()
    examples = _EXAMPLE.findall(text)
    assert examples
    code = "".join(f"{code}\nprint({_MARK!r}, end='')\n" for code, _ in examples)
    for old, new in replaced:
        code = code.replace(old, new)
    script = folder / "examples.py"
    script.write_text(code)
    ran = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split(_MARK)[:-1] == [expected for _, expected in examples]


@pytest.mark.parametrize("page", ["client.md", "batches.md", "retries.md", "faults.md"])
def test_the_examples_print_what_the_page_says(page, tmp_path):
    run(page, tmp_path, dict(os.environ))


def test_the_examples_of_connecting_reach_a_server(tmp_path, penstock_server):
    config = tmp_path / "config"
    config.write_text("[profile reports]\nregion = eu-west-2\n")
    keys = {"AWS_ACCESS_KEY_ID": "example", "AWS_SECRET_ACCESS_KEY": "example", "AWS_CONFIG_FILE": str(config)}
    environment = {**os.environ, **keys, "AWS_ENDPOINT_URL_DYNAMODB": penstock_server}
    run("connecting.md", tmp_path, environment, [("http://localhost:8000", penstock_server)])
