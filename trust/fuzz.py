"""`python -m trust.fuzz [--seconds 60 --target NAME --seed N]`: nonsense for every reader; none may fail or hang.

Sound inputs are cut, mixed, repeated and made odd: expressions, PartiQL, bodies of requests, HTTP heads, answers, items
as they are typed, definitions, templates, states of Terraform, saved plans, migrations, exports, CSV and JSON lines,
what ImportTable reads (Ion, CSV, DynamoDB JSON, GZIP, ZSTD), Word, PDF, cron, URLs, tokens. A reader may read an input
or refuse it in its own words. What is looked for: any other error; an input that takes longer than its length explains
(a quarter of it is tried, too); memory past a limit.

Ends with 0 if nothing was found. Otherwise the input is kept, named, and can be tried again with --input. With
--atheris (pip install atheris) coverage guides the changes, for one --target.

    python -m trust.fuzz --seconds 300
    python -m trust.fuzz --target drawing --input finding.bin
    python -m trust.fuzz --target partiql --atheris --seconds 600
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from trust.fuzz_targets import TARGETS, Refused, Target

LONGEST_BYTES = 200_000
SLOW_SECONDS = 1.0
"""Of this process's own time: what is quicker is not looked at."""
STEEP = 9.0
"""A quarter of the input takes a quarter of the time; of a square it would be a sixteenth."""
HANGING_SECONDS = 40.0
SLICE_SECONDS = 0.2
LAST = "penstock-fuzz-last-{}.bin"
"""In the folder for temporary files: the input that is tried, for when it ends the process."""
MEMORY_BYTES = 4 * 1024**3


@dataclass
class Tally:
    runs: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0


class Mutator:
    """Makes inputs of a target's seeds and words."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def input_for(self, target: Target) -> bytes:
        data = bytearray(self._draw.choice(target.seeds))
        for _ in range(self._draw.choice([1, 1, 2, 3, 5, 8])):
            data = self._changed(data, target)
        return bytes(data[:LONGEST_BYTES])

    def _changed(self, data: bytearray, target: Target) -> bytearray:
        draw = self._draw
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.choice([1, 2, 4, 8, 30, 200]))
        words = target.words or target.seeds
        match draw.randrange(9):
            case 0:
                return data[:start] + draw.choice(words) + data[start:]
            case 1:
                return data[:start] + draw.choice(words) + data[end:]
            case 2:
                return data[:start] + data[end:]
            case 3:
                return data[:start] + data[start:end] * draw.choice([2, 3, 50, 700, 5_000]) + data[end:]
            case 4:
                return data[:start] + draw.choice(words) * draw.choice([2, 30, 400, 4_000]) + data[end:]
            case 5:
                return data[:start] + draw.choice(target.seeds)[draw.randrange(20) :]
            case 6:
                return data[:start]
            case 7 if start < len(data):
                data[start] ^= 1 << draw.randrange(8)
                return data
            case _:
                return data[:start] + draw.randbytes(draw.choice([1, 2, 4])) + data[end:]


def tried(target: Target, data: bytes) -> tuple[float, bool]:
    """How long it took, in seconds of this process, and whether it was refused. Raises what the reader should not."""
    began = time.process_time()
    try:
        target.read(data)
    except Refused:
        return time.process_time() - began, True
    return time.process_time() - began, False


def finding_of(target: Target, data: bytes, tally: Tally) -> str | None:
    """What is wrong with how the target took this input."""
    try:
        took, is_refused = tried(target, data)
        tally.runs += 1
        tally.refused += is_refused
        tally.slowest_seconds = max(tally.slowest_seconds, took)
        if took > SLOW_SECONDS and took > STEEP * tried(target, data[: len(data) // 4])[0] * 4:
            return f"{len(data):,} bytes took {took:.1f} s, which their length does not explain"
    except Exception:
        return traceback.format_exc()
    return None


def main() -> int:
    options = _options()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable(logging.CRITICAL)
    targets = [TARGETS[options.target]] if options.target else list(TARGETS.values())
    if options.input:
        return _again(targets[0], options.input)
    if options.atheris:
        return _guided(targets[0], options.seconds)
    print(f"seed {options.seed}", flush=True)
    return _fuzz(targets, options.seconds, options.seed)


def _fuzz(targets: list[Target], seconds: float, seed: int) -> int:
    # Each has a series of its own, so that a seed gives the same inputs on any machine.
    mutators = {target.name: Mutator(random.Random(f"{seed}:{target.name}")) for target in targets}
    tallies: dict[str, Tally] = defaultdict(Tally)
    until = time.monotonic() + seconds
    found = 0
    for target in targets:
        for sound in target.seeds:
            found += _told(target, sound, finding_of(target, sound, tallies[target.name]))
    while time.monotonic() < until and not found:
        for target in targets:
            found += _fuzz_for(SLICE_SECONDS, target, mutators[target.name], tallies[target.name])
    for name, tally in tallies.items():
        slowest = f"slowest {tally.slowest_seconds * 1000:,.0f} ms"
        print(f"{name:12}{tally.runs:9,} inputs  {tally.refused:9,} refused   {slowest}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"memory: {peak} MB at most. {'Nothing was found.' if not found else f'{found} findings.'}", flush=True)
    return int(found > 0)


def _fuzz_for(seconds: float, target: Target, mutator: Mutator, tally: Tally) -> int:
    """One finding, or none in this time: readers that are quick get more inputs."""
    until = time.monotonic() + seconds
    faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)  # even where no Python runs: a regular expression
    with (Path(tempfile.gettempdir()) / LAST.format(target.name)).open("wb", buffering=0) as last:
        while time.monotonic() < until:
            data = mutator.input_for(target)
            os.pwrite(last.fileno(), data, 0)
            last.truncate(len(data))
            if (finding := finding_of(target, data, tally)) is not None:
                return _told(target, data, finding)
    faulthandler.cancel_dump_traceback_later()
    return 0


def _told(target: Target, data: bytes, finding: str | None) -> int:
    if finding is None:
        return 0
    path = Path(tempfile.mkdtemp(prefix="penstock-fuzz-")) / f"{target.name}.bin"
    path.write_bytes(data)
    print(f"FOUND by {target.name}: {finding}\n  input {data[:200]!r} ({len(data):,} bytes)")
    print(f"  again: python -m trust.fuzz --target {target.name} --input {path}", flush=True)
    return 1


def _again(target: Target, path: Path) -> int:
    finding = finding_of(target, path.read_bytes(), Tally())
    print(finding or "Nothing is wrong with it.")
    return int(finding is not None)


def _guided(target: Target, seconds: float) -> int:
    try:
        import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        print("atheris is not installed: pip install atheris, or leave --atheris out.", file=sys.stderr)
        return 2
    atheris.instrument_all()

    def one(data: bytes) -> None:
        try:
            target.read(data)
        except Refused:
            return

    with tempfile.TemporaryDirectory() as corpus:
        for number, sound in enumerate(target.seeds):
            (Path(corpus) / str(number)).write_bytes(sound)
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds:.0f}", "-max_len=20000", "-rss_limit_mb=0", corpus], one)
        atheris.Fuzz()  # ends the process
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m trust.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--target", choices=sorted(TARGETS), help="one reader only")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses the inputs")
    parser.add_argument("--input", type=Path, metavar="FILE", help="try this one, with --target")
    parser.add_argument("--atheris", action="store_true", help="let coverage guide, with --target")
    options = parser.parse_args()
    if (options.input or options.atheris) and not options.target:
        parser.error("--input and --atheris are for one reader: add --target NAME.")
    return options


if __name__ == "__main__":
    sys.exit(main())
