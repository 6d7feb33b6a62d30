"""The members that a table's definition in JSON may have, at every level: a misspelled one must not mean "none", and a
value of another kind must not mean "off".

What DescribeTable tells of a table and nobody can define (dates, sizes, ARNs, states) is known by name and not read.
"""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without members: what it is, and whether one is that."""

    words: str
    is_right: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its members, those that it must have, and those that are known and not read.

    `several` is a list of such objects.
    """

    members: Mapping[str, Shape | Leaf]
    required: frozenset[str] = field(default_factory=frozenset)
    unread: frozenset[str] = field(default_factory=frozenset)
    several: bool = False


Members = Mapping[str, Shape | Leaf]


def shape(
    *common: Members, required: str = "", unread: str = "", several: bool = False, **members: Shape | Leaf
) -> Shape:
    """An object of these members; the names of those that it must have, and that are not read, between spaces."""
    every: dict[str, Shape | Leaf] = {}
    for some in (*common, members):
        every |= some
    return Shape(every, frozenset(required.split()), frozenset(unread.split()), several)


def _one_of(*texts: str) -> Leaf:
    return Leaf(f"one of {', '.join(texts)}", lambda value: isinstance(value, str) and value in texts)


_TEXT = Leaf("a text", lambda value: isinstance(value, str))
_TEXTS = Leaf("a list of texts", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value))
_FLAG = Leaf("true or false", lambda value: isinstance(value, bool))
_WHOLE = Leaf("a whole number", lambda value: type(value) is int)
_OBJECT = Leaf("an object or a text", lambda value: isinstance(value, dict | str))

_ATTRIBUTES = shape(
    required="AttributeName AttributeType", several=True, AttributeName=_TEXT, AttributeType=_one_of("S", "N", "B")
)
_KEY = shape(required="AttributeName KeyType", several=True, AttributeName=_TEXT, KeyType=_one_of("HASH", "RANGE"))
_PROJECTION = shape(
    required="ProjectionType", ProjectionType=_one_of("ALL", "KEYS_ONLY", "INCLUDE"), NonKeyAttributes=_TEXTS
)
_UNITS = shape(
    required="ReadCapacityUnits WriteCapacityUnits",
    ReadCapacityUnits=_WHOLE,
    WriteCapacityUnits=_WHOLE,
    unread="LastIncreaseDateTime LastDecreaseDateTime NumberOfDecreasesToday",
)
_MAXIMUM = shape(MaxReadRequestUnits=_WHOLE, MaxWriteRequestUnits=_WHOLE)
_WARM = shape(ReadUnitsPerSecond=_WHOLE, WriteUnitsPerSecond=_WHOLE, unread="Status")
_LOCAL_INDEXES = shape(
    required="IndexName KeySchema Projection",
    several=True,
    IndexName=_TEXT,
    KeySchema=_KEY,
    Projection=_PROJECTION,
    unread="IndexArn IndexSizeBytes IndexStatus ItemCount ProvisionedThroughput",
)
_GLOBAL_INDEXES = shape(
    required="IndexName KeySchema Projection",
    several=True,
    IndexName=_TEXT,
    IndexStatus=_TEXT,
    KeySchema=_KEY,
    Projection=_PROJECTION,
    ProvisionedThroughput=_UNITS,
    OnDemandThroughput=_MAXIMUM,
    WarmThroughput=_WARM,
    unread="Backfilling IndexArn IndexSizeBytes ItemCount",
)
_VECTOR_INDEXES = shape(
    required="IndexName VectorAttribute Dimensions DistanceFunction Projection",
    several=True,
    IndexName=_TEXT,
    IndexStatus=_TEXT,
    VectorAttribute=shape(required="AttributeName", AttributeName=_TEXT),
    Dimensions=_WHOLE,
    DistanceFunction=_one_of("COSINE", "DOT_PRODUCT", "EUCLIDEAN"),
    SearchSchema=shape(
        required="AttributeName SearchSchemaElementType",
        several=True,
        AttributeName=_TEXT,
        SearchSchemaElementType=_one_of("HASH", "INLINE_FILTER"),
    ),
    Projection=_PROJECTION,
    unread="Backfilling IndexArn IndexSizeBytes ItemCount",
)
_TABLE = shape(
    required="AttributeDefinitions KeySchema",
    TableName=_TEXT,
    BillingMode=_one_of("PAY_PER_REQUEST", "PROVISIONED"),
    DeletionProtectionEnabled=_FLAG,
    AttributeDefinitions=_ATTRIBUTES,
    KeySchema=_KEY,
    BillingModeSummary=shape(
        BillingMode=_one_of("PAY_PER_REQUEST", "PROVISIONED"), unread="LastUpdateToPayPerRequestDateTime"
    ),
    ProvisionedThroughput=_UNITS,
    OnDemandThroughput=_MAXIMUM,
    WarmThroughput=_WARM,
    LocalSecondaryIndexes=_LOCAL_INDEXES,
    GlobalSecondaryIndexes=_GLOBAL_INDEXES,
    VectorIndexes=_VECTOR_INDEXES,
    StreamSpecification=shape(required="StreamEnabled", StreamEnabled=_FLAG, StreamViewType=_TEXT),
    TableClassSummary=shape(TableClass=_TEXT, unread="LastUpdateDateTime"),
    SSEDescription=shape(
        Status=_one_of("DISABLED", "DISABLING", "ENABLED", "ENABLING", "UPDATING"),
        SSEType=_one_of("AES256", "KMS"),
        KMSMasterKeyArn=_TEXT,
        KMSMasterKeyId=_TEXT,
        unread="InaccessibleEncryptionDateTime",
    ),
    unread=(
        "ArchivalSummary CreationDateTime GlobalTableSettingsReplicationMode GlobalTableVersion GlobalTableWitnesses "
        "ItemCount LatestStreamArn LatestStreamLabel MultiRegionConsistency Replicas RestoreSummary TableArn TableId "
        "TableSizeBytes TableStatus TableThroughputModeSummary"
    ),
)
_RECOVERY = shape(
    PointInTimeRecoveryStatus=_one_of("DISABLED", "ENABLED"),
    RecoveryPeriodInDays=_WHOLE,
    unread="EarliestRestorableDateTime LatestRestorableDateTime",
)
_BESIDE: dict[str, Shape | Leaf] = {
    "TimeToLiveDescription": shape(
        TimeToLiveStatus=_one_of("DISABLED", "DISABLING", "ENABLED", "ENABLING"), AttributeName=_TEXT
    ),
    "ContinuousBackupsDescription": Shape(
        {**_RECOVERY.members, "PointInTimeRecoveryDescription": _RECOVERY},
        unread=_RECOVERY.unread | {"ContinuousBackupsStatus"},
    ),
    "Tags": shape(required="Key Value", several=True, Key=_TEXT, Value=_TEXT),
    "Ignore": _TEXTS,
    "ResourcePolicy": _OBJECT,
    "Allow": _OBJECT,
}
_UNREAD_BESIDE = frozenset({"NextToken", "ResponseMetadata"})

_WRAPPED = Shape({"Table": _TABLE, **_BESIDE}, frozenset({"Table"}), _UNREAD_BESIDE)
_BARE = Shape({**_TABLE.members, **_BESIDE}, _TABLE.required, _TABLE.unread | _UNREAD_BESIDE)


@dataclass(frozen=True, slots=True)
class WrongMember:
    """A member that is wrong: its JSON pointer, and why."""

    pointer: str
    text: str

    def __str__(self) -> str:
        return f"{self.pointer or 'the whole'} {self.text}"


def wrong_members(document: Mapping[str, Any]) -> tuple[WrongMember, ...]:
    """Each member that no definition has, with the nearest name; that is missing; or that is of another kind."""
    found = wrong_by(document, _WRAPPED if "Table" in document else _BARE)
    return found or tuple(_wrong_together(document))


def wrong_by(document: Mapping[str, Any], form: Shape) -> tuple[WrongMember, ...]:
    """What is wrong in an object that is to have this form."""
    return tuple(_wrong(document, form, ""))


def _wrong(value: Any, form: Shape | Leaf, place: str) -> Iterator[WrongMember]:
    if isinstance(form, Leaf):
        if not form.is_right(value):
            yield WrongMember(place, f"is {_shown(value)}, and not {form.words}")
    elif form.several:
        if not isinstance(value, list):
            yield WrongMember(place, f"is {_shown(value)}, and not a list of objects")
            return
        one_shape = Shape(form.members, form.required, form.unread)
        for at, one in enumerate(value):
            yield from _wrong(one, one_shape, f"{place}/{at}")
    elif not isinstance(value, dict):
        yield WrongMember(place, f"is {_shown(value)}, and not an object")
    else:
        yield from _wrong_object(value, form, place)


def _wrong_object(value: Mapping[str, Any], form: Shape, place: str) -> Iterator[WrongMember]:
    for name, inner in value.items():
        pointer = f"{place}/{name.replace('~', '~0').replace('/', '~1')}"
        below = form.members.get(name)
        if below is not None:
            yield from _wrong(inner, below, pointer)
        elif name not in form.unread:
            yield WrongMember(pointer, f"is unknown{_suggestion(name, form)}")
    for name in sorted(form.required - value.keys()):
        yield WrongMember(f"{place}/{name}", "is missing")


def _wrong_together(document: Mapping[str, Any]) -> Iterator[WrongMember]:
    """Members that are right alone, and mean nothing without another."""
    table, start = (document["Table"], "/Table") if "Table" in document else (document, "")
    defined = {one["AttributeName"] for one in table["AttributeDefinitions"]}
    keys = [("KeySchema", table["KeySchema"])]
    for member in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        keys += [(f"{member}/{at}/KeySchema", one["KeySchema"]) for at, one in enumerate(table.get(member) or ())]
    keys += [
        (f"VectorIndexes/{at}/SearchSchema", one.get("SearchSchema") or ())
        for at, one in enumerate(table.get("VectorIndexes") or ())
    ]
    for place, key in keys:
        for at, part in enumerate(key):
            if part["AttributeName"] not in defined:
                text = f"is {part['AttributeName']!r}, which AttributeDefinitions does not have"
                yield WrongMember(f"{start}/{place}/{at}/AttributeName", text)
    mode = (table.get("BillingModeSummary") or {}).get("BillingMode") or table.get("BillingMode")
    if mode != "PAY_PER_REQUEST" and not table.get("ProvisionedThroughput"):
        # DescribeTable always has it. Its absence must not make a table of one unit.
        step = 'for on demand, write "BillingMode": "PAY_PER_REQUEST"'
        yield WrongMember(f"{start}/ProvisionedThroughput", f"is missing ({step})")
    stream = table.get("StreamSpecification") or {}
    if stream.get("StreamEnabled") and "StreamViewType" not in stream:
        yield WrongMember(f"{start}/StreamSpecification/StreamViewType", "is missing")
    ttl = document.get("TimeToLiveDescription") or {}
    if ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING") and "AttributeName" not in ttl:
        yield WrongMember("/TimeToLiveDescription/AttributeName", "is missing")


def _shown(value: Any) -> str:
    return "null" if value is None else reprlib.repr(value)


def _suggestion(name: str, shape: Shape) -> str:
    known = {one.lower(): one for one in shape.members}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f" (did you mean {known[near[0]]}?)" if near else f" (there is {', '.join(sorted(shape.members))})"


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def line_of(text: str, pointer: str) -> int | None:
    """The line, from 1, on which a JSON text has the member of this pointer, or the nearest that holds it."""
    at = 0
    try:
        for part in pointer.split("/")[1:]:
            at = _enter(text, at, part.replace("~1", "/").replace("~0", "~"))
    except (LookupError, ValueError):
        pass  # missing: the line of what should have it
    except RecursionError:
        return None
    return text.count("\n", 0, _skip(text, at)) + 1


def _enter(text: str, at: int, name: str) -> int:
    """Where the member of this name begins in the object, or the list, that begins at `at`."""
    at, decoder = _skip(text, at), json.JSONDecoder()
    is_object = text[at] == "{"
    at, number = _skip(text, at + 1), 0
    while text[at] not in "}]":
        found = str(number)
        if is_object:
            found, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)  # over the colon
        if found == name:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        at, number = _skip(text, at + 1) if text[at] == "," else at, number + 1
    raise LookupError(name)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n\ufeff":
        at += 1
    return at
