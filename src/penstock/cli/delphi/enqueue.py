"""`penstock delphi enqueue`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.delphi.options import conversation_of, conversation_option, job_form, queue, url_option
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.jobs.model.job import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY
from penstock.systems.delphi.clustering import CLUSTERERS
from penstock.systems.delphi.embedding import EMBEDDERS
from penstock.systems.delphi.pipeline import DEFAULT_SEED
from penstock.systems.delphi.poller import DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS


@click.command("enqueue")
@click.argument("comments", type=click.Path(exists=True, path_type=Path))
@url_option
@conversation_option
@click.option(
    "--report-id", default="", metavar="ID", help="Passed on as DELPHI_REPORT_ID; else the conversation's id."
)
@click.option("--job-id", metavar="ID", help="The job's own id; a second job with it is the first one.")
@click.option(
    "--priority", type=click.IntRange(LOWEST_PRIORITY, HIGHEST_PRIORITY), default=DEFAULT_PRIORITY, show_default=True,
    help="The highest first.",
)  # fmt: skip
@click.option(
    "--retries", type=click.IntRange(0, 1000), default=DEFAULT_RETRIES, show_default=True, help="If it fails."
)
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=DEFAULT_TIMEOUT_SECONDS, show_default=True, metavar="SECONDS",
    help="Then the process and all that it has started are ended.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=DEFAULT_SEED, show_default=True)
@click.option("--embedder", type=click.Choice(list(EMBEDDERS)), default="tfidf", show_default=True)
@click.option("--clusterer", type=click.Choice(CLUSTERERS), default="auto", show_default=True)
@json_option
def command(
    comments: Path,
    url: str,
    conversation: str | None,
    report_id: str,
    job_id: str | None,
    priority: int,
    retries: int,
    timeout: float,
    seed: int,
    embedder: str,
    clusterer: str,
    as_json: bool,
) -> None:
    """Put a conversation into the queue: a poller runs it.

    \b
    Examples:
      penstock delphi enqueue comments.csv --db delphi.db
      penstock delphi enqueue exports/biodiversity/ --priority 9 --timeout 600
    """
    with queue(url, may_make=True) as found:
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
        )
    if as_json:
        print_json(job_form(job))
    else:
        click.echo(job.id)
