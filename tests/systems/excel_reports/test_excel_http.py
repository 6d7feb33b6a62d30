"""The HTTP API of Excel reports: S0.12."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from starlette.testclient import TestClient

from penstock.client.database import Database, connect
from penstock.files import open_files
from penstock.systems.excel_reports.http import XLSX, excel_api
from penstock.systems.excel_reports.service import ExcelReports

PROJECT = "mlab_bodwassho_usa_3"
PENSTOCK = Path(sys.executable).with_name("penstock")


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as found:
        yield found


@pytest.fixture(params=["safe", "compat"])
def service(request: pytest.FixtureRequest, db: Database, tmp_path: Path) -> ExcelReports:
    found = ExcelReports(db, open_files(tmp_path / "files"), layout=request.param)
    found.prepare()
    return found


@pytest.fixture
def client(service: ExcelReports) -> Iterator[TestClient]:
    """Nobody works here but the test."""
    with TestClient(excel_api(service, concurrency=0), base_url="http://127.0.0.1") as found:
        yield found


def asked(client: TestClient, **options: Any) -> dict[str, Any]:
    answer = client.post("/generate-report", json={"idProject": PROJECT, "options": options})
    assert answer.status_code == 202, answer.text
    form: dict[str, Any] = answer.json()
    return form


def test_S0_12_a_wish_is_accepted_with_the_jobs_id_and_where_to_ask(client: TestClient) -> None:
    answer = client.post("/generate-report", json={"idProject": PROJECT})
    form = answer.json()
    assert (answer.status_code, form["status"]) == (202, "pending")
    assert form["statusUrl"] == answer.headers["location"] == f"http://127.0.0.1/jobs/{form['jobId']}"
    assert client.get(form["statusUrl"]).json()["status"] == "pending"


def test_S0_12_a_job_is_shown_with_its_history_and_its_file(client: TestClient, service: ExcelReports) -> None:
    job_id = asked(client, products=5, users=2)["jobId"]
    assert client.get(f"/jobs/{job_id}/report").status_code == 423
    service.worker(until_empty=True, concurrency=1).run()
    form = client.get(f"/jobs/{job_id}").json()
    assert (form["status"], form["progress"], form["idProject"]) == ("completed", 100, PROJECT)
    assert [one["sequenceNumber"] for one in form["history"]] == list(range(1, len(form["history"]) + 1))
    assert form["history"][-1]["recordType"] == "completion_log"
    assert form["result"]["downloadUrl"] == f"http://127.0.0.1/jobs/{job_id}/report"
    file = client.get(form["result"]["downloadUrl"])
    assert (file.headers["content-type"], PROJECT in file.headers["content-disposition"]) == (XLSX, True)
    assert load_workbook(io.BytesIO(file.content))["Products"].max_row == 7


@pytest.mark.parametrize("path", ["/jobs/job_mbzlks74_rfi5i0", "/jobs/x", "/jobs/x/report", f"/jobs/{'y' * 500}"])
def test_S0_12_a_job_that_there_is_not_is_404(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "not_found")


def test_S0_12_unknown_options_are_refused_with_a_list_of_errors(client: TestClient, service: ExcelReports) -> None:
    wrong = {"idProject": "", "options": {"colour": "red", "products": 1.5, "images": 501}, "priority": 1}
    answer = client.post("/generate-report", json=wrong)
    assert answer.status_code == 400
    assert answer.json()["error"]["errors"] == [
        "priority is not known; there are idProject, options",
        "idProject has 1 to 200 characters, not 0",
        "options.colour is not known; there are products, users, images, byCategory, seed, title",
        "options.products is a whole number, not 1.5",
        "options.images is from 0 to 500, not 501",
    ]
    assert service.jobs.list_jobs() == []


def test_S0_12_health_says_whether_the_table_is_there(client: TestClient, db: Database) -> None:
    assert client.get("/health").json()["status"] == "ok"
    db.execute("DeleteTable", {"TableName": "excel-report-jobs"})
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "unavailable")


def test_S0_12_a_failed_report_has_no_file(client: TestClient, service: ExcelReports) -> None:
    job_id = asked(client)["jobId"]
    service.jobs.fail_job(job_id, "no data", category="data_format")
    form = client.get(f"/jobs/{job_id}").json()
    assert (form["status"], form["error"]) == ("failed", {"category": "data_format", "message": "no data"})
    assert client.get(f"/jobs/{job_id}/report").status_code == 409


def test_S0_12_the_description_has_the_options(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/generate-report", "/jobs/{id}", "/jobs/{id}/report", "/health"}
    options = document["components"]["schemas"]["ReportOptions"]
    assert options["properties"]["products"]["maximum"] == 100_000
    assert set(document["paths"]["/generate-report"]["post"]["responses"]) == {"202", "400", "413"}


def test_S0_12_answers_are_as_the_description_says(client: TestClient, service: ExcelReports) -> None:
    shapes = client.get("/openapi.json").json()["components"]["schemas"]
    accepted = asked(client, products=2)
    service.worker(until_empty=True, concurrency=1).run()
    job = client.get(f"/jobs/{accepted['jobId']}").json()
    for name, form in (("Accepted", accepted), ("JobView", job), ("HistoryRecord", job["history"][0])):
        assert set(shapes[name]["required"]) <= set(form)
        assert set(form) <= set(shapes[name]["properties"])
    assert shapes["HistoryRecord"].get("additionalProperties", True), "one of completion has further members"
    assert shapes["ReportOptions"]["additionalProperties"] is False


def test_S0_12_the_face_makes_reports_itself(service: ExcelReports) -> None:
    with TestClient(excel_api(service), base_url="http://127.0.0.1") as client:
        assert _ended(lambda path: client.get(path).json(), asked(client, products=3)["jobId"]) == "completed"


def _ended(get: Any, job_id: str) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        status: str = get(f"/jobs/{job_id}")["status"]
        if status in ("completed", "failed"):
            return status
        time.sleep(0.05)
    raise AssertionError("it took too long")


def test_S0_12_penstock_excel_serve_on_a_port(tmp_path: Path) -> None:
    command = [PENSTOCK, "excel", "serve", "--db", tmp_path / "reports.db", "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        body = json.dumps({"idProject": PROJECT, "options": {"products": 3}}).encode()
        wish = urllib.request.Request(f"{url}/generate-report", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(wish, timeout=60) as answer:
            job_id = json.load(answer)["jobId"]
        assert _ended(lambda path: json.load(urllib.request.urlopen(url + path, timeout=60)), job_id) == "completed"
        other = urllib.request.Request(f"{url}/health", headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(other, timeout=60)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait()
