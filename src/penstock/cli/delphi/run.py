"""`penstock delphi run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from penstock.cli.delphi.options import conversation_of, conversation_option, files_option, url_option, working
from penstock.cli.delphi.topics import show_topics, topic_form
from penstock.cli.kit.options import json_option, resumable
from penstock.cli.kit.output import print_json
from penstock.pipelines import PipelineReport, StepReport
from penstock.systems.delphi.clustering import CLUSTERERS, Clusterer
from penstock.systems.delphi.conversation import read_conversation
from penstock.systems.delphi.embedding import EMBEDDERS
from penstock.systems.delphi.libraries import check_installed
from penstock.systems.delphi.naming import load_namer
from penstock.systems.delphi.pipeline import DEFAULT_SEED, JOB_ID_VARIABLE, REPORT_ID_VARIABLE, Delphi
from penstock.systems.delphi.topics import KeywordNamer

_MOST_SHOWN = 12


@click.command("run")
@click.argument("comments", type=click.Path(path_type=Path))
@url_option
@files_option
@conversation_option
@click.option(
    "--job-id", metavar="ID", help=f"Go on with this job, or begin it. Also {JOB_ID_VARIABLE}; else a new one."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=DEFAULT_SEED, show_default=True, help="Same seed, same result."
)
@click.option(
    "--embedder",
    type=click.Choice(list(EMBEDDERS)),
    default="tfidf",
    show_default=True,
    help="minilm needs sentence-transformers.",
)
@click.option(
    "--clusterer",
    type=click.Choice(CLUSTERERS),
    default="auto",
    show_default=True,
    help="auto: a tree below 150 comments, EVoC from there on.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Also write the picture and the topics here."
)
@click.option("--namer", metavar="MODULE:NAMER", help="What names topics, say a language model; else keywords do.")
@click.option(
    "--wait", "wait_seconds", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
    help="Where another process runs the same job: wait for it so long.",
)  # fmt: skip
@json_option
def command(
    comments: Path,
    url: str,
    files: str | None,
    conversation: str | None,
    job_id: str | None,
    seed: int,
    embedder: str,
    clusterer: Clusterer,
    out: Path | None,
    namer: str | None,
    wait_seconds: float,
    as_json: bool,
) -> None:
    """Find the topics of a conversation: COMMENTS is the comments.csv of a Pol.is export, or its folder.

    \b
    Examples:
      penstock delphi run comments.csv --out out/
      penstock delphi run exports/biodiversity/ --url http://127.0.0.1:8000 --seed 7
      penstock delphi run comments.csv --job-id pipeline_run_2f0c…       go on with a run that was killed

    All seven tables are written, and the picture of the map is kept with the job. Who reads by conversation sees the
    run when all of it is there. Needs the extra: pip install 'penstock[delphi]'.
    """
    check_installed(EMBEDDERS[embedder]().library)
    file = comments if comments.is_file() else comments / "comments.csv"
    read_conversation(file)  # what cannot be read leaves no database and no job
    with working(url, files, KeywordNamer() if namer is None else load_namer(namer)) as delphi:
        job = job_id or delphi.new_job_id()
        if not as_json:
            click.echo(f"job {job}", err=True)
        with resumable("the steps that were done are kept. Give --job-id " + job + "."):
            report = delphi.run(
                file,
                conversation_id=conversation_of(comments, conversation),
                job_id=job,
                seed=seed,
                embedder=embedder,
                clusterer=clusterer,
                report_id=os.environ.get(REPORT_ID_VARIABLE, ""),
                wait_seconds=wait_seconds,
                tell=(lambda step: None) if as_json else _tell,
            )
        form = _form(delphi, report)
        if out is not None:
            form["written"] = _write(out, form, report)
        if as_json:
            print_json(form)
        else:
            _show(delphi, form, report)


def _tell(step: StepReport) -> None:
    if step.how != "running":
        took = f"{step.seconds:6.1f} s" if step.how == "ran" else "  reused"
        click.echo(f"  {step.name:<9}{took}", err=True)


def _form(delphi: Delphi, report: PipelineReport) -> dict[str, Any]:
    config = report["config"]
    return {
        "job_id": report.job_id,
        "conversation_id": config["conversation_id"],
        "comments": config["num_comments"],
        "skipped": config["metadata"]["skipped"],
        "layers": [layer["num_clusters"] for layer in config["cluster_layers"]],
        "items": report["written"],
        "ran": list(report.ran),
        "reused": list(report.reused),
        "files": [report["svg"].key, report["png"].key],
        "topics": [topic_form(topic) for topic in delphi.results.topics(report.job_id)],
    }


def _write(out: Path, form: dict[str, Any], report: PipelineReport) -> list[str]:
    import orjson

    out.mkdir(parents=True, exist_ok=True)
    contents = {
        "map.svg": report["svg"].read(),
        "map.png": report["png"].read(),
        "topics.json": orjson.dumps(form["topics"], option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
    }
    for name, data in contents.items():
        (out / name).write_bytes(data)
    return [str(out / name) for name in contents]


def _show(delphi: Delphi, form: dict[str, Any], report: PipelineReport) -> None:
    left_out = ", ".join(f"{count} {reason}" for reason, count in form["skipped"].items() if count)
    click.echo(
        f"{form['conversation_id']}: {form['comments']:,} comments" + (f" ({left_out} left out)" if left_out else "")
    )
    show_topics(delphi.results.topics(report.job_id), most=_MOST_SHOWN)
    items = sum(form["items"].values()) + 1
    click.echo(f"{items:,} items in seven tables, job {report.job_id}")
    for path in form.get("written", ()):
        click.echo(f"  {path}")
