"""What a table has that no definition says: replicas, Kinesis destinations, Contributor Insights. Read only.

It is named as not compared, and nothing is planned that would break it (`survey` keeps a stream that replicas need).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.database import Database
from penstock.errors import AccessDeniedException, PenstockError, PolicyNotFoundException, ResourceNotFoundException
from penstock.tables.plan.survey import WORKERS, Survey, side_by_side


def not_managed(db: Database, name: str) -> tuple[str, ...]:
    """What a table has beside its definition; what could not be asked is told as such."""
    kinds = {
        "DescribeTable": ("replicas", _replicas),
        "DescribeKinesisStreamingDestination": ("Kinesis destinations", _destinations),
        "DescribeContributorInsights": ("Contributor Insights", _insights),
        "GetResourcePolicy": ("a resource policy", _nothing),
    }
    words: list[str] = []
    arn = name
    for operation, (what, read) in kinds.items():
        request = {"ResourceArn": arn} if operation == "GetResourcePolicy" else {"TableName": name}
        try:
            answer = db.execute(operation, request)
            if operation == "DescribeTable":
                arn = answer["Table"].get("TableArn", name)
            words += read(answer)
        except AccessDeniedException:
            words.append(f"{what}: not known, because {operation} is not allowed")
        except (PolicyNotFoundException, ResourceNotFoundException):
            pass
        except PenstockError as error:
            # An endpoint without the operation has none of it. Servers differ in how they say so; moto's fails.
            if getattr(error, "retryable", False) and db.capabilities.tells_settings:
                words.append(f"{what}: not known, because {operation} failed")
    return tuple(words)


def unmanaged_of(db: Database, survey: Survey) -> dict[str, tuple[str, ...]]:
    """The same for the tables of a survey that are there. Only a real DynamoDB is asked: emulators have none of it, and
    some answer with a failure.
    """
    there = [one for one in survey.tables if one.wanted is not None and one.live is not None]
    if not db.capabilities.tells_settings or db.capabilities.has_engine:
        regions = {one.name: one.live.facts.replicas for one in there if one.live is not None}
        return {name: (f"replicas in {', '.join(several)}",) for name, several in regions.items() if several}
    names = [one.name for one in there if one.live is not None and one.live.tells_all]
    found = side_by_side(lambda name: _beside(not_managed(db, name)), names, WORKERS)
    return {name: told for name, told in zip(names, found, strict=True) if told}


def _beside(told: tuple[str, ...]) -> tuple[str, ...]:
    """Without the policy: a definition that has one is compared, and one that has none needs no right to read it."""
    return tuple(one for one in told if not one.startswith("a resource policy"))


def _replicas(answer: Mapping[str, Any]) -> list[str]:
    regions = [one.get("RegionName", "?") for one in answer["Table"].get("Replicas") or ()]
    return [f"replicas in {', '.join(sorted(regions))}"] if regions else []


def _destinations(answer: Mapping[str, Any]) -> list[str]:
    streams = answer.get("KinesisDataStreamDestinations") or ()
    active = [one["StreamArn"] for one in streams if one.get("DestinationStatus") != "DISABLED"]
    return [f"Kinesis destination {arn}" for arn in active]


def _insights(answer: Mapping[str, Any]) -> list[str]:
    is_on = answer.get("ContributorInsightsStatus") in ("ENABLED", "ENABLING")
    return ["Contributor Insights"] if is_on else []


def _nothing(answer: Mapping[str, Any]) -> list[str]:
    return []  # it is managed
