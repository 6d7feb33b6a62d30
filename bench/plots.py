"""The plots of RESULTS.md, drawn from the sections' figures alone: bars beside peers, log-log lines for growth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bench import bars, loglog
from bench.bars import Bar
from bench.report import Figures, Section, count

MORE, LESS = "more is better", "less is better"


def drawn(sections: Mapping[str, Section]) -> dict[str, str]:
    """The plots that can be drawn, by file name."""
    plots: dict[str, str] = {}
    for name, draw in PLOTS.items():
        figures = {**sections[name].figures} if name in sections else {}
        if name == "growth" and "claims" in sections:
            figures |= sections["claims"].figures
        svg = draw(figures)
        if svg:
            plots[f"{name}.svg"] = svg
    return plots


# ── bars ─────────────────────────────────────────────────────────────────────────────────────────


def _charted(panels: Iterable[bars.Panel | None], description: str) -> str | None:
    some = tuple(panel for panel in panels if panel and len(panel.bars) > 1)
    return bars.drawing(some, description) if some else None


def _panel(
    figures: Figures,
    title: str,
    hint: str,
    names: Mapping[str, str],
    shown: Callable[[float], str] = count,
    scale: float = 1.0,
) -> bars.Panel | None:
    """A bar for each figure that is there; `names` gives each figure's key its bar's name."""
    found = [(key, name, figures[key] * scale) for key, name in names.items() if key in figures]
    made = tuple(Bar(name, value, shown(value), "penstock" in key) for key, name, value in found)
    return bars.Panel(title, hint, made) if made else None


def _subjects(figures: Figures, start: str, end: str = "") -> dict[str, str]:
    """The subjects of the figures `start/SUBJECT` or `start/SUBJECT/end`, by key."""
    keys = (key for key in figures if key.startswith(f"{start}/") and key.endswith(end))
    return {key: key.removeprefix(f"{start}/").removesuffix(end).removesuffix("/") for key in keys}


def http(figures: Figures) -> str | None:
    loads = dict.fromkeys(key.split("/")[0] for key in figures)
    panels = [_panel(figures, load, f"requests a second, {MORE}", _subjects(figures, load)) for load in loads]
    return _charted(panels, "Requests a second over HTTP, Penstock beside other servers")


IN_PROCESS = {
    "execute": "execute()",
    "boto3-embedded": "boto3, embedded",
    "boto3-alone": "boto3 alone",
    "boto3-http": "boto3 to Dynoxide",
    "moto": "boto3 under moto",
}


def inprocess(figures: Figures) -> str | None:
    panels = []
    for operation in ("GetItem", "PutItem"):
        made = tuple(
            Bar(name, value, count(value), subject in ("execute", "boto3-embedded"))
            for subject, name in IN_PROCESS.items()
            if (value := figures.get(f"{operation}/{subject}/wall", 0.0))
        )
        panels.append(bars.Panel(operation, f"microseconds a call, {LESS}", made))
    return _charted(panels, "Microseconds a call in process")


LOADS = {"boto3": "boto3, HTTP", "http": "penstock, HTTP", "process": "penstock, in process"}


def load(figures: Figures) -> str | None:
    panels = []
    for place in ("disk", "files in memory"):
        made = tuple(
            Bar(name, value, count(value), subject != "boto3")
            for subject, name in LOADS.items()
            if (value := figures.get(f"{place}/{subject}", 0.0))
        )
        panels.append(bars.Panel(f"Items of 1 KB, {place}", f"items a second, {MORE}", made))
    return _charted(panels, "Items a second loaded into an empty table")


def footprint(figures: Figures) -> str | None:
    hints = (
        ("start", "Start-up", f"milliseconds from exec to the first answer, {LESS}", 1e3, count),
        ("loaded", "Memory after the load", f"MB resident, {LESS}", 1e-6, count),
        ("file", "Files", f"MB on disk of the same items, {LESS}", 1e-6, "{:.1f}".format),
    )
    panels = [
        _panel(figures, title, hint, _subjects(figures, what), shown, scale)
        for what, title, hint, scale, shown in hints
    ]
    return _charted(panels, "Start-up, memory and file size of local DynamoDBs")


CLIENTS = {
    "penstock": "penstock, transport",
    "penstock-async": "penstock, asyncio",
    "penstock-table": "penstock, Table",
    "pydynox": "pydynox",
    "aiodynamo": "aiodynamo",
    "aiobotocore": "aiobotocore",
    "boto3": "boto3",
    "pynamodb": "PynamoDB",
}
CALLS = {"GetItem": "GetItem", "PutItem": "PutItem", "BatchWriteItem": "25-item batch", "Query": "250-item Query"}


def clients(figures: Figures) -> str | None:
    panels = []
    for operation, title in CALLS.items():
        names = {f"{operation}/{client}/cpu": name for client, name in CLIENTS.items()}
        panels.append(_panel(figures, title, f"microseconds of client CPU a call, {LESS}", names))
    return _charted(panels, "Client CPU a call, Penstock beside other clients")


def jobs(figures: Figures) -> str | None:
    hints = (
        ("executed", "Executed", f"no-op jobs a second, {MORE}", 1.0, count),
        ("enqueued", "Enqueued one by one", f"jobs a second, {MORE}", 1.0, count),
        ("worker_cpu", "Worker's CPU", f"milliseconds a job, {LESS}", 1e3, "{:.2f}".format),
        (
            "resumed",
            "After SIGKILL",
            "seconds until the job went on; absent: not while watched",
            1.0,
            "{:.1f}".format,
        ),
    )
    panels = [
        _panel(figures, title, hint, _subjects(figures, what), shown, scale)
        for what, title, hint, scale, shown in hints
    ]
    return _charted(panels, "Jobs a second and CPU a job, Penstock beside other job systems")


def delphi(figures: Figures) -> str | None:
    panels = [
        _panel(figures, f"Delphi's write stage, {where}", f"microseconds of CPU an item, {LESS}",
               _subjects(figures, f"cpu/{where}"))
        for where in ("embedded", "HTTP")
    ]  # fmt: skip
    return _charted(panels, "CPU an item of Delphi's write stage, beside boto3's batch writer")


def records(figures: Figures) -> str | None:
    panels = []
    for work in ("sleeping", "computing"):
        found = {number: figures.get(f"rate/{work}/{number}", 0.0) for number in (1, 2, 4)}
        made = tuple(
            Bar(f"processes: {number}", rate, count(rate), ours=True) for number, rate in found.items() if rate
        )
        panels.append(bars.Panel(f"A function that is {work} for 5 ms", f"records a second, {MORE}", made))
    return _charted(panels, "Records a second by one, two and four processes on one table")


# ── growth ───────────────────────────────────────────────────────────────────────────────────────


def _lines(figures: Figures, names: Mapping[str, str], end: str = "") -> tuple[loglog.Series, ...]:
    """A line for each name that has figures `NAME/SIZE` or `NAME/SIZE/end` of two sizes at least."""
    lines = []
    for colour, (key, shown) in zip("abcd", names.items(), strict=False):
        sizes = sorted((int(size), one) for one, size in _subjects(figures, key, end).items() if size.isdigit())
        points = tuple((float(size), figures[one]) for size, one in sizes if figures[one] > 0)
        if len(points) > 1:
            lines.append(loglog.Series(shown, colour, points))
    return tuple(lines)


def _grown(panels: Iterable[loglog.Panel], description: str) -> str | None:
    some = tuple(panel for panel in panels if panel.series)
    return loglog.drawing(some, description) if some else None


def growth(figures: Figures) -> str | None:
    """Calls, and work with jobs (of the section `claims`)."""
    calls = {"GetItem": "Get", "PutItem": "Put", "Query of 25": "Query of 25", "Scan page of 100": "Scan of 100"}
    work = {"Claim and end a job": "claim, end", "Read a job's history": "history", "List 20 jobs": "list of 20"}
    panels = (
        loglog.Panel("CPU time a call", _lines(figures, calls, "/cpu"), "items in the table", " µs"),
        loglog.Panel("CPU time of work with jobs", _lines(figures, work), "finished jobs in the table", " µs"),
    )
    return _grown(panels, "Microseconds of CPU a call while tables grow")


def excel(figures: Figures) -> str | None:
    panels = [
        loglog.Panel(
            title,
            _lines(figures, {f"{what}/safe": "safe", f"{what}/compat": "compat"}),
            "records in the table",
            unit,
        )
        for what, title, unit in (
            ("units", "Read units for one job", ""),
            ("cpu_ms", "CPU time for one job", " ms"),
        )
    ]
    return _grown(panels, "Reading one job: safe stays the same, compat grows with the table")


PLOTS: Mapping[str, Callable[[Figures], str | None]] = {
    "http": http,
    "synced": http,
    "inprocess": inprocess,
    "load": load,
    "growth": growth,
    "footprint": footprint,
    "clients": clients,
    "jobs": jobs,
    "records": records,
    "excel": excel,
    "delphi": delphi,
}
