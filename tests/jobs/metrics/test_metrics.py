"""Instruments and their text; what a worker counts; what a reading of queues costs."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_parser import Family, parse

import penstock
from penstock.client.database import Database
from penstock.client.wrappers.metering import Meter, Metering
from penstock.clock import ManualClock
from penstock.errors import ConnectionFailed, PenstockError
from penstock.jobs.metrics import instruments
from penstock.jobs.metrics.http import metrics_server
from penstock.jobs.metrics.instruments import OTHER, Registry
from penstock.jobs.metrics.queue_metrics import FRESH_SECONDS, QueueMetrics
from penstock.jobs.metrics.worker_metrics import WorkerMetrics
from penstock.jobs.store.depths import read_depth
from penstock.jobs.worker.worker import Worker
from penstock.retry import RetryPolicy

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


def value(family: Family, **labels: str) -> float:
    return family.samples[family.name, tuple(labels.items())]


@given(st.lists(ANY_TEXT, min_size=1, max_size=5, unique=True), ANY_TEXT)
def test_any_label_and_help_come_back_as_they_were(labels: list[str], about: str):
    registry = Registry()
    counter = registry.counter("penstock_things_total", "x" + about, ["task"])
    for label in labels:
        counter.add(label)
    family = parse(registry.text().replace("\r", "?") if "\r" in about + "".join(labels) else registry.text())
    if "\r" not in about + "".join(labels):
        assert family["penstock_things_total"].help == "x" + about
        assert {key[1][0][1] for key in family["penstock_things_total"].samples} == set(labels)


@given(st.lists(st.floats(0, 10_000), min_size=1, max_size=50))
def test_a_histogram_counts_each_value_in_every_bucket_that_holds_it(values: list[float]):
    registry = Registry()
    histogram = registry.histogram("penstock_wait_seconds", "Waits.", ["task"], bounds=(1, 10, 100))
    for one in values:
        histogram.observe(one, "a")
    family = parse(registry.text())["penstock_wait_seconds"]
    for bound in (1, 10, 100):
        key = ("penstock_wait_seconds_bucket", (("task", "a"), ("le", str(bound))))
        assert family.samples[key] == sum(one <= bound for one in values)
    assert math.isclose(family.samples["penstock_wait_seconds_sum", (("task", "a"),)], sum(values), rel_tol=1e-9)


def test_the_number_of_series_has_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(instruments, "MOST_SERIES", 2)
    counter = Registry().counter("penstock_things_total", "Things.", ["task"])
    for name in ("a", "b", "c", "d", "a"):
        counter.add(name)
    assert counter.values() == {("a",): 2, ("b",): 1, (OTHER,): 2}


def test_what_cannot_be_read_is_left_out_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    registry = Registry()

    def away() -> Any:
        raise ConnectionFailed("http://db.test", "connection refused", "Is it running?", sent=False)

    registry.gauge("penstock_a", "A.", source=away)
    registry.gauge("penstock_b", "B.", source=lambda: {(): 1.5})
    assert set(parse(registry.text())) == {"penstock_b"}


@pytest.fixture
def app() -> Iterator[penstock.App]:
    with penstock.App(":memory:") as app:

        @app.task(retries=RetryPolicy(1, base_seconds=0))
        def work(n: int) -> int:
            if n < 0:
                raise ValueError("negative")
            return n

        yield app


def test_a_worker_counts_attempts_their_ends_and_their_times(app: penstock.App):
    app.tasks["work"].enqueue_many([{"n": 1}, {"n": 2}, {"n": -1}])
    metrics = WorkerMetrics(lambda: app.store, ("default",))
    Worker(app, burst=True, concurrency=2, metrics=metrics).run()
    found = parse(metrics.registry.text())
    assert value(found["penstock_attempts_total"], task="work") == 4
    ends = found["penstock_attempts_ended_total"]
    assert {key[1][1][1]: count for key, count in ends.samples.items()} == {"completed": 2, "failed": 1, "retried": 1}
    for name in ("penstock_job_wait_seconds", "penstock_attempt_run_seconds"):
        assert found[name].samples[f"{name}_count", (("task", "work"),)] == 4
    assert value(found["penstock_jobs_running"]) == 0
    assert value(found["penstock_lease_renewals_total"]) == 0
    assert value(found["penstock_queue_jobs"], queue="default", state="ready") == 0


def test_a_takeover_is_counted_as_a_crash(app: penstock.App):
    clock = ManualClock(1_900_000_000.0)
    app.use(app.store.db, clock=clock)
    job = app.tasks["work"].enqueue(n=1)
    metrics = WorkerMetrics(lambda: app.store, ("default",))
    held = app.store.claim(app.get(job.id), "w1", 30)
    assert held is not None
    metrics.note_start(held)
    clock.advance(3600)
    taken = app.store.claim(app.get(job.id), "w2", 30)
    assert taken is not None
    metrics.note_start(taken)
    found = parse(metrics.registry.text())
    assert value(found["penstock_crashes_total"], task="work") == 1


def test_renewals_of_leases_are_counted(app: penstock.App):
    app.tasks["work"].enqueue_many([{"n": 1}, {"n": 2}])
    held = [app.store.claim(job, "w1", 30) for job in app.jobs.find()]
    app.store.renew(held[0])  # type: ignore[arg-type]
    app.store.renew_together(held[1:])  # type: ignore[arg-type]
    assert app.store.renewals == 2


def test_the_depth_of_a_queue_is_that_of_its_pools_and_the_age_that_of_any_priority():
    clock = ManualClock(1_900_000_000.0)
    with penstock.App(":memory:", clock=clock, shards=2) as app:
        task = app.task_named("work")
        task.options(priority=1).enqueue(n=1)
        clock.advance(100)
        parent = task.options(priority=9).enqueue(n=2)
        task.options(delay=60).enqueue(n=3)
        task.options(depends_on=[parent.id]).enqueue(n=4)
        task.options(queue="mail").enqueue(n=5)
        depth = read_depth(app.store, "default")
        assert (depth.ready, depth.later, depth.waiting, depth.is_exact) == (2, 1, 1, True)
        assert depth.oldest_at == 1_900_000_000.0
        assert read_depth(app.store, "none").oldest_at is None


def test_counting_stops_at_its_limit_and_says_so(monkeypatch: pytest.MonkeyPatch, app: penstock.App):
    monkeypatch.setattr("penstock.jobs.store.depths.MOST_COUNTED", 3)
    app.tasks["work"].enqueue_many([{"n": n} for n in range(40)])
    depth = read_depth(app.store, "default")
    assert depth.ready <= 3 * app.store.layout.shards and not depth.is_exact


def test_asking_more_often_reads_no_more(app: penstock.App):
    meter = Meter()
    app.store  # noqa: B018 - opens it
    app.use(Database(Metering(app.store.db.transport, meter)))
    now = [0.0]
    registry = Registry()
    QueueMetrics(lambda: app.store, lambda: ["default"], monotonic=lambda: now[0]).add_to(registry)
    registry.text()
    first = meter.units().calls
    registry.text()
    paused = meter.units().calls - first  # whether a queue is paused is read each time: one item
    assert paused == 1
    now[0] = FRESH_SECONDS
    registry.text()
    assert meter.units().calls > first + 2 * paused


def test_the_units_of_a_worker_are_counted_where_a_meter_is_given(app: penstock.App):
    meter = Meter()
    app.store  # noqa: B018
    app.use(Database(Metering(app.store.db.transport, meter, level="TOTAL")))
    metrics = WorkerMetrics(lambda: app.store, ("default",), meter=meter)
    app.tasks["work"].enqueue(n=1)
    found = parse(metrics.registry.text())
    assert value(found["penstock_database_units_total"], kind="write") > 0
    assert value(found["penstock_database_calls_total"], outcome="failed") == 0


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────


def fetch(url: str, **headers: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_are_served_on_this_machine_alone():
    healthy = [True]
    with metrics_server(0, lambda: "# metrics\n", lambda: healthy[0]) as port:
        url = f"http://127.0.0.1:{port}"
        assert fetch(f"{url}/metrics") == (200, instruments.CONTENT_TYPE, "# metrics\n")
        assert fetch(f"{url}/healthz")[0] == 200
        healthy[0] = False
        assert fetch(f"{url}/healthz")[0] == 503
        assert fetch(f"{url}/other")[0] == 404
        assert fetch(f"{url}/metrics", Host="evil.example")[0] == 400
        with pytest.raises(PenstockError, match="metrics-port"), metrics_server(port, str, bool):
            pass
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-metrics" and thread.is_alive()]


# ── OpenTelemetry ────────────────────────────────────────────────────────────────────────────────

OTEL = """
import penstock
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
app = penstock.App(":memory:")

@app.task()
def work(n: int) -> int:
    return n

work.enqueue_many([{"n": 1}, {"n": 2}])
penstock.Worker(app, burst=True, concurrency=2).run()
found = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
for one in sorted(found, key=lambda one: one.name):
    for point in one.data.data_points:
        print(one.name, one.unit, dict(point.attributes), getattr(point, "value", None) or getattr(point, "count", 0))
"""


def test_a_program_that_has_opentelemetry_gets_the_same_instruments():
    text = subprocess.run([sys.executable, "-c", OTEL], capture_output=True, text=True, check=True, timeout=120).stdout
    assert "penstock.attempts 1 {'task': 'work'} 2" in text
    assert "penstock.attempts_ended 1 {'task': 'work', 'outcome': 'completed'} 2" in text
    assert "penstock.job_wait s {'task': 'work'} 2" in text
    assert "penstock.queue_jobs 1 {'queue': 'default', 'state': 'ready'} 0" in text


def test_a_program_without_it_does_not_load_it():
    code = (
        "import sys, penstock\napp = penstock.App(':memory:')\n@app.task()\ndef f(): pass\nf.enqueue()\n"
        "penstock.Worker(app, burst=True).run()\nprint(any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    assert text.strip() == "False"
