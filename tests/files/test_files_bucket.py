"""What only a bucket can meet: parts, uploads cut off, broken downloads, missing buckets and credentials."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from penstock.files import (
    FileChanged,
    FileError,
    FileMissing,
    Files,
    FileTooLarge,
    NotAllowed,
    StoreMissing,
    StoreUnreachable,
    open_files,
)
from penstock.files import bucket as bucket_module
from penstock.files.bucket import S3, BucketFiles

SAVER = Path(__file__).parent / "file_saver.py"
LARGE = bytes(range(256)) * 4 * 1024 * 17  # 17 MB: three parts


@pytest.fixture
def home(s3: Any, bucket: str) -> Files:
    return open_files(f"s3://{bucket}/pre/fix", client=s3)


class Watched:
    """A client that notes its calls, and fails where it is told to."""

    def __init__(self, client: Any, fail: dict[str, Exception] | None = None) -> None:
        self._client = client
        self._fail = fail or {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._client, name)
        if not callable(real):
            return real

        def called(*args: Any, **request: Any) -> Any:
            self.calls.append(name)
            if name in self._fail and self.calls.count(name) > 1:
                raise self._fail[name]
            return real(*args, **request)

        return called


def uploads_of(s3: Any, bucket: str) -> list[Any]:
    found: list[Any] = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return found


def keys_of(s3: Any, bucket: str) -> list[str]:
    return [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_a_small_file_is_one_request(s3: Any, bucket: str) -> None:
    client = Watched(s3)
    saved = open_files(f"s3://{bucket}", client=client).save("a/x.json", b"{}")
    assert client.calls == ["put_object"]
    head = s3.head_object(Bucket=bucket, Key="a/x.json")
    assert head["Metadata"] == {"penstock-sha256": saved.sha256, "penstock-saved-at": saved.saved_at}
    assert head["ContentType"] == "application/json"


def test_data_that_can_be_read_twice_goes_straight_to_its_key(s3: Any, bucket: str) -> None:
    client = Watched(s3)
    open_files(f"s3://{bucket}", client=client).save("x", io.BytesIO(LARGE))
    assert client.calls == ["create_multipart_upload", *["upload_part"] * 3, "complete_multipart_upload"]


def test_data_that_comes_once_is_staged_and_copied_with_its_hash(s3: Any, bucket: str) -> None:
    client = Watched(s3)
    saved = open_files(f"s3://{bucket}/pre", client=client).save("x.bin", iter([LARGE]), content_type="image/png")
    assert client.calls[-3:] == ["complete_multipart_upload", "copy_object", "delete_object"]
    assert keys_of(s3, bucket) == ["pre/x.bin"]
    head = s3.head_object(Bucket=bucket, Key="pre/x.bin")
    assert (head["Metadata"]["penstock-sha256"], head["ContentType"]) == (saved.sha256, "image/png")


def test_a_very_large_file_is_copied_in_ranges(s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "COPY_BYTES", 6 * 1024 * 1024)
    client = Watched(s3)
    home = open_files(f"s3://{bucket}", client=client)
    saved = home.save("x", iter([LARGE]))
    assert client.calls.count("upload_part_copy") == 3
    assert home.read("x", limit=len(LARGE), expect=saved) == LARGE


@pytest.mark.parametrize("data", [io.BytesIO, lambda data: iter([data])], ids=["twice", "once"])
def test_an_upload_that_fails_is_aborted_and_the_old_file_stays(s3: Any, bucket: str, data: Any) -> None:
    open_files(f"s3://{bucket}", client=s3).save("x", b"old")
    busy = ClientError({"Error": {"Code": "SlowDown", "Message": "Reduce your rate."}}, "UploadPart")
    home = open_files(f"s3://{bucket}", client=Watched(s3, {"upload_part": busy}))
    with pytest.raises(StoreUnreachable, match=r"S3 is busy \(SlowDown: Reduce your rate\)\. Try again") as caught:
        home.save("x", data(LARGE))
    assert caught.value.retryable and caught.value.code == "SlowDown"
    assert home.read("x") == b"old"
    assert uploads_of(s3, bucket) == [] and keys_of(s3, bucket) == ["x"]


def test_a_source_that_changes_while_it_is_saved_is_noticed(s3: Any, bucket: str) -> None:
    class Changing(io.BytesIO):
        def seek(self, place: int, whence: int = 0) -> int:
            self.getbuffer()[0] ^= 1
            return super().seek(place, whence)

    with pytest.raises(FileChanged, match="its source changed while it was saved"):
        open_files(f"s3://{bucket}", client=s3).save("x", Changing(LARGE))
    assert uploads_of(s3, bucket) == [] and keys_of(s3, bucket) == []


def test_a_file_of_more_parts_than_s3_takes_is_refused(s3: Any, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "PARTS", 2)
    with pytest.raises(FileTooLarge, match="Save it as several files"):
        open_files(f"s3://{bucket}", client=s3).save("x", LARGE)
    assert uploads_of(s3, bucket) == []


@pytest.mark.crash
def test_a_kill_in_the_middle_of_an_upload_shows_nothing_and_a_sweep_clears_it(
    s3: Any, bucket: str, s3_environment: None
) -> None:
    command = [sys.executable, str(SAVER), f"s3://{bucket}", "x", "hang", str(17_000_000)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=60)
    home = open_files(f"s3://{bucket}", client=s3)
    assert list(home.list()) == [] and not home.exists("x")
    assert len(uploads_of(s3, bucket)) == 1
    # moto says of every upload that it was begun in 2010, so its age is not tried here
    assert home.sweep(older_than_seconds=0, dry_run=True).leftovers == 1
    assert home.sweep(older_than_seconds=0).leftovers == 1
    assert uploads_of(s3, bucket) == []


def test_a_sweep_clears_staging_of_its_own_prefix_only(home: Files, s3: Any, bucket: str) -> None:
    for key in ("pre/fix/_temp/a", "other/_temp/a", "_temp/a"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"12345")
    swept = home.sweep(older_than_seconds=0)
    assert (swept.leftovers, swept.size) == (1, 5)
    assert keys_of(s3, bucket) == ["_temp/a", "other/_temp/a"]


def test_an_object_of_others_is_listed_read_and_hashed(home: Files, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="pre/fix/theirs.txt", Body=b"abc")
    s3.put_object(Bucket=bucket, Key="pre/fix/folder/", Body=b"")
    assert [one.key for one in home.list()] == ["theirs.txt"]
    assert home.saved_info("theirs.txt") is None
    assert home.info("theirs.txt").sha256.startswith("ba7816bf")
    assert home.read("theirs.txt") == b"abc"


def test_an_object_changed_behind_our_back_is_detected(home: Files, s3: Any, bucket: str) -> None:
    saved = home.save("x", b"12345")
    s3.put_object(Bucket=bucket, Key="pre/fix/x", Body=b"1234!", Metadata={"penstock-sha256": saved.sha256})
    with pytest.raises(FileChanged):
        home.read("x")
    s3.put_object(Bucket=bucket, Key="pre/fix/x", Body=b"12345678")
    with pytest.raises(FileChanged, match="it has 8 bytes"):
        home.open("x", expect=saved)


def test_a_list_goes_through_all_pages(home: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        home.save(f"n/{n}", b"")
    assert isinstance(home, BucketFiles)
    real = home.s3.pages
    monkeypatch.setattr(home.s3, "pages", lambda *words, **request: real(*words, **request, MaxKeys=2))
    assert [one.key for one in home.list("n/")] == [f"n/{n}" for n in range(5)]


def test_a_signed_url_is_readable_by_anybody(home: Files) -> None:
    home.save("a b/ключ.txt", b"hello")
    url = home.url("a b/ключ.txt", seconds=60)
    assert "X-Amz-Expires=60" in url and "X-Amz-Signature=" in url
    with urlopen(url) as answer:
        assert answer.read() == b"hello"


# ── broken downloads ─────────────────────────────────────────────────────────────────────────────


class Breaking:
    """A body that breaks off after some bytes."""

    def __init__(self, body: Any, size: int) -> None:
        self._body = body
        self._left = size

    def read(self, size: int) -> bytes:
        if not self._left:
            raise ReadTimeoutError(endpoint_url="s3", error="broken")
        block: bytes = self._body.read(min(size, self._left))
        self._left -= len(block)
        return block

    def close(self) -> None:
        self._body.close()


class BreakingClient(Watched):
    """Its downloads break off after `size` bytes each."""

    def __init__(self, client: Any, size: int) -> None:
        super().__init__(client)
        self._size = size
        self.ranges: list[str] = []

    def get_object(self, **request: Any) -> Any:
        self.ranges.append(request.get("Range", ""))
        answer = self._client.get_object(**request)
        answer["Body"] = Breaking(answer["Body"], self._size)
        return answer


def test_a_download_that_breaks_off_goes_on_where_it_was(s3: Any, bucket: str) -> None:
    open_files(f"s3://{bucket}", client=s3).save("x", LARGE[:4_000_000])
    client = BreakingClient(s3, 1_500_000)
    home = open_files(f"s3://{bucket}", client=client)
    assert home.read("x") == LARGE[:4_000_000]
    assert client.ranges == ["", "bytes=1500000-", "bytes=3000000-"]


def test_a_file_replaced_while_it_is_read_is_not_mixed(s3: Any, bucket: str) -> None:
    writer = open_files(f"s3://{bucket}", client=s3)
    writer.save("x", LARGE[:4_000_000])
    with open_files(f"s3://{bucket}", client=BreakingClient(s3, 2_000_000)).open("x") as stream:
        stream.read(10)
        writer.save("x", LARGE[1:4_000_001])
        with pytest.raises(FileChanged, match="replaced while it was read"):
            stream.read()


def test_a_download_that_never_gets_on_is_given_up(s3: Any, bucket: str) -> None:
    open_files(f"s3://{bucket}", client=s3).save("x", b"12345")
    client = BreakingClient(s3, 0)
    with pytest.raises(StoreUnreachable, match="S3 did not answer"):
        open_files(f"s3://{bucket}", client=client).read("x")
    assert len(client.ranges) == 5


# ── no bucket, no credentials, no network ────────────────────────────────────────────────────────


def test_a_missing_bucket_is_told_whatever_is_asked(s3: Any) -> None:
    home = open_files("s3://no-such-bucket-here/x", client=s3)
    asks = [
        lambda: home.save("x", b"1"),
        lambda: home.save("x", LARGE),
        lambda: home.save("x", iter([LARGE])),
        lambda: home.read("x"),
        lambda: home.exists("x"),
        lambda: home.info("x"),
        lambda: home.delete("x"),
        lambda: list(home.list()),
        lambda: home.sweep(),
    ]
    for ask in asks:
        with pytest.raises(StoreMissing, match=r"s3://no-such-bucket-here: there is no such bucket\. Make it:"):
            ask()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        if name not in ("AWS_ENDPOINT_URL_S3", "AWS_EC2_METADATA_DISABLED", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    yield


@pytest.mark.usefixtures("nowhere")
def test_missing_credentials_are_told() -> None:
    for url in ("s3://some-bucket", "s3://some-bucket?profile=nobody"):
        with pytest.raises(NotAllowed, match=r"there are no AWS credentials .* Sign in"):
            open_files(url).save("x", b"1")


@pytest.mark.usefixtures("nowhere")
def test_an_s3_that_does_not_answer_is_told_and_worth_repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr("penstock.files.bucket._ATTEMPTS", 1)
    with pytest.raises(StoreUnreachable, match="S3 did not answer") as caught:
        open_files("s3://some-bucket?region=eu-west-2").exists("x")
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDenied", 403, NotAllowed),
        ("ExpiredToken", 400, NotAllowed),
        ("NoSuchKey", 404, FileMissing),
        ("NoSuchBucket", 404, StoreMissing),
        ("PermanentRedirect", 301, FileError),
        ("InternalError", 500, StoreUnreachable),
        ("Whatever", 503, StoreUnreachable),
        ("Whatever", 400, FileError),
    ],
)
def test_each_refusal_of_s3_is_an_error_of_ours(code: str, status: int, kind: type[FileError]) -> None:
    answer = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(FileError) as caught, S3("b").translated_errors("s3://b/x"):
        raise ClientError(answer, "GetObject")
    assert type(caught.value) is kind and caught.value.code == code
    assert caught.value.next_step


def test_botocore_is_not_imported_for_a_folder() -> None:
    program = (
        "import sys; from penstock.files import open_files; open_files('out').exists('x'); open_files('s3://bucket');"
        "sys.exit(any(name in sys.modules for name in ('boto3', 'botocore')))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120).returncode == 0
