"""One export: a data file a step, then its manifests.

A step writes one object, and then says so in the record. An interrupted step is done again, and writes the same object
(item_images.py, 3), so that nothing is exported twice and nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.clock import utc_text
from penstock.engine.transfers import export_files, records
from penstock.engine.transfers.buckets import Bucket, Buckets, Encryption
from penstock.engine.transfers.export_files import LEAST_FILES, DataBuffer, DataFile, Place
from penstock.engine.transfers.item_images import Bounds, Image, Images, Moment, Source, loaded
from penstock.engine.transfers.records import Record, Transfer
from penstock.expressions.request import QueryParts, query_of, scan_of
from penstock.wire.values import Item, base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

INCREMENTAL: Final = "INCREMENTAL_EXPORT"
LEAST_BILLED: Final = 10_000_000
"""Bytes that an incremental export is billed for at the least."""

Rest = Callable[[float], None]
"""Called after a piece of work with the seconds that it took: others compute and write meanwhile."""


def filter_parts(specification: Record) -> QueryParts:
    """What a FilterSpecification asks for. Raises ValidationException."""
    return query_of(specification) if "KeyConditionExpression" in specification else scan_of(specification)


class ExportRun:
    """One export that this process holds."""

    is_waiting = False

    def __init__(self, engine: Engine, buckets: Buckets, transfer: Transfer, holder: str, rest: Rest) -> None:
        self._engine = engine
        self._transfer = transfer
        self._holder = holder
        self._rest = rest
        self._record = record = transfer.record
        self._request = request = transfer.request
        self._format: str = request["ExportFormat"]
        self._is_incremental = request.get("ExportType") == INCREMENTAL
        self._place = Place(request.get("S3Prefix"), transfer.name, self._is_incremental)
        self._encryption = Encryption(request["S3SseAlgorithm"], request.get("S3SseKmsKeyId"))
        self._buckets = buckets
        self._bucket: Bucket | None = None
        specification = request.get("FilterSpecification")
        self._filter = None if specification is None else filter_parts(specification)
        self._images = _images(engine, record)

    def close(self) -> None:
        self._images.close()

    def step(self) -> bool:
        """Does the next step; whether there are more. Raises BucketFailure, LostHold, SourceGone."""
        record = self._record
        if self._bucket is None:
            owner = self._request.get("S3BucketOwner")
            self._bucket = self._buckets.bucket(self._request["S3Bucket"], owner, self._transfer.scope.account)
        if "files" not in record:
            self._put(self._place.key("_started"), b"")
            record.update(files=[], items=0, bytes=0)
            self._save()
        elif "finished_at" not in record:
            self._write_data()
            self._save()
        else:
            self._write_manifests()
            return False
        return True

    def _save(self) -> None:
        with self._engine.writing() as context:
            records.save(context, self._transfer, self._holder)

    def _put(self, key: str, data: bytes) -> str:
        assert self._bucket is not None
        return self._bucket.put(key, data, self._encryption)

    # ── data ─────────────────────────────────────────────────────────────────────────────────────

    def _write_data(self) -> None:
        record = self._record
        buffer, after, read = DataBuffer(), record.get("after"), 0
        if not record.get("is_read"):
            record["is_read"] = True
            for image in self._read(None if after is None else binary(after)):
                if buffer.is_full:
                    record["is_read"] = False
                    break
                read += image.size
                record["after"] = base64_text(image.key)
                line = self._line(image)
                if line is not None:
                    buffer.add(line)
        key = self._place.data_key(len(record["files"]), self._format)
        data = buffer.data()
        etag = self._put(key, data)
        record["files"].append(list(DataFile(key, buffer.items, export_files.md5_text(data), etag)))
        record["items"] += buffer.items
        record["bytes"] += read
        if record["is_read"] and len(record["files"]) >= LEAST_FILES:
            record["finished_at"] = max(round(self._engine.clock.now(), 3), self._transfer.started_at)

    def _read(self, after: bytes | None) -> Iterator[Image]:
        while True:
            began = perf_counter()
            images, after = self._images.read(after)
            yield from images
            self._rest(perf_counter() - began)
            if after is None:
                return

    def _line(self, image: Image) -> bytes | None:
        """The line of an image; None where the filter drops it."""
        if self._is_incremental:
            return self._change(image)
        assert image.new is not None
        if self._filter is None:
            return export_files.item_line(self._format, image.new)
        item = self._kept(orjson.loads(image.new))
        return None if item is None else export_files.item_line(self._format, item)

    def _kept(self, item: Item) -> Item | None:
        parts = self._filter
        if parts is None:
            return item
        if parts.filter is not None and not parts.filter(item):
            return None
        return item if parts.projector is None else parts.projector(item)

    def _change(self, image: Image) -> bytes | None:
        old, new = loaded(image.old), loaded(image.new)
        judged = old if new is None else new
        assert judged is not None
        keys = {name: judged[name] for name in self._record["key_names"]}
        if self._kept(judged) is None:
            return None
        if self._filter is not None and self._filter.projector is not None:
            project = self._filter.projector
            old, new = (None if one is None else project(one) for one in (old, new))
        if self._request["IncrementalExportSpecification"]["ExportViewType"] == "NEW_IMAGE":
            old = None
        return export_files.change_line(self._format, keys, round(image.written_at * 1_000_000), old, new)

    # ── manifests ────────────────────────────────────────────────────────────────────────────────

    def _write_manifests(self) -> None:
        record, place = self._record, self._place
        billed = max(record["bytes"], LEAST_BILLED) if self._is_incremental else record["bytes"]
        files = b"".join(DataFile(*one).line() for one in record["files"])
        summary = export_files.summary(place, self._summary_members(billed))
        for name, data in (("manifest-files", files), ("manifest-summary", summary)):
            self._put(place.key(f"{name}.md5"), export_files.md5_text(data).encode())
            self._put(place.key(f"{name}.json"), data)
        record.update(billed=billed, manifest=place.key("manifest-summary.json"))
        for done in ("files", "after", "is_read"):
            record.pop(done, None)
        with self._engine.writing() as context:
            records.end(context, self._transfer, self._holder, at=record.pop("finished_at"))

    def _summary_members(self, billed: int) -> Record:
        record, request, transfer = self._record, self._request, self._transfer
        text = utc_text
        members: Record = {
            "exportArn": transfer.arn,
            "startTime": text(transfer.started_at),
            "endTime": text(record["finished_at"]),
            "tableArn": transfer.table_arn,
            "tableId": record["table_id"],
        }
        if self._is_incremental:
            window = request["IncrementalExportSpecification"]
            members |= {
                "exportFromTime": text(window["ExportFromTime"]),
                "exportToTime": text(window["ExportToTime"]),
            }
        else:
            members["exportTime"] = text(request["ExportTime"])
        members |= {
            "s3Bucket": request["S3Bucket"],
            "s3Prefix": request.get("S3Prefix"),
            "s3SseAlgorithm": request["S3SseAlgorithm"],
            "s3SseKmsKeyId": request.get("S3SseKmsKeyId"),
            "billedSizeBytes": billed,
            "itemCount": record["items"],
            "outputFormat": self._format,
        }
        if self._is_incremental:
            view: Any = request["IncrementalExportSpecification"]["ExportViewType"]
            members |= {"outputView": view, "exportType": INCREMENTAL}
        return members


def _images(engine: Engine, record: Record) -> Images:
    low, low_open, high, high_open = record.get("bounds") or ("", True, None, True)
    bounds = Bounds(binary(low), low_open, None if high is None else binary(high), high_open)
    source = Source(record["table"], record["table_id"])
    return Images(engine, source, Moment(*record["since"]), record.get("until"), bounds)
