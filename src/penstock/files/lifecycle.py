"""How long and in which tier S3 keeps the files of a file store: `plan` decides, `apply` carries it out.

Seed 002: moved to Intelligent-Tiering at once, deleted after 90 days, encrypted by S3, no versions (they are in names).
Also: the leftovers of interrupted saves in `_temp/`, and unfinished uploads, are deleted after a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from penstock.files.bucket import S3
from penstock.files.errors import FileError
from penstock.files.keys import STAGING

EXPIRY_DAYS = 90
STAGING_DAYS = 1
_TIER = "INTELLIGENT_TIERING"


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """A bucket's settings as they are; "" for what was never set."""

    rules: tuple[dict[str, Any], ...]
    encryption: str
    """The algorithm."""
    versioning: str
    least_size: str = ""
    """The smallest size that changes its tier: a setting beside the rules, which putting them would reset."""


@dataclass(frozen=True, slots=True)
class SetRules:
    """Replaces our rules; those of others are kept."""

    rules: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    least_size: str = ""


@dataclass(frozen=True, slots=True)
class SetEncryption:
    """SSE-S3: with S3's own keys."""


@dataclass(frozen=True, slots=True)
class SuspendVersioning:
    """Versioning that was ever on can only be suspended; versions made before stay until they are deleted."""


Change = SetRules | SetEncryption | SuspendVersioning


def plan(live: BucketSettings, prefix: str = "", days: int = EXPIRY_DAYS) -> tuple[Change, ...]:
    """The changes that make a bucket as seed 002 wants it, for the files under `prefix` ("" or "some/prefix/")."""
    wanted = _wanted_rules(prefix, days)
    ids = {rule["ID"] for rule in wanted}
    own = tuple(rule for rule in live.rules if rule.get("ID") in ids)
    others = tuple(rule for rule in live.rules if rule.get("ID") not in ids)
    changes: list[Change] = []
    if {rule["ID"]: _comparable(rule) for rule in own} != {rule["ID"]: _comparable(rule) for rule in wanted}:
        changes.append(SetRules((*others, *wanted), _rule_lines(prefix, days), live.least_size))
    if live.encryption not in ("AES256", "aws:kms", "aws:kms:dsse"):  # a key of one's own is no worse
        changes.append(SetEncryption())
    if live.versioning == "Enabled":
        changes.append(SuspendVersioning())
    return tuple(changes)


def describe(change: Change) -> tuple[str, ...]:
    """What a plan says of a change."""
    match change:
        case SetRules():
            return change.lines
        case SetEncryption():
            return ("encrypt with SSE-S3 (AES256)",)
        case SuspendVersioning():
            return ("suspend versioning (versions made before stay)",)
    assert_never(change)


def inspect(s3: S3) -> BucketSettings:
    """The settings that a bucket has now."""
    lifecycle = _absent_is(s3, "get_bucket_lifecycle_configuration", {"Rules": []})
    encryption = _absent_is(s3, "get_bucket_encryption", {})
    versioning = s3.call("get_bucket_versioning", f"s3://{s3.bucket}").get("Status", "")
    least_size = lifecycle.get("TransitionDefaultMinimumObjectSize", "")
    return BucketSettings(tuple(lifecycle["Rules"]), _algorithm(encryption), versioning, least_size)


def apply(s3: S3, changes: tuple[Change, ...]) -> None:
    """Carries them out, in order."""
    for change in changes:
        match change:
            case SetRules():
                _set(s3, "put_bucket_lifecycle_configuration", **_rules_request(change))
            case SetEncryption():
                by_default = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
                _set(s3, "put_bucket_encryption", ServerSideEncryptionConfiguration={"Rules": [by_default]})
            case SuspendVersioning():
                _set(s3, "put_bucket_versioning", VersioningConfiguration={"Status": "Suspended"})
            case _:
                assert_never(change)


def _rules_request(change: SetRules) -> dict[str, Any]:
    request: dict[str, Any] = {"LifecycleConfiguration": {"Rules": list(change.rules)}}
    if change.least_size:
        request["TransitionDefaultMinimumObjectSize"] = change.least_size
    return request


def _wanted_rules(prefix: str, days: int) -> tuple[dict[str, Any], ...]:
    place = f":{prefix}" if prefix else ""
    unfinished = {"DaysAfterInitiation": STAGING_DAYS}
    kept = {
        "ID": f"penstock-files{place}",
        "Filter": {"Prefix": prefix},
        "Status": "Enabled",
        "Transitions": [{"Days": 0, "StorageClass": _TIER}],
        "Expiration": {"Days": days},
        "AbortIncompleteMultipartUpload": unfinished,
    }
    staged = {
        "ID": f"penstock-staging{place}",
        "Filter": {"Prefix": f"{prefix}{STAGING}/"},
        "Status": "Enabled",
        "Expiration": {"Days": STAGING_DAYS},
    }
    return kept, staged


def _rule_lines(prefix: str, days: int) -> tuple[str, ...]:
    place = prefix or "every file"
    return (
        f"move to Intelligent-Tiering at once: {place}",
        f"delete after {days} days: {place}",
        f"delete after {STAGING_DAYS} day: {prefix}{STAGING}/, and uploads that were not finished",
    )


def _comparable(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule in one form: servers differ in how they write an empty prefix or members without a value."""
    prefix = rule.get("Filter", {}).get("Prefix", rule.get("Prefix", ""))
    members = ("Status", "Transitions", "Expiration", "AbortIncompleteMultipartUpload")
    return {"Prefix": prefix} | {name: rule[name] for name in members if rule.get(name)}


def _algorithm(answer: dict[str, Any]) -> str:
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", [])
    found = [rule.get("ApplyServerSideEncryptionByDefault", {}).get("SSEAlgorithm", "") for rule in rules]
    return str(found[0]) if found else ""


def _set(s3: S3, operation: str, **request: Any) -> None:
    s3.call(operation, f"s3://{s3.bucket}", **request)


_ABSENT = ("NoSuchLifecycleConfiguration", "ServerSideEncryptionConfigurationNotFoundError")


def _absent_is(s3: S3, operation: str, otherwise: dict[str, Any]) -> Any:
    """The bucket's setting, or `otherwise`: S3 has an error code of its own for a setting that was never made."""
    try:
        return s3.call(operation, f"s3://{s3.bucket}")
    except FileError as error:
        if error.code in _ABSENT:
            return otherwise
        raise
