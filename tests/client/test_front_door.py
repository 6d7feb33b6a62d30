"""The names that `import penstock` gives, and what the import costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import penstock


def test_the_root_names_are_these():
    assert sorted(penstock.__all__) == [
        "Database",
        "PenstockError",
        "__version__",
        "boto3_client",
        "boto3_resource",
        "connect",
    ]
    assert dir(penstock) == sorted(penstock.__all__)


def test_the_version_is_the_packages():
    assert penstock.__version__ == version("penstock")


def test_every_root_name_is_there():
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = penstock.nothing


@pytest.mark.parametrize("module", ["penstock", "penstock.testing.plugin"])
def test_the_import_brings_in_neither_boto3_nor_the_engine(module):
    script = (
        f"import sys; import {module}; "
        "heavy = {'boto3', 'botocore', 'click', 'orjson', 'sqlite3', 'penstock.engine', 'penstock.client'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
