"""`python -m bench [SECTION …]`: Penstock beside its peers, on this machine, in one run.

Without a section: all of them, and RESULTS.md and plots/ are written (sections marked * are long, and measured with
--large or by name). `python -m bench.MODULE` is the same as `python -m bench SECTION`.

    python -m bench --peers DIR                     all but the long ones: half an hour
    python -m bench --large --keep CACHE            all, to 10⁷ items: an hour
    python -m bench --quick                         all, small: three minutes, into a folder of its own
    python -m bench http jobs --save                those two, into RESULTS.md
    python -m bench kills --set jobs=100 --set kills=5
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from bench.options import Options, options_of, parser
from bench.report import Section
from bench.results import HERE, Results, missing, of_section
from bench.sections import ALL, Bench, measured


def main(arguments: list[str] | None = None) -> int:
    """0, or 1 if a section could not be measured."""
    reader = parser(__doc__ or "", listing())
    told = reader.parse_args(arguments)
    unknown = [name for name in told.section if name not in ALL]
    if unknown:
        reader.error(f"{unknown[0]!r} is no section; there are {', '.join(ALL)}")
    options = options_of(told)
    if options.changes and len(told.section) != 1:
        raise SystemExit("--set changes the plan of one section: name it")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    folder = told.out or (Path(tempfile.gettempdir()) / "penstock-bench-quick" if told.quick else HERE)
    results = Results(folder) if told.save or not told.section else None
    return _run(chosen(told.section, options), options, results)


def chosen(names: list[str], options: Options) -> list[Bench]:
    """The sections named; without names all that fit the run."""
    if names:
        return [ALL[name] for name in ALL if name in names]
    benches = [one for one in ALL.values() if options.level != "full" or not one.long]
    return [one for one in benches if one.name != "conformance" or options.suite]


def _run(benches: list[Bench], options: Options, results: Results | None) -> int:
    began, done, failed = time.monotonic(), [], []
    for number, bench in enumerate(benches, 1):
        _say(f"[{number}/{len(benches)}] {bench.name}: {bench.about} …")
        section = _measured(bench, options)
        if section is None:
            failed.append(bench.name)
            continue
        done.append(section)
        sys.stdout.write(of_section(section) + "\n\n")
        sys.stdout.flush()
        if results:  # after each, so that what was measured stays whatever becomes of the rest
            results.put([section])
            results.save(quick=options.level == "quick")
    _end(benches, done, failed, results, time.monotonic() - began)
    return 1 if failed else 0


def _measured(bench: Bench, options: Options) -> Section | None:
    """One that fails stops no other."""
    try:
        return measured(bench, options)
    except (Exception, SystemExit) as problem:
        if isinstance(problem, SystemExit) and problem.code == 143:
            raise
        if not isinstance(problem, SystemExit):
            traceback.print_exc()
        _say(f"{bench.name}: not measured: {problem}")
        return None


def _end(benches: list[Bench], done: list[Section], failed: list[str], results: Results | None, seconds: float) -> None:
    if any(section.missing for section in done):
        _say(missing(done).removeprefix("## "))
    left = [name for name in ALL if name not in {one.name for one in benches}]
    if left and len(benches) > 1:
        _say(f"Left out: {', '.join(left)}.")
    slow = ", ".join(f"{one.name} {one.seconds:.0f}" for one in done)
    _say(f"{len(done)} sections in {seconds:.0f} s ({slow}).")
    if failed:
        _say(f"Not measured: {', '.join(failed)}.")
    if results:
        _say(f"Written: {results.folder / 'RESULTS.md'}, results.json and plots/ beside it.")


def listing() -> str:
    return "sections:\n" + "\n".join(f"  {one.name:<13}{'*' if one.long else ' '} {one.about}" for one in ALL.values())


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
