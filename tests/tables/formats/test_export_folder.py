"""Definitions exported to a folder (export.py; S1.5–6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleets import STAGING, Place, construction_expenses

from penstock.errors import AccessDeniedException, InternalServerError
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.definitions.sources import read_folder
from penstock.tables.formats.export import ExportReport, FileUnwritable, export

JOBS = Table("jobs", "id:S", indexes=[Index("by-state", "state:S")], ttl="expires", pitr=True, tags={"Team": "blue"})
LOGS = Table("logs", ("id:S", "at:N"))


@pytest.fixture
def place() -> Place:
    place = Place(naming=STAGING)
    place.apply(JOBS, LOGS)
    return place


def exported(place: Place, folder: Path, *tables: Table, dry_run: bool = False) -> ExportReport:
    place.watched.calls.clear()
    return export(place.db, tables, place.naming, folder, dry_run=dry_run)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_was_exported_is_the_definition_again(place: Place, tmp_path: Path) -> None:
    report = exported(place, tmp_path / "deep/schemas", JOBS, LOGS)
    assert report.is_whole and len(report.written) == 2
    assert set(place.watched.calls) == {
        "DescribeTable",
        "DescribeTimeToLive",
        "DescribeContinuousBackups",
        "GetResourcePolicy",
        "ListTagsOfResource",
    }, "it only reads"
    other = Place()
    again = read_folder(tmp_path / "deep/schemas")
    other.apply(*again)
    assert place.survey(*again).plan.is_empty
    assert other.survey(JOBS, LOGS).plan.is_empty


def test_a_second_export_is_the_same_bytes_and_writes_nothing(place: Place, tmp_path: Path) -> None:
    exported(place, tmp_path, JOBS, LOGS)
    before = contents(tmp_path)
    place.put("jobs", {"id": {"S": "1"}})
    report = exported(place, tmp_path, JOBS, LOGS)
    assert (len(report.written), len(report.unchanged)) == (0, 2)
    after = contents(tmp_path)
    assert {name: text for name, text in after.items() if name.endswith(".json")} == {
        name: text for name, text in before.items() if name.endswith(".json")
    }


def test_the_same_table_of_two_environments_is_the_same_file(tmp_path: Path) -> None:
    texts = set()
    for naming in (STAGING, Place().naming):
        place = Place(naming=naming)
        place.apply(JOBS)
        exported(place, tmp_path, JOBS)
        texts.add((tmp_path / "jobs.json").read_bytes())
    assert len(texts) == 1


def test_a_missing_table_is_reported_and_the_rest_go_on(place: Place, tmp_path: Path) -> None:
    (tmp_path / "gone.json").write_text("as it was")
    report = exported(place, tmp_path, JOBS, Table("gone", "id:S"), LOGS)
    assert report.missing == ("construction-expenses-staging-gone",)
    assert not report.is_whole
    assert (tmp_path / "gone.json").read_text() == "as it was"
    assert (tmp_path / "logs.json").exists()
    lines = (tmp_path / "table-summary.txt").read_text().splitlines()
    assert lines[0].split() == ["TABLE", "KEYS", "INDEXES", "BILLING", "ITEMS", "BYTES", "FILE"]
    assert "missing" in lines[2]


@pytest.mark.parametrize("operation", ["DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups"])
def test_a_failed_read_overwrites_nothing(place: Place, tmp_path: Path, operation: str) -> None:
    exported(place, tmp_path, JOBS)
    before = contents(tmp_path)
    place.apply(JOBS.replace(ttl=None, indexes=()))
    place.watched.fail(operation, InternalServerError("try later"))
    report = exported(place, tmp_path, JOBS)
    assert [one.code for one in report.failures] == ["InternalServerError"]
    assert report.summary is None
    assert contents(tmp_path) == before


def test_a_table_that_is_being_made_is_not_written_down_half(tmp_path: Path) -> None:
    place = Place(table_seconds=30)
    place.apply(JOBS)
    exported(place, tmp_path, JOBS)
    before = contents(tmp_path)
    place.db.execute("DeleteTable", {"TableName": "jobs"})
    for status in ("DELETING", "CREATING"):
        (failure,) = exported(place, tmp_path, JOBS).failures
        assert status in failure.reason and "run the command again" in failure.next_step
        assert contents(tmp_path) == before
        place.apply(JOBS, max_wait_seconds=31)


def test_one_unreadable_table_stops_no_other(place: Place, tmp_path: Path) -> None:
    place.watched.fail("DescribeTable", AccessDeniedException("not authorized"))
    report = exported(place, tmp_path, JOBS, LOGS)
    assert (len(report.written), len(report.failures)) == (1, 1)


def test_a_dry_run_writes_nothing(place: Place, tmp_path: Path) -> None:
    report = exported(place, tmp_path / "new", JOBS, dry_run=True)
    assert len(report.written) == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_told(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileUnwritable, match="Nothing there was overwritten"):
        exported(place, tmp_path / "file", JOBS)


def test_no_half_written_file_is_left_behind(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(place, tmp_path, JOBS)
    before = contents(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock.tables.formats.export.os.fsync", full)
    place.apply(JOBS.replace(ttl=None))
    with pytest.raises(FileUnwritable, match="No space left"):
        exported(place, tmp_path, JOBS.replace(ttl=None))
    assert contents(tmp_path) == before


def test_thirteen_tables_have_thirteen_files_and_a_summary(tmp_path: Path) -> None:
    place = Place(naming=STAGING)
    place.apply(*construction_expenses())
    exported(place, tmp_path, *construction_expenses())
    assert len(list(tmp_path.glob("*.json"))) == 13
    assert len((tmp_path / "table-summary.txt").read_text().splitlines()) == 14
