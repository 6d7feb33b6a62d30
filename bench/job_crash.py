"""A worker is killed in the middle of a job, and another is started at once, each system with its defaults."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.job_peers.work import STEP_SECONDS, STEPS
from bench.job_stores import Store
from bench.job_systems import Bench, System, bench, kill
from bench.report import Table

KILLED_AFTER_SECONDS = 1.5
FIRST_START_SECONDS = 60.0
AFTERWARDS_SECONDS = STEPS * STEP_SECONDS  # in which a second completion would show
APART_SECONDS = 4.0  # between two systems' starts, so that one's imports do not slow another's
POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Crash:
    """What was seen after the kill; seconds are counted from it."""

    system: System
    begun: int = 0
    resumed_after: float | None = None
    resumed_at: str | None = None
    done_after: float | None = None
    completions: int = 0
    problem: str | None = None


def run(found: list[tuple[System, str]], servers: dict[str, Store], give_up_seconds: float) -> list[Crash]:
    """All systems beside each other, for they mostly wait."""
    chosen = [(system, interpreter) for system, interpreter in found if system.crashes]
    with ThreadPoolExecutor(max(len(chosen), 1)) as threads:
        asked = []
        for system, interpreter in chosen:
            store = servers[system.store] if system.store else None
            asked.append(threads.submit(_crash, system, interpreter, store, give_up_seconds))
            time.sleep(APART_SECONDS)
        return [one.result() for one in asked]


def _crash(system: System, interpreter: str, store: Store | None, give_up_seconds: float) -> Crash:
    with bench(system, interpreter, store, tuned=False) as place:
        try:
            return _killed_and_watched(place, give_up_seconds)
        except RuntimeError as problem:
            return Crash(system, problem=str(problem))


def _killed_and_watched(place: Bench, give_up_seconds: float) -> Crash:
    events = place.place / "events"
    with place.producer() as producer:
        producer.ask("prepare")
        producer.ask("steps")
        with place.worker() as first:
            if not _wait_for(events, "begin", FIRST_START_SECONDS):
                raise RuntimeError(f"the job did not begin: {place.last_words()}")
            (begun, _), *_ = _read(events)
            time.sleep(max(0.0, begun + KILLED_AFTER_SECONDS - time.monotonic()))
            killed = time.monotonic()
            kill(first)
    with place.worker():
        if _wait_for(events, "done", give_up_seconds):
            time.sleep(AFTERWARDS_SECONDS)
        return _seen(place.system, _read(events), killed)


def _wait_for(events: Path, event: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(one == event for _, one in _read(events)):
            return True
        time.sleep(POLL_SECONDS)
    return False


def _read(events: Path) -> list[tuple[float, str]]:
    """The events and when they were; a line that is being written is not one yet."""
    lines = events.read_text().splitlines(keepends=True) if events.exists() else []
    whole = (line.rstrip("\n").split(" ", 1) for line in lines if line.endswith("\n"))
    return [(float(moment), event) for moment, event in whole]


def _seen(system: System, events: list[tuple[float, str]], killed: float) -> Crash:
    after = [(moment - killed, event) for moment, event in events if moment > killed]
    steps = [(moment, event) for moment, event in after if event.startswith("step")]
    done = [moment for moment, event in after if event == "done"]
    return Crash(
        system,
        begun=sum(event == "begin" for _, event in events),
        resumed_after=steps[0][0] if steps else None,
        resumed_at=steps[0][1] if steps else None,
        done_after=done[0] if done else None,
        completions=len(done),
    )


def figures(crashes: list[Crash]) -> dict[str, float]:
    """Seconds until each went on, at which step, and how often it completed; what never came is absent."""
    told: dict[str, float] = {}
    for one in crashes:
        if one.problem is None:
            told[f"completions/{one.system.name}"] = one.completions
        if one.resumed_after is not None and one.resumed_at is not None:
            told[f"resumed/{one.system.name}"] = one.resumed_after
            told[f"resumed at/{one.system.name}"] = float(one.resumed_at.split()[-1])
    return told


def table(crashes: list[Crash], give_up_seconds: float) -> Table:
    title = (
        f"A job of {STEPS} steps of {STEP_SECONDS:.0f} s, its worker killed (SIGKILL) after {KILLED_AFTER_SECONDS} s "
        "and another started at once; default settings; seconds from the kill"
    )
    shown = Table(title, ["", "resumed", "at", "done", "times begun", "completions"])
    never = f"not in {give_up_seconds:.0f}"
    for one in crashes:
        if one.problem:
            shown.rows.append([one.system.title, f"not measured ({one.problem})", "", "", "", ""])
            continue
        moments = [never if moment is None else f"{moment:.1f}" for moment in (one.resumed_after, one.done_after)]
        cells = [moments[0], one.resumed_at or "", moments[1], str(one.begun), str(one.completions)]
        shown.rows.append([one.system.title, *cells])
    return shown
