"""The security assistant over HTTP: what it takes, what it answers, and that companies are kept apart."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from penstock.client.database import connect
from penstock.jobs.model.state import State
from penstock.systems.security_assistant.drawing.agents import Agents, Answer, default_agents
from penstock.systems.security_assistant.drawing.components import Components
from penstock.systems.security_assistant.drawing.context import CONTEXT_BYTES, Context
from penstock.systems.security_assistant.drawing.pdf import DRAWING_BYTES, Drawing
from penstock.systems.security_assistant.drawing.sample import Building, PdfPage, pdf
from penstock.systems.security_assistant.http import Tenants, security_api
from penstock.systems.security_assistant.jobs.storage import Settings, Storage, open_storage, table_storage
from penstock.web.server import running_app

BUILDING = Building(levels=1, doors=3)
FORM = {"company_id": "7central", "client_name": "St. Mary's Hospital", "project_name": "Emergency Wing"}
PATIENCE_SECONDS = 60.0


@pytest.fixture(params=["local", "safe", "compat"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "local":
        with open_storage(Settings(folder=str(tmp_path / "out"))) as storage:
            yield storage
        return
    with connect(":memory:") as db:
        storage = table_storage(db, Settings("aws", files=str(tmp_path / "files"), layout=request.param))
        storage.prepare()
        yield storage


@pytest.fixture
def simple(tmp_path: Path) -> Iterator[Storage]:
    with open_storage(Settings(folder=str(tmp_path / "out"))) as storage:
        yield storage


@pytest.fixture
def client(simple: Storage) -> Iterator[TestClient]:
    """A face that processes nothing: jobs stay queued."""
    with TestClient(security_api(simple, concurrency=0), base_url="http://localhost") as client:
        yield client


def send(client: Any, data: bytes | None = None, form: dict[str, str] = FORM, **more: Any) -> Any:
    files = {"file": ("Level 2.pdf", BUILDING.pdf() if data is None else data, "application/pdf"), **more}
    return client.post("/process-drawing", data=form, files=files)


def ended(client: Any, url: str) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        form: dict[str, Any] = client.get(url).json()
        if form["status"] in ("completed", "failed"):
            return form
        assert time.monotonic() < until, form
        time.sleep(0.05)


def test_S2_17_a_drawing_is_taken_processed_and_downloaded(storage: Storage) -> None:
    with TestClient(security_api(storage), base_url="http://localhost") as client:
        told = send(client, context=("notes.txt", b"Standard: EN 60839", "text/plain"))
        assert told.status_code == 202, told.text
        job = told.json()["job_id"]
        assert told.headers["location"] == told.json()["status_url"]
        form = ended(client, told.json()["status_url"])
        assert form["status"] == "completed", form
        assert [stage["name"] for stage in form["stages"]] == ["pdf", "context", "components", "excel", "evaluation"]
        assert form["stages"][2]["summary"]["by_type"] == BUILDING.counts()
        assert set(form["downloads"]) == {"drawing", "context", "components", "excel", "evaluation"}
        excel = client.get(form["downloads"]["excel"])
        assert excel.content.startswith(b"PK") and 'filename="schedule_v1.xlsx"' in excel.headers["content-disposition"]
        assert excel.headers["content-type"].startswith("application/vnd.openxmlformats")
        assert client.get(f"/download/{job}/drawing?company=7central").content == BUILDING.pdf()
        assert client.get(f"/download/{job}/evaluation?company=7central").json()["score"] == 100


def test_S2_17_a_file_that_is_not_ready_is_locked(client: TestClient) -> None:
    told = send(client)
    job = told.json()["job_id"]
    assert told.json()["status"] == "queued"
    for kind in ("excel", "evaluation", "components"):
        locked = client.get(f"/download/{job}/{kind}?company=7central")
        assert (locked.status_code, locked.json()["error"]["kind"]) == (423, "not_ready")
    assert client.get(f"/download/{job}/drawing?company=7central").status_code == 200
    assert client.get(f"/download/{job}/context?company=7central").status_code == 404
    assert client.get(f"/download/{job}/..%2F..%2Fjobs.json?company=7central").status_code == 404
    assert client.get(f"/download/{job}/secrets?company=7central").status_code == 404
    assert client.get("/download/job_none/excel?company=7central").status_code == 404
    assert client.get("/status/job_none?company=7central").status_code == 404


def test_S2_17_while_a_stage_runs_the_schedule_is_locked(simple: Storage) -> None:
    go_on, began = threading.Event(), threading.Event()
    plain = default_agents()

    class Waiting:
        name = "schedule"

        def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]:
            began.set()
            assert go_on.wait(PATIENCE_SECONDS)
            return replace(plain.schedule.components(drawing, pdf, context), tokens=7)

    agents: Agents = replace(plain, schedule=Waiting())
    with TestClient(security_api(simple, agents=agents), base_url="http://localhost") as client:
        told = send(client).json()
        assert began.wait(PATIENCE_SECONDS)
        assert client.get(told["status_url"]).json()["status"] == "processing"
        assert client.get(f"/download/{told['job_id']}/excel?company=7central").status_code == 423
        go_on.set()
        assert ended(client, told["status_url"])["metadata"]["token_usage"]["by_agent"]["schedule"] == 7


def test_S2_17_a_job_that_another_server_has_left_is_gone_on_with(simple: Storage) -> None:
    with TestClient(security_api(simple, concurrency=0), base_url="http://localhost") as client:
        told = send(client).json()
    assert simple.job(told["job_id"]).state is State.QUEUED
    with TestClient(security_api(simple), base_url="http://localhost") as client:
        assert ended(client, told["status_url"])["status"] == "completed"


def test_S2_17_a_job_that_failed_says_why_in_place_of_its_file(simple: Storage) -> None:
    with TestClient(security_api(simple), base_url="http://localhost") as client:
        told = send(client, pdf([PdfPage()])).json()
        assert ended(client, told["status_url"])["error"]["kind"] == "NothingFound"
        gone = client.get(f"/download/{told['job_id']}/excel?company=7central")
        assert gone.status_code == 404 and "are blank" in gone.json()["error"]["message"]


def encrypted() -> bytes:
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.append(io.BytesIO(BUILDING.pdf()))
    writer.encrypt("secret", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


BAD_DRAWINGS = {
    "empty": (b"", 400, "empty"),
    "text": (b"hello", 400, "no PDF"),
    "head": (b"%PDF-1.4 hello", 422, "broken"),
    "encrypted": (encrypted(), 422, "encrypted"),
    "no pages": (pdf([]), 422, "no pages"),
    "huge": (b"%PDF-" + b"\0" * DRAWING_BYTES, 413, "are the limit"),
}


@pytest.mark.parametrize("kind", BAD_DRAWINGS)
def test_S2_17_bad_drawings_have_their_own_answers(client: TestClient, kind: str) -> None:
    data, status, words = BAD_DRAWINGS[kind]
    told = send(client, data)
    assert told.status_code == status and words in told.json()["error"]["message"], told.text


def test_S2_17_a_body_that_is_too_long_is_refused_before_it_comes(client: TestClient) -> None:
    headers = {"content-type": "application/pdf", "content-length": str(DRAWING_BYTES + CONTEXT_BYTES + 100_000)}
    assert client.post("/process-drawing", params=FORM, content=b"x", headers=headers).status_code == 413


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({}, "company_id is missing"),
        ({**FORM, "client_name": " "}, "client_name is missing"),
        ({**FORM, "client_name": "a/b"}, "may be in no name"),
        ({**FORM, "company_id": "a#b"}, "may be in no name"),
        ({**FORM, "project_name": ".."}, "may be in no name"),
        ({**FORM, "colour": "red"}, "colour is not known"),
    ],
)
def test_S2_17_fields_that_are_wrong_are_named(client: TestClient, form: dict[str, str], words: str) -> None:
    told = send(client, form=form)
    assert told.status_code == 400 and words in told.text


def test_S2_17_a_form_without_a_file_and_other_types_are_refused(client: TestClient) -> None:
    without = client.post("/process-drawing", data=FORM, files={"context": ("a.txt", b"x")})
    assert without.status_code == 400 and "file is missing" in without.text
    assert client.post("/process-drawing", json=FORM).status_code == 415
    assert client.get("/process-drawing").status_code == 405
    broken = client.post("/process-drawing", content=b"--x", headers={"content-type": "multipart/form-data"})
    assert broken.status_code == 400
    bad_context = send(client, context=("a.exe", b"x", "application/octet-stream"))
    assert bad_context.status_code == 422


def test_S2_17_a_drawing_may_be_the_body_itself(client: TestClient) -> None:
    told = client.post(
        "/process-drawing",
        params={**FORM, "file_name": "a.pdf"},
        content=BUILDING.pdf(),
        headers={"content-type": "application/pdf"},
    )
    assert told.status_code == 202
    assert client.get(told.json()["status_url"]).json()["metadata"]["file_name"] == "a.pdf"


def test_S2_17_health_and_description(client: TestClient, simple: Storage) -> None:
    assert client.get("/health").json()["status"] == "ok"
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) >= {"/process-drawing", "/status/{id}", "/download/{id}/{kind}", "/health"}
    responses = document["paths"]["/process-drawing"]["post"]["responses"]
    assert set(responses) >= {"202", "400", "413", "422"}
    Path(simple.store.where).write_text("{")
    away = client.get("/health")
    assert away.status_code == 503 and "is corrupt" in away.text


def test_S2_6_a_company_sees_its_own_jobs_only(client: TestClient) -> None:
    job = send(client).json()["job_id"]
    assert client.get(f"/status/{job}").status_code == 400
    assert client.get(f"/status/{job}", headers={"X-Company-Id": "7Central"}).status_code == 200
    for path in (f"/status/{job}", f"/download/{job}/drawing"):
        told = client.get(path, params={"company": "acme"})
        assert told.status_code == 404 and told.json()["error"]["kind"] == "not_found"
        assert client.get(path, params={"company": "../7central"}).status_code == 400


def test_S2_6_with_tokens_the_token_says_whose_jobs_are_seen(simple: Storage) -> None:
    face = security_api(simple, tenants=Tenants({"t-7central": "7central", "t-acme": "acme"}), concurrency=0)
    with TestClient(face, base_url="http://localhost") as client:
        assert send(client).status_code == 401
        client.headers["Authorization"] = "Bearer t-acme"
        assert send(client).status_code == 403
        client.headers["Authorization"] = "Bearer t-7central"
        job = send(client).json()["job_id"]
        assert client.get(f"/status/{job}").status_code == 200
        client.headers["Authorization"] = "Bearer t-acme"
        assert client.get(f"/status/{job}").status_code == 404
        assert client.get(f"/status/{job}?company=7central").status_code == 403
        assert client.get(f"/download/{job}/drawing", headers={"X-Company-Id": "7central"}).status_code == 404
        client.headers["Authorization"] = "Bearer wrong"
        assert client.get(f"/status/{job}").status_code == 401


def test_S2_17_it_works_over_a_real_connection(simple: Storage) -> None:
    with running_app(security_api(simple)) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        told = send(client)
        assert told.status_code == 202
        assert ended(client, told.json()["status_url"])["status"] == "completed"
