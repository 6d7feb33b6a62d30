"""A small complete showing, for `penstock demo`: our own conversation to topics, tables and a picture."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

from penstock.client.database import Database
from penstock.files import open_files
from penstock.jobs.store.store import JobStore
from penstock.pipelines import StepReport
from penstock.systems.delphi.pipeline import Delphi
from penstock.systems.demos import files_beside

CONVERSATION = "our-town"
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
    with as_file(files(__package__).joinpath("sample", "comments.csv")) as comments:
        report = delphi.run(comments, conversation_id=CONVERSATION, job_id=delphi.new_job_id(), tell=tell)
    finest = [topic["topic_label"] for topic in delphi.results.topics(report.job_id) if topic["layer_id"] == 0]
    return {
        "job": report.job_id,
        "comments": report["config"]["num_comments"],
        "items": sum(report["written"].values()) + 1,
        "layers": len(report["config"]["cluster_layers"]),
        "topics": len(finest),
        "the largest": "; ".join(finest[:3]),
        "picture": str(home / report["svg"].key),
    }
