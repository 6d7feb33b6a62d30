"""Which generation of AWS's wording an answer wears (docs/decisions/0004-wording.md says why).

AWS reads a request in one of two layers.

1. PutItem, UpdateItem and DeleteItem: the current layer. What the request alone shows to be wrong wears the
   envelope `1 validation error detected: `, except the texts of `_BARE`.
2. GetItem, BatchGetItem and Query: the current layer's words for values, bare.
3. All the other calls: the older layer.
4. A request of 1 that lacks a required member, or with a value nested deeper than `OLDER_LEVELS`, is read in the
   older layer: every fault in one list, each with its value, and no envelope otherwise.
5. In the current layer ConditionalOperator is no member to check but joins conditions: a word that it does not know
   is told where there are two conditions to join, and otherwise that there are not.

What only the table or the item can show is never in an envelope.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.errors import SerializationException, ValidationException
from penstock.expressions.request import operator_misuse
from penstock.wire.limits import ECHOED_CHARACTERS
from penstock.wire.numbers import RefusedValue

Request = Mapping[str, Any]

OLDER_LEVELS = 62
"""Levels of maps and lists past which AWS reads a single-item request as it used to."""

_ENVELOPE = "1 validation error detected: "
_RETURN_VALUES = (  # UPDATE_NEW is AWS's own spelling
    "Failed to satisfy constraint: Member must satisfy enum value set: "
    "[ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"
)
_EMPTY_NAME = "Value {} failed to satisfy constraint: Member must have length greater than or equal to 1"

_BARE = (
    # Regions differ about these, and the suites take both forms or the bare one.
    "Can not use both expression and non-expression parameters",
    "Value provided in ExpressionAttribute",
    "Invalid UpdateExpression: ",
    "One or more parameter values were invalid: An string set  may not be empty",
    "One or more parameter values were invalid: An number set  may not be empty",
    "One or more parameter values were invalid: Binary sets should not be empty",
    "One or more parameter values were invalid: Null attribute value types must have the value of true",
    # A value of no type or of two, and a placeholder that is none, are refused as the request is read.
    "Supplied AttributeValue ",
    "ExpressionAttributeValues contains invalid value: Supplied AttributeValue ",
    "ExpressionAttributeValues contains invalid key: ",
    "ExpressionAttributeNames contains invalid key: ",
    # Judged of the finished item.
    "Item size ",
)


def of_write(error: ValidationException, request: Request) -> ValidationException:
    """What PutItem, UpdateItem or DeleteItem answers where `error` is wrong with the request."""
    if _is_deep(request):
        return error
    text = error.current if isinstance(error, RefusedValue) else error.message
    return error if text.startswith(_BARE) else ValidationException(_ENVELOPE + text)


def of_read(error: ValidationException) -> ValidationException:
    """What GetItem, BatchGetItem or Query answers where `error` is wrong with the request."""
    return ValidationException(error.current) if isinstance(error, RefusedValue) else error


# ── faults of members ────────────────────────────────────────────────────────────────────────────


LISTED_FAULTS = 10  # DynamoDB names no more than ten broken constraints


class Path(NamedTuple):
    """Where a value stands: as most messages write it, and as DynamoDB's newer messages do."""

    text: str = ""
    newer: str = ""

    def member(self, name: str) -> Path:
        dot = "." if self.text else ""
        return Path(f"{self.text}{dot}{name[:1].lower()}{name[1:]}", f"{self.newer}{dot}{name}")

    def element(self, key: object) -> Path:
        return Path(f"{self.text}.{key}.member", f"{self.newer}.{key}.member")


class Fault(NamedTuple):
    """A broken constraint, in the words that show the value and in those that do not."""

    path: Path
    text: str
    newer: str
    plain: bool  # a lone one is worded without the value
    missing: bool  # a required member that is not there
    late: bool = False  # told only where all that is wrong is wrong with this member


class Faults:
    """The broken constraints of one request, in the order in which DynamoDB lists them."""

    def __init__(self) -> None:
        self.listed: list[Fault] = []

    @property
    def full(self) -> bool:
        return len(self.listed) >= LISTED_FAULTS

    def add(self, value: str | None, path: Path, constraint: str, *, newer: bool = False, late: bool = False) -> None:
        """`newer` is for the members whose lone fault DynamoDB words without the value."""
        if self.full:
            return
        quoted_value = "null" if value is None else f"'{value[:ECHOED_CHARACTERS]}'"
        text = f"Value {quoted_value} at '{path.text}' failed to satisfy constraint: {constraint}"
        plainly = f"Value at '{path.newer}' failed to satisfy constraint: {constraint}"
        self.listed.append(Fault(path, text, plainly, newer, value is None, late))

    def _is_alone(self, fault: Fault) -> bool:
        """Whether no other member has a fault, or this one has another."""
        others = [other for other in self.listed if other is not fault]
        return not others or any(other.path.text.startswith(fault.path.text) for other in others)

    def raise_any(self) -> None:
        reported = [fault for fault in self.listed if not fault.late or self._is_alone(fault)]
        if len(reported) == 1:
            (fault,) = reported
            raise ValidationException(f"1 validation error detected: {fault.newer if fault.plain else fault.text}")
        if reported:
            texts = "; ".join(fault.text for fault in reported)
            raise ValidationException(f"{len(reported)} validation errors detected: {texts}")


def faults_of_write(request: Request, faults: Faults) -> None:
    """Raises them: a wrong table name hides the rest; a lone ReturnValues is not shown with its value."""
    _raise_write_faults(request, faults, hiding=False)


def faults_of_update(request: Request, faults: Faults) -> None:
    """The same for UpdateItem, which stops at a wrong ReturnValues."""
    _raise_write_faults(request, faults, hiding=True)


def _raise_write_faults(request: Request, faults: Faults, *, hiding: bool) -> None:
    """`hiding`: a wrong ReturnValues hides the other members."""
    if not _is_current(request, faults):
        return
    misuse = _operator_aside(request, faults, "Expected")
    named = _at(faults, "TableName")
    if named and not request["TableName"]:
        at = "'' at 'tableName'" if faults.listed == named and misuse is None else "at 'TableName'"
        raise ValidationException(_ENVELOPE + _EMPTY_NAME.format(at))
    listed = named or faults.listed
    returned = _at(faults, "ReturnValues")
    if returned and not named and (hiding or len(listed) == 1):
        raise ValidationException(_ENVELOPE + _RETURN_VALUES)
    faults.listed[:] = listed
    faults.raise_any()
    if misuse is not None:
        raise ValidationException(_ENVELOPE + misuse)


def faults_of_query(request: Request, faults: Faults) -> None:
    """Query looks at ConditionalOperator before it looks at the other members."""
    if _is_current(request, faults):
        misuse = _operator_aside(request, faults, "QueryFilter")
        if misuse is not None:
            raise ValidationException(misuse)


def _is_current(request: Request, faults: Faults) -> bool:
    return not any(fault.missing for fault in faults.listed) and not _is_deep(request)


def _at(faults: Faults, member: str) -> list[Fault]:
    return [fault for fault in faults.listed if fault.path.newer == member]


def _operator_aside(request: Request, faults: Faults, conditions: str) -> str | None:
    """Takes a fault of ConditionalOperator out of the list; gives what is said of it instead."""
    found = _at(faults, "ConditionalOperator")
    if not found:
        return None
    faults.listed.remove(found[0])
    return operator_misuse(request["ConditionalOperator"], request.get(conditions) or {})


def _is_deep(request: Request) -> bool:
    """Whether a value of the request is nested past `OLDER_LEVELS`. Only looked at where something is wrong."""
    waiting: list[tuple[Any, int]] = [(request, 0)]
    while waiting:
        value, level = waiting.pop()
        if level > OLDER_LEVELS:
            return True
        if isinstance(value, dict):
            inside = ((inner, level + (name in ("L", "M"))) for name, inner in value.items())
        else:
            inside = ((inner, level) for inner in value)
        waiting.extend(one for one in inside if isinstance(one[0], (dict, list)))  # sets may have millions of texts
    return False


# ── what is told of a call that has failed where DynamoDB has no words ────────────────────────────


def refuse_unreadable(request: Any) -> None:
    """Refuses a request that cannot be written as JSON; returns if it can."""
    waiting = [request]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value)
            waiting.extend(value.values())
            if not all(isinstance(name, str) for name in value):
                raise SerializationException("A name in the request is not a string")
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str) and not _is_unicode(value):
            raise SerializationException("A string of the request is not valid Unicode")


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def named_tables(request: Any) -> str:
    """The names of the tables that a request names in any of DynamoDB's ways, `orders and customers`; "" for none."""
    if not isinstance(request, dict):
        return ""
    actions = [one for action in request.get("TransactItems") or () for one in action.values()]
    named = [one.get("TableName") for one in (request, *actions) if isinstance(one, dict)]
    names = dict.fromkeys(str(name) for name in [*named, *(request.get("RequestItems") or ())] if name)
    return " and ".join(names)
