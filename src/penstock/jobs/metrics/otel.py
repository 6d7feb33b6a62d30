"""The instruments, given to OpenTelemetry: where a program has loaded its metrics, and not otherwise.

Nothing of OpenTelemetry is imported here: a program that configures it has done so already, and one that does not pays
nothing.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.errors import PenstockError
from penstock.jobs.metrics.instruments import Registry, Value


def is_loaded() -> bool:
    """Whether this program has OpenTelemetry's metrics."""
    return "opentelemetry.metrics" in sys.modules


def add(registry: Registry) -> None:
    """Makes an instrument of OpenTelemetry for each: `penstock_attempts_total` is `penstock.attempts`."""
    if not is_loaded():
        return
    metrics: Any = sys.modules["opentelemetry.metrics"]
    meter = metrics.get_meter("penstock")
    for instrument in registry.instruments.values():
        name = instrument.name.removesuffix("_total").removesuffix("_seconds").replace("_", ".", 1)
        unit = "s" if instrument.name.endswith("_seconds") else "1"
        if isinstance(instrument, Value):
            make = meter.create_observable_counter if instrument.kind == "counter" else meter.create_observable_gauge
            make(name, callbacks=[_observer(instrument, metrics.Observation)], unit=unit, description=instrument.about)
        else:
            instrument.on_observe = meter.create_histogram(name, unit=unit, description=instrument.about).record


def _observer(instrument: Value, observation: Any) -> Any:
    def observe(options: object) -> list[Any]:
        try:
            values = instrument.values()
        except (PenstockError, OSError):  # the database is away: nothing is known of it now
            return []
        return [observation(value, dict(instrument.named(labels))) for labels, value in values.items()]

    return observe
