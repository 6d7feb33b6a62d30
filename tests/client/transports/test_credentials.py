"""Who signs: botocore's chain at AWS, the environment or dummies elsewhere."""

from __future__ import annotations

import datetime
import subprocess
import sys
import threading

import pytest
from botocore.credentials import RefreshableCredentials
from fake_endpoint import endpoint_of

from penstock.client.transports import credentials as module
from penstock.client.transports.credentials import (
    DUMMY,
    BotocoreCredentials,
    Credentials,
    FixedCredentials,
    credentials_for,
)
from penstock.errors import CredentialsMissing

LOCAL = endpoint_of("http://localhost:8000")


@pytest.fixture
def no_aws(monkeypatch, tmp_path):
    """An environment in which botocore finds nothing, and asks nobody on the network."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_an_endpoint_that_is_not_awss_gets_dummies():
    assert credentials_for(LOCAL, {}).current() == DUMMY


def test_or_what_the_environment_has():
    environment = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    assert credentials_for(LOCAL, environment).current() == Credentials("AKID", "secret", "token")
    del environment["AWS_SESSION_TOKEN"]
    assert credentials_for(LOCAL, environment).current() == Credentials("AKID", "secret")
    del environment["AWS_SECRET_ACCESS_KEY"]
    assert credentials_for(LOCAL, environment).current() == DUMMY


def test_a_call_to_a_local_endpoint_does_not_import_botocore():
    program = (
        "import sys\n"
        "from penstock.client.database import open_transport\n"
        "from penstock.errors import ConnectionFailed\n"
        "try:\n    open_transport('http://127.0.0.1:1').execute('ListTables', {})\n"
        "except ConnectionFailed:\n    pass\n"
        "assert not [name for name in sys.modules if name.startswith(('boto', 'penstock.engine'))]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_profile_is_read_by_botocore(no_aws):
    (no_aws / "credentials").write_text("[reports]\naws_access_key_id = AKPROFILE\naws_secret_access_key = s\n")
    (no_aws / "config").write_text("[profile reports]\nregion = sa-east-1\n")
    source = credentials_for(endpoint_of("aws://eu-west-2?profile=reports"))
    assert isinstance(source, BotocoreCredentials)
    assert source.current() == Credentials("AKPROFILE", "s")
    assert source.current() is source.current()
    assert module.profile_region("reports") == "sa-east-1"
    assert module.profile_region("nobody") is None


def test_none_at_all_is_an_error_that_says_how_to_sign_in(no_aws):
    with pytest.raises(CredentialsMissing, match="aws://eu-west-2: no AWS credentials were found") as missing:
        credentials_for(endpoint_of("aws://eu-west-2")).current()
    assert "aws sso login" in missing.value.next_step
    assert not missing.value.sent


def test_an_unknown_profile_is_the_same_error(no_aws):
    with pytest.raises(CredentialsMissing, match="nobody"):
        credentials_for(endpoint_of("aws://eu-west-2?profile=nobody")).current()


class Session:
    """A botocore session whose credentials are refreshed by a function."""

    def __init__(self, refresh, lifetime_seconds):
        self._refresh = refresh
        self._lifetime = lifetime_seconds
        self.count = 0

    def get_credentials(self):
        return RefreshableCredentials.create_from_metadata(self._metadata(), self._metadata, "test")

    def _metadata(self):
        self.count += 1
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self._lifetime)
        return self._refresh(self.count) | {"expiry_time": expires.isoformat()}


def keys(number):
    return {"access_key": f"AK{number}", "secret_key": "s", "token": f"t{number}"}


def test_credentials_are_refreshed_before_they_expire():
    source = BotocoreCredentials("aws://eu-west-2", session=Session(keys, lifetime_seconds=60))
    assert source.blocking
    first = source.current()
    second = source.current()
    assert first.access_key != second.access_key
    assert second.token == second.access_key.replace("AK", "t")


def test_credentials_that_last_are_the_same_object_and_cost_nothing():
    source = BotocoreCredentials("aws://eu-west-2", session=Session(keys, lifetime_seconds=36_000))
    assert source.current() is source.current()
    assert not source.blocking


def test_a_refresh_that_fails_is_a_typed_error():
    def refresh(number):
        if number > 1:
            raise OSError("the metadata service is away")
        return keys(number)

    source = BotocoreCredentials("aws://eu-west-2", session=Session(refresh, lifetime_seconds=1))
    with pytest.raises(CredentialsMissing, match="away"):
        source.current()


def test_many_threads_find_them_once():
    session = Session(keys, lifetime_seconds=36_000)
    source = BotocoreCredentials("aws://eu-west-2", session=session)
    found: list[Credentials] = []
    threads = [threading.Thread(target=lambda: found.append(source.current())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.count == 1
    assert len(found) == 16
    assert len(set(found)) == 1


def test_after_a_refusal_the_files_are_read_again_once_for_all_threads(no_aws):
    def write(key):
        (no_aws / "credentials").write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")

    write("OLD")
    source = BotocoreCredentials("aws://eu-west-2")
    old = source.current()
    assert not source.renew(old)
    write("NEW")
    assert source.current() == old
    assert source.renew(old)
    assert source.renew(old)  # another thread's refusal, told later
    assert source.current().access_key == "NEW"


@pytest.mark.parametrize("text", ["AK\r\nX-Injected: yes", "ключ", "", "a\x00b"])
def test_a_key_that_would_break_a_header_is_refused(text):
    with pytest.raises(CredentialsMissing):
        FixedCredentials(Credentials(text, "secret"))
    if text:
        with pytest.raises(CredentialsMissing):
            FixedCredentials(Credentials("AKID", "secret", text))
