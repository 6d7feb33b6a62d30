"""Counters, gauges and histograms, and their text as Prometheus reads it (exposition format 0.0.4).

1. A label's values come from programs, never from strangers: tasks, queues, outcomes. An instrument keeps at most
   MOST_SERIES of them; what comes later is counted under `(other)`.
2. A histogram's buckets are cumulative: each counts all values up to its bound, and the last one, +Inf, all values.
3. What an instrument reads when it is asked (a gauge with a source) may fail: it is then left out, and nothing else is.
"""

from __future__ import annotations

import logging
import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from penstock.errors import PenstockError

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES: Final = 1_000
OTHER: Final = "(other)"
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0)
"""Bounds for times: a short job takes milliseconds, a long one an hour."""

Kind = Literal["counter", "gauge", "histogram"]
Labels = tuple[str, ...]
Source = Callable[[], Mapping[Labels, float]]
_LOG = logging.getLogger("penstock.jobs")


class Sample(NamedTuple):
    """A line of the text."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Instrument:
    """A family of series with one name. Safe to share between threads."""

    kind: Kind

    def __init__(self, name: str, about: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.labels = tuple(labels)
        self._lock = threading.Lock()

    def samples(self) -> list[Sample]:
        raise NotImplementedError

    def named(self, values: Labels) -> tuple[tuple[str, str], ...]:
        """The values with the names of the labels."""
        return tuple(zip(self.labels, values, strict=True))


class Value(Instrument):
    """A counter or a gauge: numbers that are set here, or that its source tells when it is asked."""

    def __init__(
        self, kind: Literal["counter", "gauge"], name: str, about: str, labels: Sequence[str], source: Source | None
    ) -> None:
        super().__init__(name, about, labels)
        self.kind = kind
        self._source = source
        self._values: dict[Labels, float] = {} if labels or kind == "gauge" else {(): 0.0}

    def add(self, *labels: str, amount: float = 1.0) -> None:
        with self._lock:
            key = labels if labels in self._values or len(self._values) < MOST_SERIES else (OTHER,) * len(labels)
            self._values[key] = self._values.get(key, 0.0) + amount

    def values(self) -> dict[Labels, float]:
        """By the values of the labels. Raises what its source raises."""
        if self._source is not None:
            return dict(self._source())
        with self._lock:
            return dict(self._values)

    def samples(self) -> list[Sample]:
        return [Sample(self.name, self.named(labels), value) for labels, value in sorted(self.values().items())]


class Histogram(Instrument):
    """How many values there were up to each bound, how many in all, and their sum."""

    kind: Kind = "histogram"

    def __init__(self, name: str, about: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        super().__init__(name, about, labels)
        self.bounds = tuple(sorted(bounds))
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self.on_observe: Callable[[float, dict[str, str]], None] | None = None
        """Also told of each value."""

    def observe(self, value: float, *labels: str) -> None:
        with self._lock:
            key = labels if labels in self._counts or len(self._counts) < MOST_SERIES else (OTHER,) * len(labels)
            counts = self._counts.setdefault(key, [0] * (len(self.bounds) + 1))
            counts[bisect_left(self.bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value
        if self.on_observe is not None:
            self.on_observe(value, dict(self.named(key)))

    def samples(self) -> list[Sample]:
        with self._lock:
            counts = {labels: list(found) for labels, found in sorted(self._counts.items())}
            sums = dict(self._sums)
        samples: list[Sample] = []
        for labels, found in counts.items():
            named, total = self.named(labels), 0
            for bound, count in zip((*self.bounds, math.inf), found, strict=True):
                total += count
                samples.append(Sample(f"{self.name}_bucket", (*named, ("le", number_text(bound))), total))
            samples.append(Sample(f"{self.name}_sum", named, sums[labels]))
            samples.append(Sample(f"{self.name}_count", named, total))
        return samples


class Registry:
    """Instruments, in the order in which they were made."""

    def __init__(self) -> None:
        self.instruments: dict[str, Value | Histogram] = {}

    def counter(self, name: str, about: str, labels: Sequence[str] = (), source: Source | None = None) -> Value:
        return self._add(Value("counter", name, about, labels, source))

    def gauge(self, name: str, about: str, labels: Sequence[str] = (), source: Source | None = None) -> Value:
        return self._add(Value("gauge", name, about, labels, source))

    def histogram(
        self, name: str, about: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS
    ) -> Histogram:
        made = Histogram(name, about, labels, bounds)
        self.instruments[name] = made
        return made

    def _add(self, made: Value) -> Value:
        self.instruments[made.name] = made
        return made

    def text(self) -> str:
        """All of them as Prometheus reads it; what cannot be read now is left out (3)."""
        return "".join(text for one in list(self.instruments.values()) for text in _family(one))


def _family(instrument: Instrument) -> Iterator[str]:
    try:
        samples = instrument.samples()
    except (PenstockError, OSError) as error:
        _LOG.debug("%s cannot be read: %s", instrument.name, error)
        return
    if not samples:
        return
    yield f"# HELP {instrument.name} {_escape(instrument.about)}\n"
    yield f"# TYPE {instrument.name} {instrument.kind}\n"
    for name, labels, value in samples:
        yield f"{name}{_labels_text(labels)} {number_text(value)}\n"


def _labels_text(labels: Iterable[tuple[str, str]]) -> str:
    pairs = ",".join(f'{name}="{_escape(value, quotes=True)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escape(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def number_text(value: float) -> str:
    """`1`, `0.25`, `+Inf`, `NaN`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
