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
from penstock.systems.delphi.similar import find_similar
from penstock.systems.demos import files_beside

CONVERSATION = "our-town"
_VOTERS = 60
_ASKED = "transport in the evening"
_GERMAN = {
    "Der Bus {}": ("fährt abends zu selten", "ist in der Früh überfüllt", "kommt nie pünktlich", "soll nachts fahren"),
    "Der Radweg {}": ("endet mitten auf der Straße", "ist zu schmal", "braucht mehr Licht", "führt nicht zur Schule"),
    "Die Bücherei {}": ("ist samstags geschlossen", "braucht mehr Kinderbücher", "soll länger öffnen", "ist zu klein"),
}
_STEPS = ("read", "vote", "embed", "project", "cluster", "describe", "name", "draw", "write", "publish")
_TOLD = {
    "read": "87 comments on seven things",
    "vote": "who agreed with what",
    "embed": "comments to vectors",
    "project": "vectors to a map",
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
        progress(0.8 * done / len(_STEPS), _TOLD[step.name])

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
    progress(0.85, "comments like another text")
    similar = find_similar(delphi.results, report.job_id, _ASKED, most=1)[0]
    progress(0.9, "a German conversation without votes")
    german = _german(delphi, folder / "unsere-stadt.csv")
    progress(1.0, "done")
    return {
        "job": report.job_id,
        "comments": report["config"]["num_comments"],
        "items": sum(report["written"].values()) + 1,
        "layers": len(report["config"]["cluster_layers"]),
        "topics": len(finest),
        "comments in no topic": sum(found["outliers"].values()),
        "the largest": "; ".join(finest[:3]),
        "language": ", ".join(found["languages"]),
        "votes": f"{found['participants']} people in {len(found['groups'])} opinion groups",
        "consensus comments in the report": len(found["consensus"]),
        f"most like “{_ASKED}”": similar.text,
        "a conversation in German": german,
        "report": str(page),
        "picture": str(home / report["svg"].key),
    }


def _german(delphi: Delphi, comments: Path) -> str:
    """Topics of comments in another language: it is found, and no function word is in a name."""
    texts = [head.format(said) for head, every in _GERMAN.items() for said in every]
    lines = [f"{at},{at},0,0,0,{text}." for at, text in enumerate(texts)]
    comments.write_text("comment-id,author-id,agrees,disagrees,moderated,comment-body\n" + "\n".join(lines) + "\n")
    job = delphi.run(comments, conversation_id="unsere-stadt", job_id=delphi.new_job_id()).job_id
    found = report_of(delphi.results, job)
    names = [topic["topic_label"] for topic in delphi.results.topics(job) if topic["layer_id"] == 0]
    return f"{', '.join(found['languages'])}: {'; '.join(names)}"


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
