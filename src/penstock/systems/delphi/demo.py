"""A small complete showing, for `penstock demo`: our own conversation to topics, tables and a picture."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

from penstock.client.database import Database
from penstock.files import open_files
from penstock.jobs.store.store import JobStore
from penstock.pipelines import StepReport
from penstock.systems.delphi.analysis.votes import VOTES_FILE
from penstock.systems.delphi.pipeline import Delphi
from penstock.systems.delphi.report import report_html, report_of
from penstock.systems.demos import files_beside

CONVERSATION = "our-town"
_VOTERS = 60
_STEPS = ("read", "vote", "embed", "project", "cluster", "describe", "name", "draw", "write", "publish")
_TOLD = {
    "read": "87 comments on seven things",
    "vote": "who agreed with what",
    "embed": "comments to vectors",
    "project": "vectors to a map (UMAP compiles itself the first time)",
    "cluster": "layers of clusters",
    "describe": "what each cluster says",
    "name": "topics get names",
    "draw": "a picture of the map",
    "write": "items into the tables",
    "publish": "the run is the latest",
}


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Runs it on `db`, with its files beside it; the facts of what was done. Raises ExtraMissing."""

    def tell(step: StepReport) -> None:
        done = _STEPS.index(step.name) + (step.how != "running")
        progress(done / len(_STEPS), _TOLD[step.name])

    home = files_beside(db, folder)
    store = JobStore(db, files=open_files(home))
    store.ensure_tables()
    delphi = Delphi(store)
    with as_file(files(__package__).joinpath("sample", "comments.csv")) as sample:
        comments = _export(sample, folder / "our-town")
        report = delphi.run(comments, conversation_id=CONVERSATION, job_id=delphi.new_job_id(), tell=tell)
    finest = [topic["topic_label"] for topic in delphi.results.topics(report.job_id) if topic["layer_id"] == 0]
    found = report_of(delphi.results, report.job_id)
    page = folder / "our-town.html"
    page.write_text(report_html(found), encoding="utf-8")
    return {
        "job": report.job_id,
        "comments": report["config"]["num_comments"],
        "items": sum(report["written"].values()) + 1,
        "layers": len(report["config"]["cluster_layers"]),
        "topics": len(finest),
        "the largest": "; ".join(finest[:3]),
        "language": ", ".join(found["languages"]),
        "votes": f"{found['participants']} people in {len(found['groups'])} opinion groups",
        "consensus comments in the report": len(found["consensus"]),
        "report": str(page),
        "picture": str(home / report["svg"].key),
    }


def _export(sample: Path, folder: Path) -> Path:
    """The sample's comments, and votes of people in two camps, as Pol.is exports them; the comments' file."""
    folder.mkdir(parents=True, exist_ok=True)
    comments = folder / "comments.csv"
    comments.write_bytes(sample.read_bytes())
    with comments.open(encoding="utf-8", newline="") as file:
        ids = [row["comment-id"] for row in csv.DictReader(file)]
    chance = random.Random(1)
    with (folder / VOTES_FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["participant", "group-id", "n-comments", "n-votes", "n-agree", "n-disagree", *ids])
        for person in range(_VOTERS):
            votes = [_vote(person % 2, at, chance) for at in range(len(ids))]
            counts = [len(votes) - votes.count(""), votes.count("1"), votes.count("-1")]
            writer.writerow([person, person % 2, 0, *counts, *votes])
    return comments


def _vote(camp: int, comment: int, chance: random.Random) -> str:
    """Everybody likes every third comment; of the others, each camp likes half."""
    if chance.random() < 0.3:
        return ""
    agrees = comment % 3 == 0 or comment % 2 == camp
    return "1" if agrees == (chance.random() < 0.9) else "-1"
