"""`penstock delphi`: conversations to topics."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import click
import orjson

from penstock.cli.jobs.commands import change_each, entry_line
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import NOT_FOUND, WORK_FAILED, CommandFailed
from penstock.cli.kit.groups import group
from penstock.cli.kit.logs import log_warnings
from penstock.cli.kit.options import db_option, json_option, resumable
from penstock.cli.kit.output import count_text, one_line, print_json, print_result
from penstock.client.database import Database
from penstock.clock import utc_text
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.jobs.app import FILES_VARIABLE, App
from penstock.jobs.forms import entry_form
from penstock.jobs.model.job import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY, Job, JobNotFound
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.worker import Worker
from penstock.pipelines import PipelineReport, StepReport
from penstock.records.forks import for_handlers, not_in_children
from penstock.systems.delphi.analysis.clusters import CLUSTERERS, LARGEST_TREE, Clusterer
from penstock.systems.delphi.analysis.conversation import read_conversation
from penstock.systems.delphi.analysis.embeddings import DEFAULT_EMBEDDER, EMBEDDERS
from penstock.systems.delphi.analysis.languages import AUTO, check_language
from penstock.systems.delphi.analysis.libraries import check_installed
from penstock.systems.delphi.analysis.topics import KeywordNamer, Namer, load_namer
from penstock.systems.delphi.pipeline import DEFAULT_SEED, JOB_ID_VARIABLE, REPORT_ID_VARIABLE, Delphi
from penstock.systems.delphi.queue.layout import STATUSES
from penstock.systems.delphi.queue.poller import (
    DEFAULT_INTERVAL_SECONDS,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_SECONDS,
    JobQueue,
)
from penstock.systems.delphi.report import report_html, report_of, report_text
from penstock.systems.delphi.results import Results, RunNotFound
from penstock.systems.delphi.similar import find_similar

DEFAULT_DATABASE = "delphi.db"
_MOST_SHOWN = 12
_SAMPLE_CHARACTERS = 90
_EACH_JOB = {WORK_FAILED: "one could not be changed; the others were", NOT_FOUND: "one was not found; the others were"}

database_option = db_option(default=DEFAULT_DATABASE, help="The database of the tables", note=f"[{DEFAULT_DATABASE}]")
files_option = click.option(
    "--files",
    metavar="HOME",
    help=f"The files of runs: a folder or s3://bucket/prefix. Also {FILES_VARIABLE}.  [default: beside the database]",
)
job_option = click.option("--job-id", metavar="ID", help="The run.  [default: the latest of the conversation]")
conversation_option = click.option(
    "--conversation", metavar="ID", help="The id of the conversation.  [default: the name of its folder or file]"
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=DEFAULT_SEED,
    show_default=True,
    help="The same seed gives the same result.",
)
embedder_option = click.option(
    "--embedder",
    type=click.Choice(list(EMBEDDERS)),
    default=DEFAULT_EMBEDDER,
    show_default=True,
    help="auto: WordLlama with TF-IDF, or TF-IDF alone for languages that WordLlama does not support. minilm needs "
    "sentence-transformers.",
)
clusterer_option = click.option(
    "--clusterer",
    type=click.Choice(CLUSTERERS),
    default="auto",
    show_default=True,
    help=f"auto: tree for up to {LARGEST_TREE:,} comments, EVoC for more.",
)
language_option = click.option(
    "--language", default=AUTO, show_default=True, metavar="CODE",
    help="The language of all comments: de, fr, zh, …; auto detects it.",
)  # fmt: skip


@contextmanager
def open_delphi(target: str, files: str | None, namer: Namer) -> Iterator[Delphi]:
    """A Delphi that may write; what is missing is made."""
    home = files or os.environ.get(FILES_VARIABLE) or (f"{DEFAULT_DATABASE}.files" if "://" in target else None)
    with App(target, files=home) as app, run_not_found_code():
        yield Delphi(app.store, namer)


@contextmanager
def open_results(target: str) -> Iterator[tuple[Database, Results]]:
    """The results, for reading: no file is made."""
    with open_database(target, maker="penstock delphi run") as db, run_not_found_code():
        try:
            yield db, Results(db)
        except ResourceNotFoundException as error:
            raise PenstockError(f"{target} has no tables of Delphi yet: `penstock delphi run` makes them.") from error


@contextmanager
def open_queue(target: str, files: str | None = None, *, may_make: bool = False) -> Iterator[JobQueue]:
    """The queue of jobs. Only what puts jobs into it, or runs them, makes a database."""
    if not may_make:
        with open_database(target, maker="penstock delphi enqueue"):
            pass
    found = JobQueue(target, files=files)
    try:
        yield found
    except JobNotFound as error:
        raise CommandFailed(NOT_FOUND, str(error)) from error
    finally:
        found.close()


@contextmanager
def run_not_found_code() -> Iterator[None]:
    """What is not there has an exit code of its own."""
    try:
        yield
    except RunNotFound as error:
        raise CommandFailed(NOT_FOUND, str(error)) from error


def conversation_of(file: Path, given: str | None) -> str:
    """The id that was given; else the name of the folder of a comments.csv, or of any other file."""
    if given:
        return given
    file = file.absolute()
    if file.is_dir():
        return file.name
    return file.parent.name or file.stem if file.stem == "comments" else file.stem


def job_of(results: Results, job_id: str | None, conversation: str | None) -> str:
    """The run that is meant: by its id, the latest of a conversation, or the newest of all. Raises RunNotFound."""
    if job_id is not None:
        return job_id
    if conversation is not None:
        return results.latest_job_id(conversation)
    runs = results.runs()
    if not runs:
        raise RunNotFound("There is no complete run yet: `penstock delphi run comments.csv` makes one.")
    return str(runs[0]["job_id"])


def job_form(job: Job) -> dict[str, Any]:
    """A job of the queue as JSON, in the queue's own words."""
    return {
        "job_id": job.id,
        "job_type": job.task,
        "status": STATUSES[job.state],
        "job_config": orjson.loads(job.args.text or "{}"),
        "priority": job.priority,
        "retry_count": job.failures,
        "max_retries": job.retries,
        "created_at": utc_text(job.created_at),
        "updated_at": utc_text(job.updated_at),
        "worker_id": None if job.lease is None else job.lease.owner,
        "lock_expires_at": None if job.lease is None else utc_text(job.lease.until),
        "error": None if job.error is None else job.error.message,
    }


def job_line(job: Job) -> str:
    form = job_form(job)
    about = form["job_config"].get("conversation_id", "")
    return f"{form['created_at']}  {job.id}  {form['status']:<10}  {job.priority}  {job.task}  {about}".rstrip()


@group("delphi", exit_codes={NOT_FOUND: "there is no such run or job"})
def command() -> None:
    """Find the topics of Pol.is conversations: vectors, a map, layers of clusters and their names.

    \b
    Examples:
      penstock delphi run comments.csv --db delphi.db --out out/
      penstock delphi topics --db delphi.db
      penstock tables verify delphi --db delphi.db

    Without --db, the database is PENSTOCK_DB, else delphi.db.
    """


@command.command("run")
@click.argument("comments", type=click.Path(path_type=Path))
@database_option
@files_option
@conversation_option
@click.option(
    "--job-id", metavar="ID", help=f"Continue or start this job. Also {JOB_ID_VARIABLE}.  [default: a new job]"
)
@seed_option
@embedder_option
@clusterer_option
@language_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Also write the map and the topics to this folder."
)
@click.option(
    "--namer", metavar="MODULE:NAMER", help="The namer of topics, for example a language model.  [default: keywords]"
)
@click.option(
    "--wait", "wait_seconds", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
    help="How long to wait for another process that runs the same job.",
)  # fmt: skip
@json_option
def run(
    comments: Path,
    target: str,
    files: str | None,
    conversation: str | None,
    job_id: str | None,
    seed: int,
    embedder: str,
    clusterer: Clusterer,
    language: str,
    out: Path | None,
    namer: str | None,
    wait_seconds: float,
    as_json: bool,
) -> None:
    """Find the topics of a conversation: COMMENTS is the comments.csv of a Pol.is export, or its folder.

    \b
    Examples:
      penstock delphi run comments.csv --out out/
      penstock delphi run exports/biodiversity/ --db http://127.0.0.1:8000 --seed 7
      penstock delphi run comments.csv --job-id pipeline_run_2f0c…       continue a run that was killed

    The command writes all seven tables, and stores the map with the job. A run becomes visible by its conversation when
    it is complete. Needs the extra: pip install 'penstock[delphi]'.
    """
    check_installed(EMBEDDERS[embedder]().library)
    check_language(language)
    file = comments if comments.is_file() else comments / "comments.csv"
    read_conversation(file)  # what cannot be read leaves no database and no job
    with open_delphi(target, files, KeywordNamer() if namer is None else load_namer(namer)) as delphi:
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
                language=language,
                report_id=os.environ.get(REPORT_ID_VARIABLE, ""),
                wait_seconds=wait_seconds,
                tell=(lambda step: None) if as_json else _print_step,
            )
        form = _form(delphi, report)
        if out is not None:
            form["written"] = _write(out, form, report)
        if as_json:
            print_json(form)
        else:
            _show(delphi, form, report)


def _print_step(step: StepReport) -> None:
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
        "languages": config["metadata"]["languages"],
        "participants": config["num_participants"],
        "opinion_groups": config["metadata"]["opinion_groups"],
        "outliers": config["metadata"]["outliers"],
        "layers": [layer["num_clusters"] for layer in config["cluster_layers"]],
        "items": report["written"],
        "ran": list(report.ran),
        "reused": list(report.reused),
        "files": [report["svg"].key, report["png"].key],
        "topics": [topic_form(topic) for topic in delphi.results.topics(report.job_id)],
    }


def _write(out: Path, form: dict[str, Any], report: PipelineReport) -> list[str]:
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
        f"{form['conversation_id']}: {count_text(form['comments'], 'comment')}"
        + (f" ({left_out} left out)" if left_out else "")
    )
    click.echo(about_line(report["config"]))
    show_topics(delphi.results.topics(report.job_id), most=_MOST_SHOWN)
    click.echo(outlier_line(report["config"]))
    items = sum(form["items"].values()) + 1
    click.echo(f"{items:,} items in seven tables, job {report.job_id}")
    for path in form.get("written", ()):
        click.echo(f"  {path}")


def about_line(config: Mapping[str, Any]) -> str:
    """The language, and who took part."""
    told = config["metadata"]
    ranked = sorted(told["languages"].items(), key=lambda one: (-one[1], one[0]))
    languages = ", ".join(code if len(ranked) == 1 else f"{code} {int(count):,}" for code, count in ranked)
    groups = [int(size) for size in told["opinion_groups"]]
    people = count_text(int(config["num_participants"]), "participant")
    shared = f", opinion groups of {', '.join(f'{size:,}' for size in groups)}" if groups else ""
    return f"language {languages}; {people}{shared}"


def outlier_line(config: Mapping[str, Any]) -> str:
    """How many comments are in no topic, and why."""
    reasons = {reason: int(count) for reason, count in config["metadata"]["outliers"].items()}
    left, comments = sum(reasons.values()), int(config["num_comments"])
    if not left:
        return "Every comment is in a topic."
    why = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.items())
    return f"{left:,} of {comments:,} comments ({left / comments:.1%}) are in no topic ({why})."


@command.command("topics")
@click.argument("conversation", required=False)
@database_option
@job_option
@click.option("--layer", type=click.IntRange(0), help="Only this layer; 0 is the finest.")
@click.option("--samples", is_flag=True, help="Show the most typical comment of each topic.")
@json_option
def topics(
    conversation: str | None, target: str, job_id: str | None, layer: int | None, samples: bool, as_json: bool
) -> None:
    """Show the topics of a run: a job, the latest run of CONVERSATION, or the newest run.

    \b
    Examples:
      penstock delphi topics --db delphi.db
      penstock delphi topics biodiversity --db delphi.db --layer 0 --samples
      penstock delphi topics --job-id pipeline_run_2f0c… --db delphi.db --json
    """
    with open_results(target) as (_, results):
        job = job_of(results, job_id, conversation)
        results.config(job)
        found = [topic for topic in results.topics(job) if layer is None or topic["layer_id"] == layer]
        if as_json:
            print_json([topic_form(topic) for topic in found])
        else:
            show_topics(found, samples=samples)


def topic_form(topic: Mapping[str, Any]) -> dict[str, Any]:
    """A topic as JSON."""
    return {
        "key": topic["cluster_key"],
        "layer": int(topic["layer_id"]),
        "name": topic["topic_label"],
        "size": int(topic["size"]),
        "words": topic["top_words"],
        "samples": topic["sample_comments"],
        "parent": _key(topic["parent_cluster"]),
        "children": [_key(child) for child in topic["child_clusters"]],
        "votes": _votes_form(topic.get("votes")),
    }


def _votes_form(votes: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if votes is None:
        return None
    return {
        "agreement": float(votes["agreement"]),
        "division": float(votes["division"]),
        "votes": int(votes["votes"]),
        "consensus_comments": [int(one) for one in votes["consensus_comments"]],
        "divisive_comments": [int(one) for one in votes["divisive_comments"]],
    }


def show_topics(topics: Sequence[Mapping[str, Any]], *, samples: bool = False, most: int | None = None) -> None:
    """One line a topic, each layer under its heading; of each layer the first `most`."""
    for layer in sorted({int(topic["layer_id"]) for topic in topics}, reverse=True):
        own = [topic for topic in topics if topic["layer_id"] == layer]
        click.echo(f"layer {layer}: {count_text(len(own), 'topic')}")
        for topic in own[:most]:
            click.echo(f"  {int(topic['size']):>5}  {topic['topic_label']}")
            if samples and topic["sample_comments"]:
                click.echo(f"         {_short(topic['sample_comments'][0])}")
        if most is not None and len(own) > most:
            click.echo(f"         and {len(own) - most} more: penstock delphi topics --layer {layer}")


def _key(cluster: Mapping[str, Any] | None) -> str | None:
    return None if cluster is None else f"layer{cluster['layer_id']}_{cluster['cluster_id']}"


def _short(text: str) -> str:
    return text if len(text) <= _SAMPLE_CHARACTERS else text[: _SAMPLE_CHARACTERS - 1] + "…"


@command.command("report")
@click.argument("job_id", metavar="[JOB]", required=False)
@database_option
@conversation_option
@click.option("--html", "as_html", is_flag=True, help="Write one HTML file that needs no network.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file.  [default: the name of the conversation]",
)
@json_option
def report(
    job_id: str | None, target: str, conversation: str | None, as_html: bool, out: Path | None, as_json: bool
) -> None:
    """Show the topics of a run with typical, divisive and consensus comments. JOB defaults to the newest run.

    \b
    Examples:
      penstock delphi report pipeline_run_2f0c… --html
      penstock delphi report --conversation biodiversity --html --out biodiversity.html
      penstock delphi report --db delphi.db

    The page contains a zoomable map and all comments. It loads nothing from the network.
    """
    with open_results(target) as (_, results):
        found = report_of(results, job_of(results, job_id, conversation))
    if not as_html:
        print_result(found, report_text(found), as_json=as_json)
        return
    name = re.sub(r"[^\w.-]+", "-", found["conversation"]).strip("-.") or "report"
    path = out or Path(f"{name}.html")
    path.write_text(report_html(found), encoding="utf-8")
    print_result({"written": str(path), "job_id": found["job"]}, str(path), as_json=as_json)


@command.command("similar")
@click.argument("job_id", metavar="JOB")
@click.argument("text")
@database_option
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Maximum number of comments."
)
@json_option
def similar(job_id: str, text: str, target: str, limit: int, as_json: bool) -> None:
    """Find the comments of a run that are most similar to TEXT: similarity (1 is equal), id, text.

    \b
    Examples:
      penstock delphi similar pipeline_run_2f0c… "trams are too expensive" --db delphi.db
      penstock delphi similar pipeline_run_2f0c… "trams" --limit 3 --json
    """
    with open_results(target) as (_, results):
        found = find_similar(results, job_id, text, most=limit)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    for one in found:
        topic = f"  [{one.topic}]" if one.topic else ""
        click.echo(one_line(f"{one.similarity:.2f}  {one.comment_id:>5}  {_short(one.text)}{topic}"))
    if not found:
        click.echo("No comment of this run has a word or a meaning of the text.", err=True)


@command.command("runs")
@click.argument("conversation", required=False)
@database_option
@json_option
def runs(conversation: str | None, target: str, as_json: bool) -> None:
    """List complete runs, newest first: of CONVERSATION, or of all conversations.

    \b
    Example:
      penstock delphi runs --db delphi.db
    """
    with open_results(target) as (_, results):
        found = [
            {
                "job_id": run["job_id"],
                "conversation_id": run["conversation_id"],
                "processed_date": run["processed_date"],
                "comments": int(run["num_comments"]),
                "layers": [int(layer["num_clusters"]) for layer in run["cluster_layers"]],
            }
            for run in results.runs(conversation)
        ]
    if as_json:
        print_json(found)
        return
    for run in found:
        about = f"{run['comments']:,} comments  {' → '.join(map(str, run['layers']))} clusters"
        click.echo(f"{run['processed_date']}  {run['job_id']}  {run['conversation_id']}  {about}")
    if not found:
        click.echo("There is no complete run.", err=True)


@command.command("enqueue")
@click.argument("comments", type=click.Path(exists=True, path_type=Path))
@database_option
@conversation_option
@click.option(
    "--report-id",
    default="",
    metavar="ID",
    help="The value of DELPHI_REPORT_ID.  [default: the id of the conversation]",
)
@click.option("--job-id", metavar="ID", help="The id of the job; a second request with it returns the first job.")
@click.option(
    "--priority", type=click.IntRange(LOWEST_PRIORITY, HIGHEST_PRIORITY), default=DEFAULT_PRIORITY, show_default=True,
    help="Jobs of the highest priority run first.",
)  # fmt: skip
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=DEFAULT_RETRIES,
    show_default=True,
    help="Number of retries if the job fails.",
)
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=DEFAULT_TIMEOUT_SECONDS, show_default=True, metavar="SECONDS",
    help="Time limit; then the process and its children are stopped.",
)  # fmt: skip
@seed_option
@embedder_option
@clusterer_option
@language_option
@json_option
def enqueue(
    comments: Path,
    target: str,
    conversation: str | None,
    report_id: str,
    job_id: str | None,
    priority: int,
    retries: int,
    timeout: float,
    seed: int,
    embedder: str,
    clusterer: str,
    language: str,
    as_json: bool,
) -> None:
    """Queue a conversation; a poller runs it.

    \b
    Examples:
      penstock delphi enqueue comments.csv --db delphi.db
      penstock delphi enqueue exports/biodiversity/ --priority 9 --timeout 600
    """
    with open_queue(target, may_make=True) as found:
        job = found.enqueue(
            comments,
            conversation_id=conversation_of(comments, conversation),
            report_id=report_id,
            job_id=job_id,
            priority=priority,
            retries=retries,
            timeout_seconds=timeout,
            seed=seed,
            embedder=embedder,
            clusterer=clusterer,
            language=language,
        )
    print_result(job_form(job), job.id, as_json=as_json)


@command.command("jobs")
@database_option
@click.option(
    "--status", type=click.Choice(list(STATUSES.values()), case_sensitive=False), help="Only jobs with this status."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of jobs.")
@json_option
def jobs(target: str, status: str | None, limit: int, as_json: bool) -> None:
    """List the jobs of the queue, newest first, with status, priority, type and conversation.

    \b
    Example:
      penstock delphi jobs --status PENDING --db delphi.db
    """
    state = next((state for state, name in STATUSES.items() if name == status), None)
    with open_queue(target) as found:
        jobs = found.app.store.find(state=state, limit=limit).jobs
    if as_json:
        print_json([job_form(job) for job in jobs])
        return
    for job in jobs:
        click.echo(one_line(job_line(job)))
    if not jobs:
        click.echo("There is no such job.", err=True)


@command.command("show")
@click.argument("job_id", metavar="JOB")
@database_option
@json_option
def show(job_id: str, target: str, as_json: bool) -> None:
    """Show a job of the queue with the output of its process.

    \b
    Example:
      penstock delphi show job_mwimjl2f_5wro67 --db delphi.db
    """
    with open_queue(target) as found:
        history = found.app.store.history(job_id)
    if as_json:
        print_json({**job_form(history.job), "log": [entry_form(entry) for entry in history.entries]})
        return
    click.echo(job_line(history.job))
    if history.job.error is not None:
        click.echo(f"error: {history.job.error.message}")
    for entry in history.entries:
        click.echo(entry_line(entry))


@command.command("cancel", exit_codes=_EACH_JOB)
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@database_option
@json_option
def cancel(job_ids: tuple[str, ...], target: str, as_json: bool) -> None:
    """Cancel jobs of the queue. A running job's process group is stopped.

    \b
    Example:
      penstock delphi cancel job_mwimjl2f_5wro67 --db delphi.db
    """
    with open_queue(target) as found:
        raise SystemExit(change_each(lambda _: found.app.store, JobStore.cancel, job_ids, as_json))


@command.command("retry", exit_codes=_EACH_JOB)
@click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
@database_option
@json_option
def retry(job_ids: tuple[str, ...], target: str, as_json: bool) -> None:
    """Retry failed jobs of the queue. A retry continues where the last attempt stopped.

    \b
    Example:
      penstock delphi retry job_mwimjl2f_5wro67 --db delphi.db
    """
    with open_queue(target) as found:
        raise SystemExit(change_each(lambda _: found.app.store, JobStore.retry, job_ids, as_json))


@command.command("poller")
@database_option
@files_option
@click.option(
    "--interval", type=click.FloatRange(0.02, 60), default=DEFAULT_INTERVAL_SECONDS, show_default=True,
    metavar="SECONDS", help="Time between polls of the queue.",
)  # fmt: skip
@click.option(
    "--max-workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Jobs in parallel, one process each.",
)
@click.option("--burst", is_flag=True, help="Stop when the queue is empty.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON at the end.")
def poller(target: str, files: str | None, interval: float, max_workers: int, burst: bool, as_json: bool) -> None:
    """Run the jobs of the queue by priority, then by age. Any number of pollers may share a queue.

    \b
    Examples:
      penstock delphi poller --db delphi.db --interval 5 --max-workers 2
      penstock delphi poller --db delphi.db --burst

    Each job is a process with DELPHI_JOB_ID and DELPHI_REPORT_ID. Ctrl-C (or SIGTERM) stops the processes and requeues
    their jobs, which continue where they stopped. With --burst, the exit code is 3 if a job has failed.
    """
    log_warnings()
    check_installed()  # else every job would use up its attempts
    with open_queue(target, files, may_make=True) as found:
        worker = found.poller(interval_seconds=interval, max_workers=max_workers, burst=burst, on_end=_print_end)
        _stop_on_signals(worker)
        click.echo(f"{worker.name}: {', '.join(sorted(found.app.tasks))} from {target}", err=True)
        counts = worker.run()
    if as_json:
        print_json(asdict(counts))
    else:
        click.echo(f"{counts.completed:,} completed, {counts.failed:,} failed, {counts.retried:,} to retry.", err=True)
    if burst and counts.failed:
        raise SystemExit(WORK_FAILED)


def _print_end(job: Job, how: str) -> None:
    reason = f": {job.error.message}" if job.error is not None and how in ("failed", "retried") else ""
    click.echo(f"{job.id} {how.replace('_', ' ')}{reason}", err=True)


def _stop_on_signals(worker: Worker) -> None:
    stop_worker = for_handlers(worker.stop)

    def stop(number: int, frame: FrameType | None) -> None:
        stop_worker()

    signal.signal(signal.SIGINT, not_in_children(stop))
    signal.signal(signal.SIGTERM, not_in_children(stop))
