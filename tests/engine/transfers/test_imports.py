"""Imports: formats, bad lines, hostile objects, names and tokens."""

from __future__ import annotations

import gzip
import io
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transfer_work import (
    ARN,
    BUCKET,
    begin_import,
    counts,
    definition,
    ended_import,
    export,
    import_table,
    make_table,
    put,
    scanned,
    with_index,
)

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.engine.transfers import object_records, runner
from penstock.engine.transfers.buckets import Bucket, BucketFailure, ObjectBytes
from penstock.errors import (
    AccessDeniedException,
    DynamoDBError,
    ImportConflictException,
    ImportNotFoundException,
    ResourceInUseException,
    ResourceNotFoundException,
    ValidationException,
)
from penstock.files.buckets import open_buckets

INVALID = (
    "Some of the items failed validation checks and were not imported. "
    "Please check CloudWatch error logs for more details."
)


def lines(*keys: str) -> bytes:
    return b"".join(json.dumps({"Item": {"id": {"S": key}}}).encode() + b"\n" for key in keys)


def write(bucket: Path, key: str, data: bytes) -> None:
    (bucket / key).parent.mkdir(parents=True, exist_ok=True)
    (bucket / key).write_bytes(data)


# ── formats ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("format", ["DYNAMODB_JSON", "ION"])
def test_what_is_exported_can_be_imported(db: Database, format: str):
    arn = make_table(db, "orders", 40)
    put(
        db,
        "orders",
        "all",
        s={"SS": ["a", "ü"]},
        b={"B": "AAE="},
        l={"L": [{"NULL": True}]},
        m={"M": {"x y": {"N": "1.5"}}},
    )
    done = export(db, arn, ExportFormat=format)
    prefix = done["ExportManifest"].replace("manifest-summary.json", "data/")
    told = import_table(db, "copy", prefix, InputFormat=format, InputCompressionType="GZIP")
    assert told["ImportStatus"] == "COMPLETED"
    assert counts(told) == (41, 41, 0)
    assert scanned(db, "copy") == scanned(db, "orders")


def test_an_index_is_filled_before_the_import_is_over(db: Database, bucket: Path):
    rows = [{"Item": {"id": {"S": f"k{n}"}, "owner": {"S": f"o{n % 3}"}}} for n in range(300)]
    write(bucket, "data/1.json", b"\n".join(json.dumps(row).encode() for row in rows))
    assert import_table(db, with_index("copy"), "data/")["ImportStatus"] == "COMPLETED"
    described = db.execute("DescribeTable", {"TableName": "copy"})["Table"]
    assert (described["TableStatus"], described["GlobalSecondaryIndexes"][0]["IndexStatus"]) == ("ACTIVE", "ACTIVE")
    found = db.execute(
        "Query",
        {
            "TableName": "copy",
            "IndexName": "by-owner",
            "KeyConditionExpression": "#o = :o",
            "ExpressionAttributeNames": {"#o": "owner"},
            "ExpressionAttributeValues": {":o": {"S": "o1"}},
        },
    )
    assert found["Count"] == 100


def test_csv_is_read_by_its_header_and_keys_have_their_types(db: Database, bucket: Path):
    text = 'id,n,note\r\n1,2,"a ""b"", c\r\nd"\r\n2,,\n3.50,x\n'
    write(bucket, "c/1.csv", b"\xef\xbb\xbf" + text.encode())
    table = definition("copy", AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}])
    told = import_table(db, table, "c/", InputFormat="CSV")
    assert (told["ImportStatus"], counts(told)) == ("COMPLETED", (3, 3, 0))
    found = db.execute("Scan", {"TableName": "copy"})["Items"]
    assert sorted(found, key=lambda one: one["id"]["N"]) == [
        {"id": {"N": "1"}, "n": {"S": "2"}, "note": {"S": 'a "b", c\r\nd'}},
        {"id": {"N": "2"}},
        {"id": {"N": "3.5"}, "n": {"S": "x"}},
    ]
    assert "InputFormatOptions" not in told


def test_csv_may_have_another_delimiter_and_its_header_in_the_request(db: Database, bucket: Path):
    write(bucket, "c/1.csv", b"a;1\nb;2;3\nc;\n")
    options = {"Csv": {"Delimiter": ";", "HeaderList": ["id", "val"]}}
    told = import_table(db, "copy", "c/", InputFormat="CSV", InputFormatOptions=options)
    assert (told["FailureCode"], counts(told)) == ("ItemValidationError", (3, 2, 1))
    assert told["InputFormatOptions"] == options
    assert scanned(db, "copy") == {"a": {"id": {"S": "a"}, "val": {"S": "1"}}, "c": {"id": {"S": "c"}}}


def test_columns_with_one_name_are_refused_in_the_request_as_in_the_object(db: Database, bucket: Path):
    write(bucket, "c/1.csv", b"a,1,2\n")
    options = {"Csv": {"HeaderList": ["id", "val", "val"]}}
    told = import_table(db, "copy", "c/", InputFormat="CSV", InputFormatOptions=options)
    assert (told["FailureCode"], counts(told)) == ("ItemValidationError", (1, 0, 1))


def test_zstd_is_read_or_what_to_install_is_named(db: Database, bucket: Path):
    try:
        import zstandard
    except ImportError:
        with pytest.raises(ValidationException, match=r"pip install 'penstock\[zstd\]'"):
            begin_import(db, "copy", "data/", InputCompressionType="ZSTD")
        return
    pieces = [zstandard.ZstdCompressor().compress(lines(key)) for key in ("a", "b")]
    write(bucket, "data/1", b"".join(pieces))
    told = import_table(db, "copy", "data/", InputCompressionType="ZSTD")
    assert (told["ImportStatus"], counts(told)) == ("COMPLETED", (2, 2, 0))


# ── bad lines ────────────────────────────────────────────────────────────────────────────────────


def test_an_item_without_its_key_is_skipped(db: Database, bucket: Path):
    write(bucket, "d/1", lines(*"abcd") + b'{"Item":{"x":{"S":"y"}}}\n' + lines(*"efghi"))
    told = import_table(db, "copy", "d/")
    assert (told["ImportStatus"], told["FailureCode"], told["FailureMessage"]) == (
        "FAILED",
        "ItemValidationError",
        INVALID,
    )
    assert counts(told) == (10, 9, 1)
    assert sorted(scanned(db, "copy")) == list("abcdefghi")
    (event,) = map(
        json.loads,
        (bucket / "AWSDynamoDB/imports" / told["ImportArn"].rpartition("/")[2] / "errors.jsonl")
        .read_text()
        .splitlines(),
    )
    assert event == {
        "itemS3Pointer": {"bucket": BUCKET, "key": "d/1", "itemIndex": 4},
        "importArn": told["ImportArn"],
        "errorMessages": ["One or more parameter values were invalid: Missing the key id in the item"],
    }


def test_garbage_ends_its_object_and_no_other(db: Database, bucket: Path):
    write(bucket, "d/1", lines(*"abcde") + b"garbage\n" + lines(*"fghi"))
    write(bucket, "d/2", lines("z"))
    told = import_table(db, "copy", "d/")
    assert (told["FailureCode"], counts(told)) == ("ItemValidationError", (7, 6, 1))
    assert sorted(scanned(db, "copy")) == list("abcdez")


def test_manifests_are_read_as_data(db: Database):
    done = export(db, make_table(db, "orders", 3), S3Prefix="exp")
    root = done["ExportManifest"].replace("manifest-summary.json", "")
    whole = import_table(db, "copy", root, InputCompressionType="GZIP")
    assert (whole["FailureCode"], counts(whole)) == ("ItemValidationError", (7, 3, 4))
    plain = import_table(db, "plain", root + "data/")
    assert (plain["FailureCode"], counts(plain)) == ("ItemValidationError", (4, 0, 4))


def test_a_prefix_is_the_beginning_of_keys(db: Database, bucket: Path):
    write(bucket, "data/1.json", lines("a"))
    write(bucket, "data2/x.json", b"garbage")
    write(bucket, "data.bak", b"garbage")
    assert counts(import_table(db, "one", "data")) == (3, 1, 2)
    assert counts(import_table(db, "two", "data/1.json")) == (1, 1, 0)
    assert import_table(db, "six", "none/")["ImportStatus"] == "COMPLETED"
    assert scanned(db, "six") == {}


@pytest.mark.parametrize(
    "bad",
    [
        {"id": {"S": ""}},
        {"id": {"N": "1"}},
        {"id": {"S": "x"}, "n": {"N": "one"}},
        {"id": {"S": "x"}, "n": {"S": 5}},
        {"id": {"S": "x"}, "n": {"Q": "5"}},
        {"id": {"S": "x"}, "n": 5},
        {"id": {"S": "x"}, "n": {"SS": []}},
        {"id": {"S": "x" * 3000}},
        {"id": {"S": "x"}, "n": {"S": "x" * 410_000}},
        {"id": {"S": "x"}, "owner": {"N": "1"}},
        [],
        "x",
    ],
)
def test_what_put_item_refuses_is_an_error(db: Database, bucket: Path, bad: Any):
    write(bucket, "d/1", lines("a") + json.dumps({"Item": bad}).encode() + b"\n" + lines("b"))
    told = import_table(db, with_index("copy"), "d/")
    assert (told["FailureCode"], counts(told)) == ("ItemValidationError", (3, 2, 1))


def test_of_equal_keys_the_last_wins(db: Database, bucket: Path):
    rows = [{"Item": {"id": {"S": "a"}, "n": {"N": str(n)}}} for n in range(5)]
    write(bucket, "d/1", b"\n".join(json.dumps(row).encode() for row in rows))
    told = import_table(db, "copy", "d/")
    assert (told["ImportStatus"], counts(told)) == ("COMPLETED", (5, 5, 0))
    assert scanned(db, "copy")["a"]["n"] == {"N": "4"}


def test_errors_are_written_down_up_to_a_limit(db: Database, bucket: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.engine.transfers.records.MOST_ERRORS", 10)
    write(bucket, "d/1", b'{"Item":{}}\n' * 3_000)
    told = import_table(db, "copy", "")
    assert counts(told) == (3_000, 0, 3_000)
    (errors,) = bucket.glob("AWSDynamoDB/imports/*/errors.jsonl")
    assert len(errors.read_bytes().splitlines()) == 10
    assert counts(import_table(db, "again", "")) == (3_000, 0, 3_000)  # the errors are no data


# ── hostile objects ──────────────────────────────────────────────────────────────────────────────


def bomb(piece: bytes, times: int) -> bytes:
    """gzip of a piece, repeated."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(compressor.compress(piece) for _ in range(times)), compressor.flush()])


HOSTILE: list[tuple[str, str, Callable[[], bytes]]] = [
    ("DYNAMODB_JSON", "NONE", lambda: b"[" * 10_000_000),
    ("DYNAMODB_JSON", "NONE", lambda: b'{"Item":{"id":' + b'{"M":{"x":' * 5_000 + b"\n"),
    ("DYNAMODB_JSON", "NONE", lambda: b"\xff\xfe\n"),
    ("DYNAMODB_JSON", "GZIP", lambda: bomb(b"\0" * 1_000_000, 60)),
    ("DYNAMODB_JSON", "GZIP", lambda: gzip.compress(lines("a"))[:-9]),
    ("DYNAMODB_JSON", "GZIP", lambda: b"\x1f\x8b\x08\x00garbage"),
    ("CSV", "NONE", lambda: b'id\n"' + b"x\n" * 6_000_000),
    ("CSV", "NONE", lambda: b"id\n" + b'"a"b\n'),
    ("CSV", "NONE", lambda: b"id,id\na,b\n"),
    ("CSV", "NONE", lambda: b"id,text\ra,b\r"),
    ("CSV", "NONE", lambda: b'id,text\n"a",b\rc\n'),
    ("CSV", "NONE", lambda: b"id\n\xff\n"),
    ("ION", "NONE", lambda: b"[" * 1_000_000),
    ("ION", "NONE", lambda: b"{Item:{id:" * 100_000),
    ("ION", "NONE", lambda: b'{Item:{id:"' + b"x" * 9_000_000),
    ("ION", "NONE", lambda: b"\xe0\x01\x00\xea\x0f"),
    ("ION", "NONE", lambda: b"{Item:{id:(a b)}}"),
    ("ION", "NONE", lambda: b"{Item:{id:2026-01-01T}} {"),
    ("ION", "NONE", lambda: b"'''" + b"a''' '''" * 500_000),
    ("ION", "NONE", lambda: b"/*" * 1_000_000),
]


@pytest.mark.parametrize(("format", "compression", "make"), HOSTILE)
def test_a_hostile_object_is_an_error_and_the_others_are_imported(
    db: Database, bucket: Path, format: str, compression: str, make: Callable[[], bytes]
):
    good = {"CSV": b"id\ngood\n", "ION": b'{Item:{id:"good"}}', "DYNAMODB_JSON": lines("good")}[format]
    write(bucket, "d/1", make())
    write(bucket, "d/2", gzip.compress(good) if compression == "GZIP" else good)
    told = import_table(db, "copy", "d/", InputFormat=format, InputCompressionType=compression)
    assert told["FailureCode"] == "ItemValidationError"
    assert "good" in scanned(db, "copy")


def test_a_bomb_of_blank_lines_ends_at_its_growth(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(object_records, "_FREE_BYTES", 1_000_000)
    monkeypatch.setattr(object_records, "MOST_GROWTH", 100)
    blocks = object_records.blocks(io.BytesIO(bomb(b"\n" * 1_000_000, 20)), "GZIP")
    with pytest.raises(object_records.Garbage, match="decompresses to more than"):
        list(blocks)
    blocks = object_records.blocks(io.BytesIO(bomb(b"\n" * 1_000_000, 1)), "GZIP")
    with pytest.raises(object_records.Garbage, match="lines are blank"):
        list(object_records.json_records(blocks))


ION_BLANKS = {"blanks": b" \n", "comments": b"/**/", "version marks": b"$ion_1_0 "}
BLANKS: list[tuple[str, bytes, bytes]] = [
    ("DYNAMODB_JSON", b"", b" \n"),
    ("DYNAMODB_JSON", b"", b" " * 9_999 + b"\n"),
    ("CSV", b"id\n", b"\r\n"),
    *(("ION", b"", blank) for blank in ION_BLANKS.values()),
]


@pytest.mark.parametrize(("format", "begins", "blank"), BLANKS)
def test_an_object_without_records_ends_before_it_is_read_to_its_end(format: str, begins: bytes, blank: bytes):
    piece = blank * (256 * 1024 // len(blank))
    read: list[int] = []

    def pieces() -> Iterator[bytes]:
        yield begins
        for number in range(400):
            read.append(number)
            yield piece

    records = object_records.reader_of(format, {}, {"id": "S"})
    with pytest.raises(object_records.Garbage, match=r"are blank|hold no record"):
        next(records(pieces()))
    assert len(read) < 40


def test_an_object_of_empty_members_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(object_records, "BLANK_LINES", 1_000)
    body = io.BytesIO(gzip.compress(b"") * 5_000)
    with pytest.raises(object_records.Garbage, match="parts of the object are empty"):
        list(object_records.blocks(body, "GZIP"))


def test_an_error_is_not_as_long_as_the_value_that_it_names(db: Database, bucket: Path):
    item = {"id": {"S": "a"}, "n": {"N": "x" * 1_000_000}}
    write(bucket, "d/1", json.dumps({"Item": item}).encode() + b"\n" + lines("good"))
    assert counts(import_table(db, "copy", "d/")) == (2, 1, 1)
    (errors,) = bucket.glob("AWSDynamoDB/imports/*/errors.jsonl")
    (reason,) = json.loads(errors.read_text())["errorMessages"]
    assert reason.startswith("The parameter cannot be converted to a numeric value: xxx")
    assert len(reason) < 2_000


class LosingBucket:
    """A bucket that is lost in the middle of an object, which is a shorter one when the bucket is back."""

    def __init__(self, real: Bucket) -> None:
        self._real = real
        self.put, self.list = real.put, real.list
        self._is_lost = False

    def open(self, key: str) -> ObjectBytes:
        if self._is_lost:
            return io.BytesIO(lines("k0"))
        self._is_lost = True
        pieces = iter([lines(*(f"k{number}" for number in range(2_500)))])

        def read(size: int) -> bytes:
            for piece in pieces:
                return piece
            raise BucketFailure("Lost", "it does not answer", retryable=True)

        return SimpleNamespace(read=read, close=lambda: None)


def test_an_object_that_is_shorter_when_its_import_is_continued_is_at_its_end(
    tmp_path: Path, buckets: Path, bucket: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runner, "_FIRST_WAIT_SECONDS", 0.0)
    write(bucket, "d/1", lines("k0"))
    lake = LosingBucket(open_buckets(buckets).bucket(BUCKET, None, "000000000000"))
    with connect(tmp_path / "other.db", buckets=SimpleNamespace(bucket=lambda *_: lake)) as db:
        told = import_table(db, "copy", "d/")
        assert (told["ImportStatus"], counts(told)) == ("COMPLETED", (2_000, 2_000, 0))


def test_an_import_that_cannot_be_done_stops_no_other(
    db: Database, bucket: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(runner, "_FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(runner, "TRIES", 2)
    read = object_records.json_records

    def failing(pieces: Iterator[bytes]) -> Iterator[object_records.Found]:
        for piece in pieces:
            if piece.startswith(b"poison"):
                raise TypeError("nobody expected this")
            yield from read(iter([piece]))

    monkeypatch.setattr(object_records, "json_records", failing)
    write(bucket, "bad/1", b"poison")
    write(bucket, "good/1", lines("a"))
    bad = begin_import(db, "first", "bad/")
    assert import_table(db, "second", "good/")["ImportStatus"] == "COMPLETED"
    told = ended_import(db, bad)
    assert (told["ImportStatus"], told["FailureCode"]) == ("FAILED", "InternalFailure")
    assert told["FailureMessage"] == "TypeError('nobody expected this')"
    assert "nobody expected this" in caplog.text


def test_what_is_decompressed_comes_in_blocks_however_well_it_was_compressed():
    zstandard = pytest.importorskip("zstandard")
    text = b"\n" * 50_000_000  # 1.6 KB
    pieces = list(object_records.blocks(io.BytesIO(zstandard.ZstdCompressor().compress(text)), "ZSTD"))
    assert sum(map(len, pieces)) == len(text)
    assert max(map(len, pieces)) <= object_records.BLOCK_BYTES


def test_short_reads_do_not_hide_a_bomb(monkeypatch: pytest.MonkeyPatch):
    zstandard = pytest.importorskip("zstandard")
    monkeypatch.setattr(object_records, "_FREE_BYTES", 1_000_000)
    body = io.BytesIO(zstandard.ZstdCompressor().compress(b"\n" * 20_000_000))
    short = SimpleNamespace(read=lambda size: body.read(100), close=body.close)
    with pytest.raises(object_records.Garbage, match="decompresses to more than"):
        list(object_records.blocks(short, "ZSTD"))


# ── names, tokens, races ─────────────────────────────────────────────────────────────────────────


def test_a_taken_name_is_refused(db: Database):
    make_table(db, "orders")
    with pytest.raises(ResourceInUseException) as caught:
        begin_import(db, "orders", "d/")
    assert caught.value.message == "Table already exists: orders"


def test_of_racing_imports_one_wins(db: Database, bucket: Path):
    write(bucket, "d/1", lines(*"abc"))
    arns: list[str] = []
    threads = [threading.Thread(target=lambda: arns.append(begin_import(db, "copy", "d/"))) for _ in range(4)]
    db.engine.maintenance.stop()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    from penstock.engine.maintenance import Maintenance

    db.engine.maintenance = Maintenance(db.engine)
    db.engine.maintenance.wake()
    ended = [ended_import(db, arn) for arn in arns]
    assert sorted(one.get("FailureCode", "none") for one in ended) == ["TableAlreadyExists"] * 3 + ["none"]
    assert sorted(scanned(db, "copy")) == list("abc")


def test_without_its_bucket_an_import_leaves_no_table(db: Database):
    source = {"S3Bucket": "nowhere"}
    told = import_table(db, "copy", "", S3BucketSource=source)
    assert (told["ImportStatus"], told["FailureCode"]) == ("FAILED", "S3NoSuchBucket")
    assert told["TableArn"] == ARN + "copy"
    with pytest.raises(ResourceNotFoundException):
        db.execute("DescribeTable", {"TableName": "copy"})
    begin_import(db, "copy", "d/")


def test_a_token_means_its_import_while_that_is_in_progress(db: Database, bucket: Path):
    write(bucket, "d/1", lines("a"))
    db.engine.maintenance.stop()  # nobody begins it
    first = begin_import(db, "copy", "d/", ClientToken="t")
    assert begin_import(db, "copy", "other/", ClientToken="t") == first
    with pytest.raises(ImportConflictException) as caught:
        begin_import(db, "other", "d/", ClientToken="t")
    assert caught.value.message == "Import conflict: Duplicate request detected with conflicting parameters"


def test_a_token_of_an_import_that_is_over(db: Database, bucket: Path):
    write(bucket, "d/1", lines("a"))
    done = import_table(db, "copy", "d/", ClientToken="t")
    with pytest.raises(ResourceInUseException):
        begin_import(db, "copy", "d/", ClientToken="t")
    db.execute("DeleteTable", {"TableName": "copy"})
    assert begin_import(db, "copy", "d/", ClientToken="t") == done["ImportArn"]
    assert "copy" not in db.tables()


def test_a_table_cannot_be_used_before_it_is_imported(tmp_path: Path, buckets: Path, bucket: Path):
    write(bucket, "d/1", lines("a"))
    with connect(tmp_path / "a.db", buckets=buckets) as db:
        db.engine.maintenance.stop()
        arn = begin_import(db, "copy", "d/")
        with pytest.raises(ResourceNotFoundException):
            db.execute("DescribeTable", {"TableName": "copy"})
        run = db.engine
        from penstock.engine.transfers.runner import Runner

        runner = Runner(run)
        run.transfers = runner
        with run.reading() as context:
            from penstock.engine.transfers import records

            (waiting,) = records.in_progress(context.db)
        step = runner._taken(waiting)
        assert step is not None and step.step()
        assert db.execute("DescribeTable", {"TableName": "copy"})["Table"]["TableStatus"] == "CREATING"
        with pytest.raises(ResourceNotFoundException):
            put(db, "copy", "x")
        with pytest.raises(ResourceInUseException):
            db.execute("DeleteTable", {"TableName": "copy"})
        assert (
            db.execute("DescribeImport", {"ImportArn": arn})["ImportTableDescription"]["ImportStatus"] == "IN_PROGRESS"
        )


def test_wrong_requests_are_refused(db: Database):
    with pytest.raises(ValidationException) as caught:
        begin_import(db, "copy", "d/", InputFormatOptions={"Csv": {"Delimiter": ","}})
    assert caught.value.message == (
        "Invalid Request: Unsupported InputFormatOptions for the given input format: DYNAMODB_JSON."
    )
    with pytest.raises(ValidationException) as caught:
        begin_import(db, "copy", "d/", InputCompressionType="BZIP2")
    assert caught.value.message == (
        "1 validation error detected: Value 'BZIP2' at 'inputCompressionType' failed to satisfy constraint: "
        "Member must satisfy enum value set: [ZSTD, NONE, GZIP]"
    )
    table = definition("copy")
    del table["BillingMode"]
    with pytest.raises(ValidationException, match="ReadCapacityUnits and WriteCapacityUnits must both be specified"):
        begin_import(db, table, "d/")
    with connect() as bare, pytest.raises(ValidationException, match="--buckets DIR"):
        begin_import(bare, "copy", "d/")


def test_imports_are_described_and_listed_even_when_their_table_is_gone(db: Database, bucket: Path, clock: ManualClock):
    write(bucket, "d/1", lines("a"))
    done = [import_table(db, f"copy{n}", "d/") for n in range(11)]
    db.execute("DeleteTable", {"TableName": "copy0"})
    assert done[0]["CloudWatchLogGroupArn"] == "arn:aws:logs:us-east-1:000000000000:log-group:/aws-dynamodb/imports:*"
    assert done[0]["S3BucketSource"]["S3BucketOwner"] == "000000000000"
    assert done[0]["InputCompressionType"] == "NONE"
    first = db.execute("ListImports", {})
    assert [one["ImportArn"] for one in first["ImportSummaryList"]] == [one["ImportArn"] for one in done[:0:-1]]
    rest = db.execute("ListImports", {"NextToken": first["NextToken"]})["ImportSummaryList"]
    assert [one["ImportArn"] for one in rest] == [done[0]["ImportArn"]]
    (own,) = db.execute("ListImports", {"TableArn": ARN + "copy0"})["ImportSummaryList"]
    assert own["ImportArn"] == done[0]["ImportArn"]


@pytest.mark.parametrize(
    ("arn", "kind"),
    [
        (f"{ARN}orders/import/01", ImportNotFoundException),
        (ARN.replace("us-east-1", "us-west-2") + "orders/import/01", ImportNotFoundException),
        (f"{ARN}orders/export/01", ValidationException),
        ("x" * 40, ValidationException),
        (ARN.replace("000000000000", "123456789012") + "orders/import/01", AccessDeniedException),
    ],
)
def test_an_import_that_is_not_there_is_refused(db: Database, arn: str, kind: type[DynamoDBError]):
    with pytest.raises(kind) as caught:
        db.execute("DescribeImport", {"ImportArn": arn})
    assert kind is not ValidationException or caught.value.message == "Invalid Import ARN"
