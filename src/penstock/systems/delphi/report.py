"""What a run found, for people: as text, and as one HTML file that loads nothing from elsewhere.

1. Everything comes from the tables: a report of a run can be made wherever they can be read.
2. Comments are written by strangers. In the page they are data of a script, set as text, and never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

import orjson

from penstock.systems.delphi.results import ASSIGNMENTS, GRAPH, Results

_TYPICAL: Final = 5
_LISTED: Final = 12
"""Consensus and divisive comments of the whole conversation."""
_LEAST_VOTES: Final = 5
_DIVISIVE: Final = 0.5
_TEXT_TOPICS: Final = 12
_LINE_CHARACTERS: Final = 110


def report_of(results: Results, job_id: str) -> dict[str, Any]:
    """All that the page shows, as JSON. Raises RunNotFound."""
    config = results.config(job_id)
    metadata = config["metadata"]
    layers = len(config["cluster_layers"])
    places = {int(item["source_id"]): item["position"] for item in results.of_job(GRAPH, job_id) if "position" in item}
    comments = [_comment(item, places, layers) for item in results.of_job(ASSIGNMENTS, job_id)]
    return {
        "job": job_id,
        "conversation": str(config["conversation_id"]),
        "title": str(metadata.get("summary", {}).get("topic", "") or config["conversation_id"]),
        "processed": str(config["processed_date"]),
        "participants": int(config["num_participants"]),
        "groups": [int(size) for size in metadata.get("opinion_groups", ())],
        "languages": {code: int(count) for code, count in metadata.get("languages", {}).items()},
        "outliers": {reason: int(count) for reason, count in metadata.get("outliers", {}).items()},
        "layers": layers,
        "comments": comments,
        "topics": [_topic(item) for item in results.topics(job_id)],
        "consensus": _consensus(comments),
        "divisive": _divisive(comments),
    }


def _comment(item: Mapping[str, Any], places: Mapping[int, Any], layers: int) -> dict[str, Any]:
    identity = int(item["comment_id"])
    place = places.get(identity, {"x": 0, "y": 0})
    votes = item.get("votes")
    return {
        "id": identity,
        "text": str(item.get("comment_text", f"comment {identity}")),
        "x": float(place["x"]),
        "y": float(place["y"]),
        "topics": [int(item.get(f"layer{layer}_cluster_id", -1)) for layer in range(layers)],
        "why": str(item.get("outlier_reason", "")),
        "votes": None if votes is None else _plain(votes),
    }


def _plain(votes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "agrees": int(votes["agrees"]),
        "disagrees": int(votes["disagrees"]),
        "passes": int(votes["passes"]),
        "division": float(votes["division"]),
        "groups": [float(share) for share in votes.get("group_agreement", ())],
        "consensus": str(votes.get("consensus", "")),
    }


def _topic(item: Mapping[str, Any]) -> dict[str, Any]:
    parent, votes = item["parent_cluster"], item.get("votes") or {}
    return {
        "layer": int(item["layer_id"]),
        "cluster": int(item["cluster_id"]),
        "name": str(item["topic_label"]),
        "size": int(item["size"]),
        "words": [str(word) for word in item["top_words"]],
        "typical": [str(text) for text in item["sample_comments"][:_TYPICAL]],
        "parent": None if parent is None else int(parent["cluster_id"]),
        "x": float(item["centroid_coordinates"]["x"]),
        "y": float(item["centroid_coordinates"]["y"]),
        "agreement": float(votes["agreement"]) if votes.get("votes") else None,
        "division": float(votes["division"]) if votes.get("votes") else None,
        "consensus": [int(identity) for identity in votes.get("consensus_comments", ())],
        "divisive": [int(identity) for identity in votes.get("divisive_comments", ())],
    }


def _voters(comment: Mapping[str, Any]) -> int:
    votes = comment["votes"]
    return 0 if votes is None else votes["agrees"] + votes["disagrees"] + votes["passes"]


def _consensus(comments: list[dict[str, Any]]) -> list[int]:
    """Those that most people of every group see alike, the clearest first."""
    shared = [one for one in comments if _voters(one) >= _LEAST_VOTES and one["votes"]["consensus"]]

    def clearness(one: dict[str, Any]) -> float:
        votes = one["votes"]
        side = votes["agrees"] if votes["consensus"] == "agree" else votes["disagrees"]
        return float((side + 1) / (_voters(one) + 2))

    return [one["id"] for one in sorted(shared, key=lambda one: (-clearness(one), one["id"]))[:_LISTED]]


def _divisive(comments: list[dict[str, Any]]) -> list[int]:
    """Those that split people most: into halves, or one group from another. None is a consensus."""

    def split(one: dict[str, Any]) -> float:
        groups = [share for share in one["votes"]["groups"] if share >= 0]
        apart = max(groups) - min(groups) if len(groups) > 1 else 0.0
        return float(one["votes"]["division"] + apart)

    voted = [
        one
        for one in comments
        if _voters(one) >= _LEAST_VOTES and one["votes"]["division"] >= _DIVISIVE and not one["votes"]["consensus"]
    ]
    return [one["id"] for one in sorted(voted, key=lambda one: (-split(one), one["id"]))[:_LISTED]]


# ── as text ──────────────────────────────────────────────────────────────────────────────────────


def report_text(report: Mapping[str, Any]) -> str:
    """The same in lines, without the map."""
    texts = {one["id"]: one for one in report["comments"]}
    groups = f", opinion groups of {', '.join(map(str, report['groups']))}" if report["groups"] else ""
    lines = [
        report["title"],
        f"{len(texts):,} comments, {report['participants']:,} participants{groups}",
    ]
    top = report["layers"] - 1
    for topic in [one for one in report["topics"] if one["layer"] == top][:_TEXT_TOPICS]:
        lines.append(f"  {topic['size']:>5}  {topic['name']}")
        lines += [f"         {_short(text)}" for text in topic["typical"][:2]]
    for heading, name in (
        (f"Most people {'of every group ' if report['groups'] else ''}see alike:", "consensus"),
        ("People are divided on:", "divisive"),
    ):
        if report[name]:
            lines.append(heading)
            lines += [f"  {_shares(texts[one]['votes'])}  {_short(texts[one]['text'])}" for one in report[name]]
    return "\n".join(lines)


def _shares(votes: Mapping[str, Any]) -> str:
    voters = votes["agrees"] + votes["disagrees"] + votes["passes"]
    return f"{votes['agrees'] / voters:>4.0%} of {voters:,} agree"


def _short(text: str) -> str:
    return text if len(text) <= _LINE_CHARACTERS else text[: _LINE_CHARACTERS - 1] + "…"


# ── as a page ────────────────────────────────────────────────────────────────────────────────────


def report_html(report: Mapping[str, Any]) -> str:
    """One file: styles, script and data are in it."""
    page = files(__package__).joinpath("report.html").read_text("utf-8")
    # "<" would end the script, or begin a comment in it; the two separators end a line of JavaScript in old browsers.
    data = (
        orjson.dumps(report).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
    return page.replace("{{title}}", escape(report["title"])).replace("{{data}}", data)
