"""What a worker counts: attempts, how they end, how long jobs wait and run, renewals, and units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.client.wrappers.metering import Meter
from penstock.jobs.metrics import otel
from penstock.jobs.metrics.instruments import Registry
from penstock.jobs.metrics.queue_metrics import QueueMetrics
from penstock.jobs.model.job import Job
from penstock.jobs.store.store import JobStore

_STARTS: Final = ("started", "taken_over")


class WorkerMetrics:
    """The instruments of one worker process. Safe to share between its threads."""

    def __init__(
        self,
        store: Callable[[], JobStore],
        queues: tuple[str, ...],
        *,
        meter: Meter | None = None,
        with_queues: bool = True,
    ) -> None:
        """`meter` has counted the units of the store's database, where they are counted.

        Without the queues where something else in this process tells of them.
        """
        self.registry = registry = Registry()
        self.attempts = registry.counter("penstock_attempts_total", "Attempts that this worker has begun.", ["task"])
        self.ends = registry.counter(
            "penstock_attempts_ended_total",
            "Attempts that have ended: completed, failed, retried, requeued, cancelled, or lost to another worker.",
            ["task", "outcome"],
        )
        self.crashes = registry.counter(
            "penstock_crashes_total", "Jobs taken over from a worker that died, or whose lease ran out.", ["task"]
        )
        self.waits = registry.histogram(
            "penstock_job_wait_seconds", "From when a job is due until an attempt begins.", ["task"]
        )
        self.runs = registry.histogram("penstock_attempt_run_seconds", "How long attempts take.", ["task"])
        registry.counter(
            "penstock_lease_renewals_total",
            "Leases that this worker has renewed beside its tasks.",
            source=lambda: {(): float(store().renewals)},
        )
        self.running = registry.gauge("penstock_jobs_running", "Jobs that this worker runs now.", source=self._running)
        self._running_now: Callable[[], int] = lambda: 0
        if meter is not None:
            registry.counter(
                "penstock_database_units_total",
                "Capacity units that this worker has used.",
                ["kind"],
                lambda: {("read",): meter.units().read_units, ("write",): meter.units().write_units},
            )
            registry.counter(
                "penstock_database_calls_total",
                "Calls of the database, and those that failed.",
                ["outcome"],
                lambda: {("all",): meter.units().calls, ("failed",): meter.units().failed},
            )
        if with_queues:
            QueueMetrics(store, lambda: queues).add_to(registry)
        otel.add(registry)

    def watch(self, running: Callable[[], int]) -> None:
        """How many jobs run now is asked there."""
        self._running_now = running

    def _running(self) -> dict[tuple[str, ...], float]:
        return {(): float(self._running_now())}

    def note_start(self, job: Job) -> None:
        """An attempt begins; the job is as it was claimed."""
        self.attempts.add(job.task)
        self.waits.observe(max(0.0, job.updated_at - job.run_at), job.task)
        if job.events and job.events[-1].type == "taken_over":
            self.crashes.add(job.task)

    def note_end(self, job: Job, outcome: str) -> None:
        """An attempt has ended; the job is as it was stored then."""
        self.ends.add(job.task, outcome)
        started = next((event.at for event in reversed(job.events) if event.type in _STARTS), None)
        if started is not None:
            self.runs.observe(max(0.0, job.updated_at - started), job.task)
