"""What an attacker sends to the dashboard's actions, and stores for its pages to show.

Every POST of the dashboard is found by its routes: one that is added is attacked too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest
from dashboard_tables_world import TableWorld, fields_of
from dashboard_world import CSRF, World
from starlette.routing import Route

from penstock.engine.settings import Settings
from penstock.jobs.model.job import JobError, JobFile, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.scheduler.schedules import Schedules
from penstock.tables.definitions.aws_shapes import vector_index_shape
from penstock.tables.definitions.definition import VectorIndex
from penstock.web.dashboard import audit

EVIL = "<script>hack()</script><img src=x onerror=hack()>\"'&{{913*917}}${913*917}\u2028"
NAME = EVIL.replace("/", "|").replace("\\", "|")
"""The same without what a name may not have."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def posts(world: World) -> list[str]:
    """The path of every POST that the dashboard has."""
    routes = (one for one in world.app.routes if isinstance(one, Route) and one.methods and "POST" in one.methods)
    names = {"{name}": "penstock-jobs", "{job_id}": "job_x", "{name:path}": "x"}
    paths = [one.path for one in routes]
    for before, after in names.items():
        paths = [path.replace(before, after) for path in paths]
    return sorted(set(paths))


def state_of(world: World) -> list[dict[str, object]]:
    scan = world.db.execute("Scan", {"TableName": "penstock-jobs"})["Items"]
    return sorted(scan, key=repr)


FORGED: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"host": "evil.example"},
    {"host": "localhost.evil.example"},
    {"host": "[::1].evil.example"},
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
]


def test_no_forged_request_changes_anything_whatever_the_action(world: World) -> None:
    failed, waiting = world.failed(args={"a": 1}), world.made()
    Schedules(lambda: world.store, {}).create("nightly", "report", "@daily")
    csrf = CSRF.search(world.page("/jobs"))
    assert csrf is not None
    paths = posts(world)
    assert len(paths) >= 15 and {"/jobs/apply", "/queues/apply", "/schedules/apply"} <= set(paths)
    fields = {
        "verb": "cancel",
        "seen": f"queued {waiting.id}",
        "job": failed.id,
        "do": "pause default",
        "args": "{}",
        "key": '{"job_id":{"S":"x"},"record":{"S":"main"}}',
        "items": '[{"job_id":{"S":"x"},"record":{"S":"main"}}]',
        "item": '{"job_id":{"S":"x"},"record":{"S":"main"}}',
    }
    before = state_of(world)
    for path in paths:
        if path in ("/login", "/logout"):
            continue
        for headers in FORGED:
            data = {**fields, "csrf": csrf.group(1)}
            assert world.client.post(path, data=data, headers=headers).status_code in (400, 403), (path, headers)
        for token in ("", "0" * 64, csrf.group(1)[:-1], csrf.group(1).upper() + " ", "é"):
            assert world.client.post(path, data={**fields, "csrf": token}).status_code == 403, (path, token)
        query = f"{path}?{urlencode({**fields, 'csrf': csrf.group(1)})}"
        assert world.client.post(query).status_code == 403, "a token in the address is none"
        assert world.client.get(query).status_code in (200, 303, 400, 404, 405), path
    assert state_of(world) == before


@pytest.mark.parametrize(
    "odd",
    [
        *("", " ", "..", "../../etc/passwd", "%2e%2e", "\x00", "job_\n", "job_x\r\nSet-Cookie: a=b", "é" * 500),
        *("a" * 5_000, "audit#2026-11", "queue#default", "workers", "tenants", "job_x main", EVIL),
    ],
)
def test_an_odd_id_in_an_action_is_no_failure_of_ours_and_changes_nothing(world: World, odd: str) -> None:
    world.made()
    before = state_of(world)
    for verb in ("cancel", "retry", "run", "reschedule", "event", "clone"):
        inputs = [("when", "1h"), ("event", "go"), ("args", "{}")]
        for state in State:
            response = world.post("/jobs/apply", [("verb", verb), *inputs, ("seen", f"{state.value} {odd}")])
            assert response.status_code in (200, 400) and "0 of 1 done" in response.text, (verb, state)
            assert "<script>hack" not in response.text and "Traceback" not in response.text
        response = world.post("/jobs/preview", [("verb", verb), *inputs, ("job", odd)])
        assert response.status_code == 400
    assert state_of(world) == before


@pytest.mark.parametrize("seen", ["", "queued", "eaten job_x", "queued\njob_x", "QUEUED job_x"])
def test_a_state_that_no_page_showed_is_refused(world: World, seen: str) -> None:
    assert world.post("/jobs/apply", [("verb", "cancel"), ("seen", seen)]).status_code in (200, 400)
    assert world.post("/jobs/apply", [("verb", "delete"), ("seen", "queued job_x")]).status_code == 400


def test_a_name_at_sign_in_is_text_in_the_activity_and_no_second_line(tmp_path: Path) -> None:
    guarded = World(tmp_path, token="open sesame")
    form = {"token": "open sesame", "name": EVIL + "\r\nSet-Cookie: a=b"}
    guarded.client.post("/login", data={**form, "csrf": csrf_of(guarded.get("/login").text)})
    job = guarded.made()
    guarded.post("/jobs/apply", [("verb", "cancel"), ("seen", f"queued {job.id}")])
    (line,) = audit.newest(guarded.store, 5)
    assert line.who.startswith("<script>") and len(line.who) <= 60
    assert_text_only(guarded.page("/activity"))
    guarded.close()


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]*)"', page)
    return "" if found is None else found.group(1)


class Elements(HTMLParser):
    """What a browser would make of a page: its elements, and attributes that run something."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "script" and not (values.get("src") or "").startswith("/static/"):
            self.bad.append("an inline script")
        if tag == "img" and not (values.get("src") or "").startswith("/static/"):
            self.bad.append(f"a picture of {values.get('src')}")
        self.bad += [f"{tag} has {name}" for name in values if name.startswith("on") or name == "style"]
        for name in ("href", "action", "formaction", "src"):
            value = values.get(name) or ""
            if value.strip().lower().startswith(("javascript:", "data:", "//", "http")):
                self.bad.append(f"{tag} leads to {value}")


def assert_text_only(page: str) -> None:
    elements = Elements()
    elements.feed(page)
    assert elements.bad == []
    assert str(913 * 917) not in page, "no template is made of data"


def test_html_in_every_field_is_text_on_every_page_and_in_every_live_fragment(world: World) -> None:
    options = {"tenant": NAME, "queue": NAME[:60], "tags": (NAME[:40],), "concurrency_key": EVIL[:90]}
    failed = world.store.fail(world.running(NAME, args={EVIL: EVIL}, **options), JobError(EVIL, EVIL, EVIL))
    running = world.running(NAME, owner=EVIL, depends_on=(), **{**options, "concurrency_key": "other"})
    running = world.store.report(running, progress=10, step=EVIL, message=EVIL, data={EVIL: EVIL})
    running = world.store.report(running, checkpoint=NAME, value={EVIL: EVIL}, summary=EVIL)
    world.store.attach(running, JobFile(EVIL, world.files.save("a/b", b"x")))
    child = world.store.create(NewJob(NAME, {}, depends_on=(running.id,), **options))[0]  # type: ignore[arg-type]
    world.store.pause(NAME[:60], EVIL)
    Schedules(lambda: world.store, {}).create(NAME, NAME, "@daily", args={EVIL: EVIL})
    world.post("/jobs/apply", [("verb", "event"), ("event", NAME), ("data", "1"), ("seen", f"queued {child.id}")])
    world.app.state.site.overview.refresh()
    paths = [
        "/",
        "/?span=7d",
        "/jobs",
        "/jobs?sort=kind",
        "/failures",
        "/queues",
        "/schedules",
        "/workers",
        "/activity",
    ]
    paths += [f"/jobs/{one.id}{rest}" for one in (failed, running, child) for rest in ("", "?find=%3Cscript%3E")]
    paths += [f"/jobs?q={urlencode({'q': EVIL})[2:]}", f"/jobs/{failed.id}/clone", "/tables", "/tables/penstock-jobs"]
    paths += [f"/schedules/schedule?{urlencode({'name': NAME})}", "/tables/penstock-jobs/items", "/partiql"]
    paths += [f"/partiql?{urlencode({'statement': f'SELECT {EVIL}'})}", "/tables/penstock-jobs/heat"]
    for path in paths:
        assert_text_only(world.get(path).text)
    for verb in ("cancel", "retry", "reschedule", "event", "clone"):
        wrong = [("when", EVIL), ("event", EVIL), ("data", EVIL), ("args", EVIL)]
        for fields in ([], wrong):
            chosen = [("job", one.id) for one in (failed, running, child)]
            assert_text_only(world.post("/jobs/preview", [("verb", verb), *fields, *chosen]).text)
    feeds = world.app.state.poller.feeds
    for name, keys in (("overview", ["", "7d"]), ("jobs", ["\n", f"{EVIL}\n"]), ("job", [failed.id, running.id])):
        for messages in feeds[name].poll(keys).values():
            for message in messages:
                assert_text_only(message.html or message.data)
    for name in ("failures", "queues", "schedules", "workers"):
        for message in feeds[name].poll([""])[""]:
            assert_text_only(message.html)


def evil_tables(world: TableWorld) -> None:
    """Every name and value that DynamoDB lets a user choose freely is one that attacks."""
    string = [{"AttributeName": one, "AttributeType": "S"} for one in (EVIL, f"{EVIL}2", f"{EVIL}3")]
    key = [{"AttributeName": EVIL, "KeyType": "HASH"}, {"AttributeName": f"{EVIL}2", "KeyType": "RANGE"}]
    by = [{"AttributeName": f"{EVIL}3", "KeyType": "HASH"}]
    kept = {"ProjectionType": "INCLUDE", "NonKeyAttributes": [f"{EVIL}4", "Ünïcödé\u202e"]}
    vectors = VectorIndex("near", f"{EVIL}5", dimensions=2, partition=f"{EVIL}:S", filters=[f"{EVIL}6:S"])
    made = {"TableName": "evil", "KeySchema": key, "BillingMode": "PAY_PER_REQUEST"}
    made |= {"GlobalSecondaryIndexes": [{"IndexName": "by-evil", "KeySchema": by, "Projection": kept}]}
    more = [*string, {"AttributeName": f"{EVIL}6", "AttributeType": "S"}]
    made |= {"AttributeDefinitions": more, "VectorIndexes": [vector_index_shape(vectors)]}
    world.db.execute("CreateTable", made)
    ttl = {"AttributeName": f"{EVIL}7", "Enabled": True}
    world.db.execute("UpdateTimeToLive", {"TableName": "evil", "TimeToLiveSpecification": ttl})
    value = {"S": EVIL}
    item = {EVIL: value, f"{EVIL}2": value, f"{EVIL}3": value, f"{EVIL}4": {"M": {EVIL: {"L": [value]}}}}
    item |= {f"{EVIL}5": {"L": [{"N": "1"}, {"N": "0"}]}, f"{EVIL}6": value, "set": {"SS": [EVIL]}}
    world.db.execute("PutItem", {"TableName": "evil", "Item": item})


def test_html_in_names_and_values_of_tables_is_text_on_every_page_and_in_every_live_fragment() -> None:
    world = TableWorld(settings=Settings(heat=True))
    evil_tables(world)
    key = json.dumps({EVIL: {"S": EVIL}, f"{EVIL}2": {"S": EVIL}})
    base = "/tables/evil"
    pages = {path: world.page(path) for path in ("/tables", base, f"{base}/items", f"{base}/heat", f"{base}/drift")}
    pages["index"] = world.page(f"{base}/items", index="by-evil", h=EVIL)
    pages["columns"] = world.page(f"{base}/items", c=EVIL, fa=f"{EVIL}6", fo="=", ft="S", fv=EVIL)
    pages["item"] = world.page(f"{base}/item", key=key)
    pages["new"] = world.page(f"{base}/new")
    pages["similar"] = world.page(f"{base}/similar", vector="[1, 0]", partition=EVIL)
    pages["backlog"] = world.page(base, backlog="1")
    pages["partiql"] = world.page("/partiql", statement='SELECT * FROM "evil"')
    for name in ("index", "columns", "item", "similar", "partiql", base, f"{base}/items"):
        assert "hack()" in pages[name], name
    csrf = {"csrf": csrf_of(pages["new"])}
    for verb in ("delete", "duplicate"):
        pages[verb] = world.post(f"{base}/items/chosen", {**csrf, "do": verb, "key": key}).text
    saved = fields_of(pages["item"])
    pages["mistaken"] = world.post(f"{base}/item", {**saved, "item": EVIL}).text
    world.db.execute(
        "UpdateItem",
        {
            "TableName": "evil",
            "Key": json.loads(key),
            "UpdateExpression": "SET #a = :b",
            "ExpressionAttributeNames": {"#a": f"{EVIL}8"},
            "ExpressionAttributeValues": {":b": {"S": EVIL}},
        },
    )
    pages["changed meanwhile"] = world.post(f"{base}/item", saved).text
    pages["to be deleted"] = world.post(f"{base}/item/delete", saved).text
    feeds = world.client.app.state.poller.feeds  # type: ignore[attr-defined]
    for name in ("table", "heat"):
        (message,) = feeds[name].poll(["evil"])["evil"]
        assert "hack()" in message.html, name
        pages[f"live {name}"] = message.html
    for name, page in pages.items():
        assert page, name
        assert_text_only(page)
    world.close()


def test_a_feed_with_an_odd_key_is_no_failure_and_shows_nothing(world: World) -> None:
    world.made()
    for name, feed in world.app.state.poller.feeds.items():
        for key in ("", "\x00", "../..", EVIL, "a" * 10_000, "\n\n\n", "é", "9" * 50):
            for messages in feed.poll([key]).values():
                for message in messages:
                    assert "<script>hack" not in (message.html or message.data), (name, key)
