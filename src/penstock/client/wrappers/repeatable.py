"""Which calls may be sent a second time when nobody knows whether the first one had its effect.

1. Reads, puts, deletes, and updates that write fixed values end the same however often they are done.
2. An update that builds on what it finds (`SET n = n + :one`, `ADD`, `list_append`, `REMOVE list[0]`) does not, unless
   its condition stops holding by its own effect (`version = :seen` beside `SET version = :next`).
3. Transactions carry a token by which DynamoDB knows them again; `with_token` puts it on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.transports.base import Request
from penstock.errors import PenstockError
from penstock.expressions import compile_condition, compile_update
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import (
    Action,
    AddAction,
    And,
    Arithmetic,
    Call,
    Comparison,
    Operand,
    Path,
    RemoveAction,
    SetAction,
    Term,
    Value,
    walk,
)

TOKEN = "ClientRequestToken"  # noqa: S105 - the name of a member
_TRANSACTIONS = frozenset({"TransactWriteItems", "ExecuteTransaction"})

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_BUILDS_ON_OLD = re.compile(r"[+-]|\blist_append\b", re.IGNORECASE)
_REMOVE = re.compile(r"\bREMOVE\b", re.IGNORECASE)


def with_token(operation: str, request: Request, new_token: Callable[[], str]) -> Request:
    """The request as it may be repeated: a transaction without a token gets one."""
    if operation not in _TRANSACTIONS or request.get(TOKEN) is not None:
        return request
    return {**request, TOKEN: new_token()}


def may_repeat(operation: str, request: Request) -> bool:
    """Whether sending it again does no harm if the first one was carried out."""
    if operation == "UpdateItem":
        return _update_may_repeat(request)
    if operation == "ExecuteStatement":
        return _statement_may_repeat(request)
    if operation == "BatchExecuteStatement":
        return all(map(_statement_may_repeat, request.get("Statements") or ()))
    return True


def _update_may_repeat(request: Request) -> bool:
    legacy: Mapping[str, Any] = request.get("AttributeUpdates") or {}
    if any(change.get("Action") == "ADD" and _piles_up(change.get("Value")) for change in legacy.values()):
        return False
    text = request.get("UpdateExpression")
    if not text:
        return True
    try:
        actions = compile_update(text).tree.actions
    except (ExpressionError, PenstockError):
        return True  # It will be refused, however often it is sent.
    return not any(_builds_on_old(action, actions, request) for action in actions) or _guarded(request, actions)


def _piles_up(value: Mapping[str, Any] | None) -> bool:
    """Whether adding this twice is more than adding it once: a set's members are not."""
    return value is not None and ("N" in value or "L" in value)


def _builds_on_old(action: Action, actions: tuple[Action, ...], request: Request) -> bool:
    match action:
        case AddAction(_, Value(name)):
            return _piles_up((request.get("ExpressionAttributeValues") or {}).get(name))
        case RemoveAction(path):
            return isinstance(path.parts[-1], int)  # The elements behind it move up.
        case SetAction(path, value):
            return isinstance(path.parts[-1], int) or _reads_written(path, value, actions, request)
        case _:
            return False


def _reads_written(path: Path, value: Operand, actions: tuple[Action, ...], request: Request) -> bool:
    """Whether what is written depends on an attribute that this update writes."""
    if isinstance(value, Call) and value.name == "if_not_exists" and value.arguments[0] == path:
        return _reads_written(path, value.arguments[1], actions, request)
    written = {_top(action.path, request) for action in actions}
    return any(isinstance(node, Path) and _top(node, request) in written for node in walk(value))


def _guarded(request: Request, actions: tuple[Action, ...]) -> bool:
    """Whether the update makes its own condition false, so that a second one is refused."""
    text = request.get("ConditionExpression")
    if not text:
        return False
    try:
        tree = compile_condition(text).tree
    except (ExpressionError, PenstockError):
        return False
    terms = tree.terms if isinstance(tree, And) else (tree,)
    return any(_ends(term, actions, request) for term in terms)


def _ends(term: Term, actions: tuple[Action, ...], request: Request) -> bool:
    match term:
        case Comparison("=", Path() as path, Value(seen)) | Comparison("=", Value(seen), Path() as path):
            return any(_moves(action, path, seen, request) for action in actions)
        case Call("attribute_not_exists", (Path() as path,)):
            # Afterwards the item exists, and with it its key and what was set.
            made = {_top(action.path, request) for action in actions if isinstance(action, SetAction | AddAction)}
            return len(path.parts) == 1 and _top(path, request) in {*made, *(request.get("Key") or ())}
        case _:
            return False


def _moves(action: Action, path: Path, seen: str, request: Request) -> bool:
    """Whether the action surely gives what stands at `path` another value than the one named `seen`."""
    if action.path != path or not isinstance(action, SetAction | AddAction):
        return False
    values = request.get("ExpressionAttributeValues") or {}
    match action.value:
        case Value(name):
            return isinstance(action, AddAction) or values.get(name) != values.get(seen)
        case Arithmetic():
            return True
        case _:
            return False


def _top(path: Path, request: Request) -> str:
    first = str(path.parts[0])
    names: Mapping[str, str] = request.get("ExpressionAttributeNames") or {}
    return names.get(first, first)


def _statement_may_repeat(request: Request) -> bool:
    statement = str(request.get("Statement", "")).lstrip()
    if statement[:6].upper() != "UPDATE":
        return True
    unquoted = _QUOTED.sub("''", statement)
    return not _BUILDS_ON_OLD.search(unquoted) and not _removes_elements(unquoted)


def _removes_elements(statement: str) -> bool:
    """Whether an index of a list follows a REMOVE: the elements behind it move up."""
    remove = _REMOVE.search(statement)
    return remove is not None and "[" in statement[remove.end() :]
