"""Both homes: a folder, and a bucket of a moto server over real HTTP."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from botocore.config import Config

from penstock.client.transports.credentials import new_session
from penstock.files import Files, open_files


@pytest.fixture(scope="session")
def s3(moto_url: str) -> Any:
    """One client for all tests: making one takes a third of a second."""
    make = new_session(None).create_client
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")  # read when the client is made
        patch.setenv("no_proxy", "127.0.0.1")
        return make(
            "s3", endpoint_url=moto_url, region_name="us-east-1", config=Config(signature_version="s3v4"), **keys
        )


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"bucket-{token_hex(6)}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def s3_environment(moto_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For those who make a client of their own."""
    for name, value in {
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "AWS_ENDPOINT_URL_S3": moto_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["folder", "bucket"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    if request.param == "folder":
        return open_files(tmp_path / "out")
    name, client = request.getfixturevalue("bucket"), request.getfixturevalue("s3")
    return open_files(f"s3://{name}/some/prefix", client=client)
