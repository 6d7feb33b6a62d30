"""botocore's data files are the same as plain dicts."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader, Loader

from penstock.client.transports.credentials import PlainData, new_session

DATA = Path(Loader.BUILTIN_DATA_PATH)


@pytest.mark.parametrize("name", ["endpoints", "partitions", "s3/2006-03-01/service-2", "sts/2011-06-15/service-2"])
def test_a_file_says_the_same_as_in_botocores_reading(name: str) -> None:
    path = str(DATA / name)
    assert PlainData().exists(path) and JSONFileLoader().exists(path)
    assert PlainData().load_file(path) == JSONFileLoader().load_file(path)


def test_the_order_is_kept(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "rules.json.gz", "wb") as file:
        file.write(b'{"b": 1, "a": {"d": 2, "c": 3}}')
    read = PlainData().load_file(str(tmp_path / "rules"))
    assert (list(read), list(read["a"])) == (["b", "a"], ["d", "c"])


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    for name in ("absent", "folder", "absent/deeper"):
        assert not PlainData().exists(str(tmp_path / name))
        assert PlainData().load_file(str(tmp_path / name)) is None


def test_all_that_a_session_of_ours_reads_is_plain() -> None:
    def kinds(value: Any) -> set[type]:
        if isinstance(value, dict):
            return {type(value)}.union(*map(kinds, value.values()))
        return set().union(*map(kinds, value)) if isinstance(value, list) else set()

    loader = new_session(None).get_component("data_loader")
    for read in (loader.load_data("endpoints"), loader.load_service_model("s3", "endpoint-rule-set-1")):
        assert kinds(read) == {dict}
