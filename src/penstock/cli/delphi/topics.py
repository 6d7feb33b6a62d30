"""`penstock delphi topics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from penstock.cli.delphi.options import job_of, job_option, looking, url_option
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json

_SAMPLE_CHARACTERS = 90


@click.command("topics")
@click.argument("conversation", required=False)
@url_option
@job_option
@click.option("--layer", type=click.IntRange(0), help="Only this layer; 0 is the finest.")
@click.option("--samples", is_flag=True, help="With the most typical comment of each.")
@json_option
def command(
    conversation: str | None, url: str, job_id: str | None, layer: int | None, samples: bool, as_json: bool
) -> None:
    """Show the topics of a run, coarsest layer first: of a job, of a CONVERSATION's latest run, or of the newest run.

    \b
    Examples:
      penstock delphi topics --db delphi.db
      penstock delphi topics biodiversity --db delphi.db --layer 0 --samples
      penstock delphi topics --job-id pipeline_run_2f0c… --db delphi.db --json
    """
    with looking(url) as (_, results):
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
    }


def show_topics(topics: Sequence[Mapping[str, Any]], *, samples: bool = False, most: int | None = None) -> None:
    """One line a topic, each layer under its heading; of each layer the first `most`."""
    for layer in sorted({int(topic["layer_id"]) for topic in topics}, reverse=True):
        own = [topic for topic in topics if topic["layer_id"] == layer]
        click.echo(f"layer {layer}: {len(own)} topics")
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
