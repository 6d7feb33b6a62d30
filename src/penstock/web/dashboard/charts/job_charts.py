"""Charts of jobs as SVG: throughput, progress, attempts. Colours come from the style sheet; texts are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from penstock.clock import span, utc_text
from penstock.jobs.model.job import Entry, Event, Job
from penstock.jobs.model.state import TERMINAL, State
from penstock.web.dashboard.ended_jobs import Bar

# ── finished jobs ────────────────────────────────────────────────────────────────────────────────

_BAR: Final = 10
_HEIGHT: Final = 96


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars with what their axes say; texts are beside the picture, because it is stretched."""

    picture: Markup
    top: int
    """What the highest bar has."""
    labels: tuple[float, ...]
    """Times below the bars, evenly spaced."""


def throughput(bars: Sequence[Bar], words: str) -> BarChart:
    """How many ended in each stretch, and how many of them had failed; each says so under the pointer."""
    top = _round_up(max((one.completed + one.failed for one in bars), default=0))
    parts = []
    for place, one in enumerate(bars):
        low = _HEIGHT - _tall(one.completed, top)
        drawn = ""
        if one.completed:
            drawn += _rect(place * _BAR, low, _BAR - 2, _HEIGHT - low, "bar-completed")
        if one.failed:
            tall = _tall(one.failed, top)
            drawn += _rect(place * _BAR, max(0.0, low - tall), _BAR - 2, tall, "bar-failed")
        if drawn:
            when = f"{utc_text(one.start)[:16].replace('T', ' ')} to {utc_text(one.end)[11:16]} UTC"
            what = f"{one.completed:,} completed, {one.failed:,} failed"
            times = f'data-start="{utc_text(one.start)}" data-end="{utc_text(one.end)}" data-what="{what}"'
            column = _rect(place * _BAR, 0, _BAR, _HEIGHT, "bar-hover")
            parts.append(f"<g {times}><title>{when}: {what}</title>{column}{drawn}</g>")
    width = max(1, len(bars)) * _BAR
    good, bad = sum(one.completed for one in bars), sum(one.failed for one in bars)
    label = f"Jobs that ended in the last {words}: {good:,} completed, {bad:,} failed"
    lines = "".join(
        f'<line class="{kind}" x1="0" x2="{width}" y1="{y}" y2="{y}"/>'
        for kind, y in (("grid", 0.5), ("grid", _HEIGHT / 2), ("axis", _HEIGHT - 0.5))
    )
    step = max(1, len(bars) // (_DAYS_OF_A_WEEK if len(bars) % _DAYS_OF_A_WEEK == 0 else 4))
    labels = tuple(one.start for one in bars[::step])
    return BarChart(_svg(width, _HEIGHT, lines + "".join(parts), label, "chart bars", stretch=True), top, labels)


_DAYS_OF_A_WEEK: Final = 7


def _round_up(number: int) -> int:
    """To an even number that an axis may have: 2, 4, 10, 20, 40, 100, …"""
    top = 2
    while top < number:
        top = top * 5 // 2 if str(top)[0] == "4" else top * 2
    return top


def _tall(number: int, top: int) -> float:
    return 0.0 if not number else max(2.0, number / top * (_HEIGHT - 1))


_TREND_BARS: Final = 24


def trend(times: Sequence[float], now: float, seconds: float) -> Markup:
    """Small bars: how many of them fell into each twenty-fourth of the time until now."""
    bars = [0] * _TREND_BARS
    for at in times:
        place = _TREND_BARS - 1 - int((now - at) / seconds * _TREND_BARS)
        if 0 <= place < _TREND_BARS:
            bars[place] += 1
    top = max(1, *bars)
    parts = [
        _rect(place * 4, 20 - max(2.0, number / top * 20), 3, max(2.0, number / top * 20), "bar-failed")
        for place, number in enumerate(bars)
        if number
    ]
    label = f"{sum(bars):,} in the last {seconds / 3600:.0f} hours, at most {max(bars):,} in one of them"
    return _svg(_TREND_BARS * 4, 20, "".join(parts), label, "trend")


# ── progress ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job goes: percent a second, and when it would end at that pace; None if unknown."""

    per_second: float | None = None
    ends_at: float | None = None

    @property
    def text(self) -> str:
        if self.per_second is None:
            return ""
        minute = self.per_second * 60
        return f"{minute:.1f} % a minute" if minute < 100 else f"{self.per_second:.1f} % a second"


def pace(job: Job, entries: Sequence[Entry]) -> Pace:
    """From the last half of this attempt's reports: the recent pace predicts better than the first."""
    points = [(one.at, one.progress) for one in entries if one.progress is not None and one.attempt == job.attempt]
    points = points[len(points) // 2 if len(points) > _FEW else 0 :]
    if job.state is not State.PROCESSING or len(points) < 2:
        return Pace()
    (start, low), (end, high) = points[0], points[-1]
    if high <= low or end <= start:
        return Pace()
    rate = (high - low) / (end - start)
    return Pace(rate, end + (100 - high) / rate)


@dataclass(frozen=True, slots=True)
class StepBar:
    """A step of a job's newest attempt, and when it ran within the attempt."""

    name: str
    seconds: float
    bar: Markup


_MOST_STEPS: Final = 40


def step_bars(job: Job, entries: Sequence[Entry], now: float) -> list[StepBar]:
    """The steps that the newest attempt has reported, as a waterfall. A step lasts until the next one is reported."""
    begun: list[tuple[str, float]] = []
    for one in entries:
        if one.step and one.attempt == job.attempt and (not begun or begun[-1][0] != one.step):
            begun.append((one.step, one.at))
    begun = begun[-_MOST_STEPS:]
    if len(begun) < 2:
        return []
    start, end = begun[0][1], max(job.ended_at or now, begun[-1][1] + 0.001)
    ends = [*(at for _, at in begun[1:]), end]
    bars = []
    for (name, at), until in zip(begun, ends, strict=True):
        drawn = span_bar(at, until, start, end, f"{name}: {span(until - at)}")
        bars.append(StepBar(name, until - at, drawn))
    return bars


def span_bar(start: float, end: float, low: float, high: float, label: str, kind: str = "meter-done") -> Markup:
    """When something lasted within a longer time, as one bar."""
    length = max(high - low, 0.001)
    left = min(199.0, max(0.0, (start - low) / length * 200))
    wide = min(200 - left, max(1.0, (end - start) / length * 200))
    return _svg(200, 8, _rect(left, 0, wide, 8, kind), label, "step", stretch=True)


_FEW: Final = 4
_CURVE: Final = (720, 140)
_MOST_POINTS: Final = 400


@dataclass(frozen=True, slots=True)
class Curve:
    """A picture of progress; what its axis of time says is beside it, because it is stretched."""

    picture: Markup
    labels: tuple[str, ...]
    """Times since the start below it, evenly spaced."""


def progress_curve(job: Job, entries: Sequence[Entry], going: Pace) -> Curve | None:
    """Progress over time; where the pace says when it ends, a dashed line to there."""
    points = [(one.at, one.progress) for one in entries if one.progress is not None]
    if job.state is State.COMPLETED and job.ended_at is not None:
        points.append((job.ended_at, 100.0))
    if len(points) < 2:
        return None
    step = -(-len(points) // _MOST_POINTS)
    points = [*points[:-1:step], points[-1]]
    start = min(job.started_at or points[0][0], points[0][0])
    end = max(points[-1][0], going.ends_at or 0.0, start + 0.001)
    width, height = _CURVE

    def place(at: float, percent: float) -> str:
        return f"{(at - start) / (end - start) * width:.1f},{height - percent / 100 * height:.1f}"

    line = " ".join(place(at, percent) for at, percent in points)
    area = f"{place(points[0][0], 0)} {line} {place(points[-1][0], 0)}"
    grid = "".join(
        f'<line class="grid" x1="0" x2="{width}" y1="{height * part / 4:.1f}" y2="{height * part / 4:.1f}"/>'
        for part in range(5)
    )
    drawn = f'{grid}<polygon class="area" points="{area}"/><polyline class="curve" points="{line}"/>'
    if going.ends_at is not None:
        rest = f"{place(*points[-1])} {place(going.ends_at, 100)}"
        drawn += f'<polyline class="curve-ahead" points="{rest}"/>'
    label = f"Progress from {points[0][1]:g} to {points[-1][1]:g} percent in {span(points[-1][0] - start)}"
    labels = ("0 s", span((end - start) / 2), span(end - start))
    return Curve(_svg(width, height, drawn, label, "chart curve-chart", stretch=True), labels)


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a job's life: a wait, or an attempt by a worker and its outcome."""

    start: float
    end: float
    attempt: int
    owner: str
    outcome: str
    """`waiting`, `running`, or the event that ended the attempt."""

    @property
    def seconds(self) -> float:
        return self.end - self.start


_BEGINS: Final = frozenset({"started", "taken_over"})
_QUEUED_AGAIN: Final = frozenset({"retried", "revived"})
_ENDS: Final = frozenset({"handed_over", "suspended", "retrying", "completed", "failed", "parked", "cancelled"})


def stretches(job: Job, events: Sequence[Event], now: float) -> list[Stretch]:
    """The job's life in order, without a gap."""
    life: list[Stretch] = []
    since, attempt, owner = job.created_at, 0, ""
    for event in events:
        if event.type not in _BEGINS | _ENDS | _QUEUED_AGAIN:
            continue
        if attempt:
            outcome = "lost" if event.type == "taken_over" else event.label
            life.append(Stretch(since, event.at, attempt, owner, outcome))
        elif event.at > since and event.type not in _QUEUED_AGAIN:
            life.append(Stretch(since, event.at, 0, "", "waiting"))
        since = event.at
        attempt, owner = (event.attempt, event.owner) if event.type in _BEGINS else (0, "")
    if job.state not in TERMINAL:
        life.append(Stretch(since, max(now, since), attempt, owner, "running" if attempt else "waiting"))
    return life


_LANE: Final = 26
_TIMELINE_WIDTH: Final = 720
_MOST_STRETCHES: Final = 40


def timeline(life: Sequence[Stretch]) -> Markup:
    """A lane for each attempt; waiting is a thin line between them. The newest forty stretches."""
    life = life[-_MOST_STRETCHES:]
    if not life:
        return Markup("")
    start, end = life[0].start, max(life[-1].end, life[0].start + 0.001)
    lanes = {attempt: lane for lane, attempt in enumerate(dict.fromkeys(one.attempt for one in life if one.attempt))}
    height = max(1, len(lanes)) * _LANE
    parts = []
    lane = 0
    for one in life:
        lane = lanes.get(one.attempt, lane)
        left = (one.start - start) / (end - start) * _TIMELINE_WIDTH
        wide = max(2.0, one.seconds / (end - start) * _TIMELINE_WIDTH)
        title = f"{_title(one)}, {span(one.seconds)}, from {utc_text(one.start)}"
        top, tall = (lane * _LANE + 11, 4) if not one.attempt else (lane * _LANE + 3, _LANE - 6)
        parts.append(_rect(left, top, wide, tall, f"life life-{one.outcome.replace('_', '-')}", title))
    label = f"{len(lanes)} attempt{'' if len(lanes) == 1 else 's'} over {span(end - start)}"
    return _svg(_TIMELINE_WIDTH, height, "".join(parts), label, "chart timeline", stretch=True)


def _title(one: Stretch) -> str:
    return f"attempt {one.attempt} on {one.owner}: {one.outcome.replace('_', ' ')}" if one.attempt else "waiting"


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────


def _rect(left: float, top: float, wide: float, tall: float, classes: str, title: str = "") -> str:
    inner = f"<title>{escape(title)}</title>" if title else ""
    place = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}"'
    return f'<rect class="{escape(classes)}" {place} rx="1.5">{inner}</rect>'


def _svg(width: float, height: float, inner: str, label: str, classes: str, *, stretch: bool = False) -> Markup:
    """`inner` consists of numbers and escaped texts."""
    how = ' preserveAspectRatio="none"' if stretch else ""
    head = f'<svg class="{classes}" viewBox="0 0 {width} {height}" role="img"{how} aria-label="{escape(label)}">'
    return Markup(head + inner + "</svg>")  # noqa: S704
