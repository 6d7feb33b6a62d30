"""Topics of real conversations: `python -m bench.topics DATA --against SRC`.

DATA is a folder of Pol.is exports, a folder each with its comments.csv (and participants-votes.csv, if there is one).
The themes of eight public ones are in topic_themes.py, under the names of their folders; an export without themes is
measured by the rest. SRC is the `src` folder of another checkout: what `penstock delphi run` finds there is measured
beside what it finds here, with the same ruler. Without it, only the topics of this checkout are measured. A clusterer
may depend on its seed: `--seeds 1 2 3 4 42` runs each side so often, and the figures are the means.

Of the finest layer of each run:

coherence  NPMI: how much more often the five first keywords of a topic stand in the same comments than chance has it,
           over all topics by their size. Words and keywords are this checkout's for both sides.
themes     for each theme that a reader knows by its words, how well its best topic fits it (F1), on average
themes AMI the same for all themes and topics at once: adjusted mutual information, 0 for chance
votes      how much more alike people vote on two comments of one topic than on any two: |correlation|, difference
outliers   the share of comments that are in no topic
stop names topics of any layer whose name has nothing but function words

A conversation is better if more of coherence, themes, AMI, votes and outliers became better than worse.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_mutual_info_score

import penstock
from bench.topic_themes import THEMES
from penstock.systems.delphi.analysis.conversation import Conversation, read_conversation
from penstock.systems.delphi.analysis.keywords import Vocabulary
from penstock.systems.delphi.analysis.languages import detect_languages, language
from penstock.systems.delphi.analysis.votes import read_votes
from penstock.systems.delphi.results import ASSIGNMENTS, NAMES, Results

TOP = 5
LEAST_COMMON_VOTERS = 15
LEAST_THEME = 3
MEASURES = ("coherence", "themes", "themes AMI", "votes", "outliers")
SAME = 0.005
"""A difference below it is none."""


@dataclass(frozen=True)
class Ruler:
    """What of a conversation does not depend on who clusters it."""

    conversation: Conversation
    codes: tuple[str, ...]
    vocabulary: Vocabulary
    themes: list[str]
    likeness: Any


def ruler(folder: Path) -> Ruler:
    conversation = read_conversation(folder)
    texts = [comment.text for comment in conversation.comments]
    codes = detect_languages(texts)
    found = [theme_of(text, THEMES.get(folder.name, {})) for text in texts]
    return Ruler(conversation, codes, Vocabulary(texts, codes), found, voted_alike(folder, conversation))


def theme_of(text: str, themes: dict[str, str]) -> str:
    """The one theme whose words the text has; none for several."""
    found = [name for name, pattern in themes.items() if re.search(pattern, text, re.IGNORECASE)]
    return found[0] if len(found) == 1 else ""


def voted_alike(folder: Path, conversation: Conversation) -> Any:
    """|correlation| of the votes on each two comments, where enough people voted on both; None without votes."""
    votes = read_votes(folder, [comment.id for comment in conversation.comments])
    if votes is None:
        return None
    known = ~np.isnan(votes.matrix)
    value, known = np.where(known, votes.matrix, 0.0), known.astype(float)
    both = known.T @ known
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (value.T @ known) / both
        variance = ((value * value).T @ known) / both - mean**2
        found = np.abs(((value.T @ value) / both - mean * mean.T) / np.sqrt(variance * variance.T))
    found[both < LEAST_COMMON_VOTERS] = np.nan
    np.fill_diagonal(found, np.nan)
    return found


def measure(labels: list[int], names: list[str], given: Ruler) -> dict[str, float]:
    """`labels` are in the order of the comments."""
    themes, shared = theme_fit(labels, given.themes)
    codes = {code for code in given.codes if given.codes.count(code) * 2 >= len(given.codes)}
    stop = [name for name in names if any(is_stop_name(name, code) for code in codes)]
    return {
        "topics": max(labels) + 1,
        "coherence": coherence(labels, given.vocabulary),
        "themes": themes,
        "themes AMI": shared,
        "votes": vote_lift(labels, given.likeness),
        "outliers": labels.count(-1) / len(labels),
        "stop names": len(stop),
    }


def coherence(labels: list[int], vocabulary: Vocabulary) -> float:
    count, scores, sizes = len(labels), [], []
    for topic in range(max(labels) + 1):
        rows = [row for row, label in enumerate(labels) if label == topic]
        words = [keyword.term for keyword in vocabulary.keywords(rows, TOP)]
        where = {word: {row for row in range(count) if word in vocabulary.terms_of(row)} for word in words}
        pairs = [npmi(where[one], where[other], count) for one, other in combinations(words, 2)]
        if pairs:
            scores.append(sum(pairs) / len(pairs))
            sizes.append(len(rows))
    return float(np.average(scores, weights=sizes)) if scores else math.nan


def npmi(one: set[int], other: set[int], count: int) -> float:
    both = len(one & other) / count
    if both in (0.0, 1.0):
        return -1.0 if both == 0.0 else 1.0
    return math.log(both * count * count / (len(one) * len(other))) / -math.log(both)


def theme_fit(labels: list[int], themes: list[str]) -> tuple[float, float]:
    rows = [row for row, theme in enumerate(themes) if theme]
    found = np.array([labels[row] if labels[row] >= 0 else -1 - row for row in rows])
    wanted = np.array([themes[row] for row in rows])
    fits = []
    for theme in sorted(set(wanted)):
        of_theme = wanted == theme
        if of_theme.sum() >= LEAST_THEME:
            best = (
                2 * (of_theme & (found == one)).sum() / (of_theme.sum() + (found == one).sum()) for one in set(found)
            )
            fits.append(max(best))
    return (float(np.mean(fits)), float(adjusted_mutual_info_score(wanted, found))) if fits else (math.nan, math.nan)


def vote_lift(labels: list[int], likeness: Any) -> float:
    if likeness is None:
        return math.nan
    array = np.array(labels)
    known = ~np.isnan(likeness)
    together = (array[:, None] == array[None, :]) & (array[:, None] >= 0) & known
    return float(likeness[together].mean() - likeness[known].mean()) if together.any() else math.nan


def is_stop_name(name: str, code: str) -> bool:
    words = re.split(r"[\s,]+", name.strip("…“” "))
    return bool(language(code).function_words) and all(language(code).is_function_word(word) for word in words)


# ── the two sides ────────────────────────────────────────────────────────────────────────────────


def run(folder: Path, database: Path, source: Path | None, seed: int) -> str:
    """The command of a checkout, in a process of its own; the job's id."""
    environment = dict(os.environ) if source is None else {**os.environ, "PYTHONPATH": str(source)}
    job = f"bench-{folder.name}-{seed}"
    command = [sys.executable, "-m", "penstock", "delphi", "run", str(folder), "--db", str(database), "--job-id", job]
    subprocess.run([*command, "--seed", str(seed)], env=environment, check=True, capture_output=True)
    return job


def side(given: Ruler, folder: Path, database: Path, source: Path | None, seeds: list[int]) -> dict[str, float]:
    """The figures of one checkout, the means over all seeds."""
    every = [found(database, run(folder, database, source, seed), given) for seed in seeds]
    return {name: float(np.mean([one[name] for one in every])) for name in every[0]}


def found(database: Path, job: str, given: Ruler) -> dict[str, float]:
    """Of a copy: an older checkout does not open a file again that a newer one has brought up to its format."""
    copy = database.with_name(f"read-{database.name}")
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as written, closing(sqlite3.connect(copy)) as read:
        written.backup(read)
    with penstock.connect(str(copy)) as db:
        results = Results(db)
        labels = {int(item["comment_id"]): int(item["layer0_cluster_id"]) for item in results.of_job(ASSIGNMENTS, job)}
        names = [str(item["topic_name"]) for item in results.of_job(NAMES, job)]
    return measure([labels[comment.id] for comment in given.conversation.comments], names, given)


def is_better(before: dict[str, float], after: dict[str, float]) -> tuple[int, int]:
    """How many measures are better, and how many are worse."""
    gains = [(after[name] - before[name]) * (-1 if name == "outliers" else 1) for name in MEASURES]
    return sum(gain > SAME for gain in gains), sum(gain < -SAME for gain in gains)


def line(name: str, side: str, figures: dict[str, float]) -> str:
    cells = [f"{figures['topics']:.0f}", *(text(figures[name]) for name in MEASURES), f"{figures['stop names']:.0f}"]
    return f"| {name} | {side} | {' | '.join(cells)} |"


def text(figure: float) -> str:
    return "" if math.isnan(figure) else f"{figure:.3f}"


def compare(folders: list[Path], against: Path | None, keep: Path, seeds: list[int]) -> Iterator[str]:
    columns = ["conversation", "", "topics", *MEASURES, "stop names"]
    yield f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    better = 0
    for folder in folders:
        given = ruler(folder)
        before = None
        if against is not None:
            before = side(given, folder, keep / "before.db", against, seeds)
            yield line(folder.name, "before", before)
        after = side(given, folder, keep / "after.db", None, seeds)
        yield line(folder.name, "after", after)
        if before is not None:
            won, lost = is_better(before, after)
            better += won > lost
    if against is not None:
        yield f"\nBetter on {better} of {len(folders)} conversations."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.topics", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", type=Path, help="a folder of Pol.is exports, a folder each")
    parser.add_argument("--against", type=Path, metavar="SRC", help="the src folder of another checkout")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the databases; runs that are there are not repeated"
    )
    parser.add_argument("--only", default="", metavar="NAME", help="conversations whose name has this in it")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42], metavar="N", help="the seeds of the runs (42)")
    options = parser.parse_args()
    folders = sorted(one.parent for one in options.data.glob("*/comments.csv") if options.only in one.parent.name)
    if not folders:
        parser.error(f"{options.data} has no folder with a comments.csv in it: give a folder of Pol.is exports")
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        for row in compare(folders, options.against, keep, options.seeds):
            print(row, flush=True)


if __name__ == "__main__":
    main()
