"""From a request's parameters to what they mean, with the checks between parameters in DynamoDB's order.

    1. expressions beside the parameters that they replaced
    2. ExpressionAttributeNames and ExpressionAttributeValues without an expression
    3. ConditionalOperator without two conditions to join
    4. for Query and Scan: the legacy filters
    5. `between`: what else DynamoDB checks of the request at this point (keys, items, segments), if given
    6. for the other calls: the legacy parameters
    7. the maps of names and values
    8. each expression: Update, Condition, KeyCondition, Filter, Projection
    9. names and values that no expression uses
    10. the form of a key condition

A request with none of these parameters leaves after a few lookups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from penstock.errors import ValidationException
from penstock.expressions import legacy
from penstock.expressions.compiled.conditions import Predicate, compile_condition
from penstock.expressions.compiled.key_conditions import KeyTerm, compile_key_condition
from penstock.expressions.compiled.named import PlainUpdate, named
from penstock.expressions.compiled.paths import Projector, compile_projection
from penstock.expressions.compiled.placeholders import Placeholders
from penstock.expressions.compiled.updates import BoundUpdate, charge_of, compile_update
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.wire.limits import ITEM_BYTES

Request = Mapping[str, Any]
Between = Callable[[], object]
T = TypeVar("T")

_TABLE_KEY_ATTRIBUTES = 2

_UNCHARGED_BYTES = 300  # placeholders so small cannot fill an item, however often 4 KB of text name them
_CLAUSE_BYTES = 20  # no character of an update's text is charged with more


class _Parameters(NamedTuple):
    """The expressions of a call and the parameters that they replaced, in the order in which DynamoDB lists them."""

    expressions: tuple[str, ...]
    legacy: tuple[str, ...]
    usual: str  # the expression that most requests of this kind have
    conditions: str = ""  # the legacy parameter that ConditionalOperator joins


_CONDITION = _Parameters(
    ("ConditionExpression",), ("Expected", "ConditionalOperator"), "ConditionExpression", "Expected"
)
_UPDATE = _Parameters(
    ("UpdateExpression", "ConditionExpression"),
    ("AttributeUpdates", "Expected", "ConditionalOperator"),
    "UpdateExpression",
    "Expected",
)
_PROJECTION = _Parameters(("ProjectionExpression",), ("AttributesToGet",), "ProjectionExpression")
_QUERY = _Parameters(
    ("ProjectionExpression", "FilterExpression", "KeyConditionExpression"),
    ("AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions"),
    "KeyConditionExpression",
    "QueryFilter",
)
_SCAN = _Parameters(
    ("ProjectionExpression", "FilterExpression"),
    ("AttributesToGet", "ScanFilter", "ConditionalOperator"),
    "FilterExpression",
    "ScanFilter",
)


class QueryParts(NamedTuple):
    """What a Query or Scan asks for. The attributes are top-level names, as written; `nested` ones are looked into."""

    key_terms: tuple[KeyTerm, ...] = ()
    filter: Predicate | None = None
    projector: Projector | None = None
    filter_attributes: tuple[str, ...] = ()
    projected_attributes: tuple[str, ...] = ()
    filter_nested: frozenset[str] = frozenset()
    projected_nested: frozenset[str] = frozenset()


def condition_of(request: Request, between: Between | None = None, *, transaction: bool = False) -> Predicate | None:
    """The condition of PutItem, DeleteItem or a ConditionCheck. Transactions may give names that nothing uses."""
    get = request.get
    text = get("ConditionExpression")
    if (
        text is None
        and get("Expected") is None
        and get("ExpressionAttributeNames") is None
        and get("ExpressionAttributeValues") is None
        and get("ConditionalOperator") is None
    ):
        if between is not None:
            between()
        return None
    _check_parameters(request, _CONDITION, transaction)
    known = None if text is None else named(None, text, get("ExpressionAttributeNames"))
    if transaction and known is None:
        _compile(None, text)
    if between is not None:
        between()
    if text is None:
        return legacy.expected_of(get("Expected") or {}, get("ConditionalOperator"))
    usual = None if known is None else known.placeholders(get("ExpressionAttributeValues"))
    if known is not None and usual is not None:
        return _refusing("ConditionExpression", lambda: known.condition(usual.values))
    placeholders = Placeholders.of(request)
    condition = _refusing("ConditionExpression", lambda: _bind_condition(text, placeholders))
    placeholders.refuse_unused()
    return condition


def update_of(
    request: Request, between: Between | None = None, *, transaction: bool = False
) -> tuple[BoundUpdate | PlainUpdate | None, Predicate | None]:
    """The update and the condition of UpdateItem."""
    get = request.get
    _check_parameters(request, _UPDATE, transaction)
    update_text, condition_text = get("UpdateExpression"), get("ConditionExpression")
    legacy_only = update_text is None and condition_text is None
    known = None if legacy_only else named(update_text, condition_text, get("ExpressionAttributeNames"))
    if transaction and known is None:
        _compile(update_text, condition_text)
    if between is not None:
        between()
    if legacy_only:
        update = legacy.updates_of(get("AttributeUpdates") or {})
        return update, legacy.expected_of(get("Expected") or {}, get("ConditionalOperator"))
    placeholders = None if known is None else known.placeholders(get("ExpressionAttributeValues"))
    if known is None or placeholders is None:
        return _update_of(request, transaction)
    bound = _refusing("UpdateExpression", lambda: known.update(placeholders.values))
    if update_text is not None and bound is not None and not transaction and placeholders.size > _UNCHARGED_BYTES:
        _charge(bound, update_text, placeholders)
    return bound, _refusing("ConditionExpression", lambda: known.condition(placeholders.values))


def _update_of(request: Request, transaction: bool) -> tuple[BoundUpdate | None, Predicate | None]:
    """The full path, on which whatever is wrong is refused."""
    update_text, condition_text = request.get("UpdateExpression"), request.get("ConditionExpression")
    placeholders = Placeholders.of(request)
    bound, condition = None, None
    if update_text is not None:
        bound = _refusing("UpdateExpression", lambda: _bind_update(update_text, placeholders))
        if not transaction and placeholders.size > _UNCHARGED_BYTES:
            _charge(bound, update_text, placeholders)
    if condition_text is not None:
        condition = _refusing("ConditionExpression", lambda: _bind_condition(condition_text, placeholders))
    placeholders.refuse_unused()
    return bound, condition


def projection_of(request: Request, between: Between | None = None, *, transaction: bool = False) -> Projector | None:
    """What GetItem, or a table's part of BatchGetItem, wants of its items; None for everything."""
    get = request.get
    text, attributes = get("ProjectionExpression"), get("AttributesToGet")
    if text is None and attributes is None and get("ExpressionAttributeNames") is None:
        if between is not None:
            between()
        return None
    _check_parameters(request, _PROJECTION, transaction)
    if between is not None:
        between()
    if attributes is not None:
        return _attributes_to_get(attributes)
    if text is None:
        return None
    placeholders = Placeholders.of(request)
    projector = _refusing("ProjectionExpression", lambda: _bind_projection(text, placeholders))
    placeholders.refuse_unused()
    return projector


def query_of(request: Request, between: Between | None = None) -> QueryParts:
    """What a Query asks for."""
    _check_parameters(request, _QUERY)
    parts = _EVERYTHING
    conditions = request.get("QueryFilter")
    if conditions:
        parts = QueryParts(
            filter=legacy.filter_of(conditions, request.get("ConditionalOperator")),
            filter_attributes=tuple(conditions),
        )
    projector = _attributes_to_get(request.get("AttributesToGet"))
    if between is not None:
        between()
    if request.get("KeyConditions") is None and request.get("KeyConditionExpression") is None:
        raise ValidationException(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
        )
    if projector is not None:
        parts = parts._replace(projector=projector)
    return _expressions_of(request, parts)


def scan_of(request: Request, between: Between | None = None) -> QueryParts:
    """What a Scan asks for."""
    get = request.get
    if get("FilterExpression") is None and get("ProjectionExpression") is None and not _legacy_scan(get):
        if between is not None:
            between()
        return _EVERYTHING
    _check_parameters(request, _SCAN)
    projector = _attributes_to_get(get("AttributesToGet"))
    conditions = get("ScanFilter") or {}
    parts = QueryParts(
        filter=legacy.filter_of(conditions, get("ConditionalOperator")),
        filter_attributes=tuple(conditions),
        projector=projector,
    )
    if between is not None:
        between()
    return _expressions_of(request, parts)


_EVERYTHING = QueryParts()
_OTHER_SCAN_PARAMETERS = (
    "ScanFilter",
    "AttributesToGet",
    "ConditionalOperator",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
)


def _legacy_scan(get: Callable[[str], Any]) -> bool:
    return any(get(parameter) is not None for parameter in _OTHER_SCAN_PARAMETERS)


# ── the checks between parameters ────────────────────────────────────────────────────────────────


def _check_parameters(request: Request, known: _Parameters, transaction: bool = False) -> None:
    if request.get(known.usual) is not None and request.keys().isdisjoint(known.legacy):
        return  # an expression that takes names and values, and nothing that it replaced
    expressions = [name for name in known.expressions if request.get(name) is not None]
    if expressions:
        _refuse_mixture(request, known, expressions)
    if not transaction:
        _refuse_loose_maps(request, known, expressions)
    if known.conditions and request.get("ConditionalOperator") is not None:
        misuse = operator_misuse(request["ConditionalOperator"], request.get(known.conditions) or {})
        if misuse is not None:
            raise ValidationException(misuse)


def _refuse_mixture(request: Request, known: _Parameters, expressions: list[str]) -> None:
    replaced = [name for name in known.legacy if request.get(name) is not None]
    if "KeyConditionExpression" not in expressions and "KeyConditions" in replaced:
        replaced.remove("KeyConditions")
    if replaced:
        raise ValidationException(
            "Can not use both expression and non-expression parameters in the same request: "
            f"Non-expression parameters: {{{', '.join(replaced)}}} "
            f"Expression parameters: {{{', '.join(expressions)}}}"
        )


def _refuse_loose_maps(request: Request, known: _Parameters, expressions: list[str]) -> None:
    if not expressions and request.get("ExpressionAttributeNames") is not None:
        raise ValidationException("ExpressionAttributeNames can only be specified when using expressions")
    takers = [name for name in known.expressions if name != "ProjectionExpression"]
    if not takers or request.get("ExpressionAttributeValues") is None:
        return
    if not any(name in expressions for name in takers):
        loose = "ExpressionAttributeValues can only be specified when using expressions"
        if known.conditions == "Expected":  # the writes say no more than that
            raise ValidationException(loose)
        raise ValidationException(f"{loose}: {' and '.join(takers)} {'are' if len(takers) > 1 else 'is'} null")


def operator_misuse(operator: str, conditions: Mapping[str, Any]) -> str | None:
    """What DynamoDB says about ConditionalOperator beside these conditions; None where it may stand there."""
    if not conditions:
        return "ConditionalOperator cannot be used without Filter or Expected"
    if len(conditions) == 1:
        return "ConditionalOperator can only be used when Filter or Expected has two or more elements"
    if operator not in ("AND", "OR"):
        return error_wording.BAD_OPERATOR
    return None


# ── the expressions ──────────────────────────────────────────────────────────────────────────────


def _expressions_of(request: Request, parts: QueryParts) -> QueryParts:
    """The expressions of a Query or Scan, added to its legacy parts."""
    placeholders = Placeholders.of(request)
    key_text = request.get("KeyConditionExpression")
    filter_text = request.get("FilterExpression")
    projection_text = request.get("ProjectionExpression")
    plain_terms = None
    if key_text is not None:
        plain_terms = _refusing("KeyConditionExpression", lambda: _check_key_condition(key_text, placeholders))
    if filter_text is not None:
        parts = _refusing("FilterExpression", lambda: _with_filter(parts, filter_text, placeholders))
    projector = parts.projector
    if projection_text is not None:
        projector = _refusing("ProjectionExpression", lambda: _bind_projection(projection_text, placeholders))
    placeholders.refuse_unused()
    if projector is not None:
        parts = parts._replace(
            projector=projector, projected_attributes=projector.attributes, projected_nested=projector.nested
        )
    if key_text is None and request.get("KeyConditions") is None:
        return parts
    return parts._replace(key_terms=_key_terms(request, key_text, placeholders, plain_terms))


def _key_terms(
    request: Request, text: str | None, placeholders: Placeholders, plain: tuple[KeyTerm, ...] | None
) -> tuple[KeyTerm, ...]:
    if text is not None:
        names, values = placeholders.names, placeholders.values
        condition = compile_key_condition(text)
        return _refusing("KeyConditionExpression", lambda: condition.terms(names, values, plain))
    terms = legacy.key_terms_of(request["KeyConditions"])
    # An index may have up to eight key attributes; a table has two at most.
    if not terms or (len(terms) > _TABLE_KEY_ATTRIBUTES and request.get("IndexName") is None):
        raise ValidationException("Conditions can be of length 1 or 2 only")
    return terms


def _refusing(parameter: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except ExpressionError as problem:
        raise ValidationException(problem.text(parameter)) from None


def _bind_condition(text: str, placeholders: Placeholders) -> Predicate:
    condition = compile_condition(text)
    predicate = condition.bind(placeholders.names, placeholders.values)
    placeholders.use(condition.names, condition.values)
    return predicate


def _bind_update(text: str, placeholders: Placeholders) -> BoundUpdate:
    update = compile_update(text)
    bound = update.bind(placeholders.names, placeholders.values)
    placeholders.use(update.names, update.values)
    return bound


def _charge(bound: BoundUpdate | PlainUpdate, text: str, placeholders: Placeholders) -> None:
    """Notes what DynamoDB charges for an update, where its placeholders are so large that it may matter."""
    if placeholders.size * (text.count(":") + text.count("#")) + _CLAUSE_BYTES * len(text) > ITEM_BYTES:
        bound.charge = charge_of(text, placeholders.names, placeholders.values)


def _bind_projection(text: str, placeholders: Placeholders) -> Projector:
    projection = compile_projection(text)
    projector = projection.bind(placeholders.names)
    placeholders.use(projection.names, projection.values)
    return projector


def _compile(update_text: str | None, condition_text: str | None) -> None:
    """In transactions, what can be read of expressions alone comes before keys."""
    if update_text is not None:
        _refusing("UpdateExpression", lambda: compile_update(update_text))
    if condition_text is not None:
        _refusing("ConditionExpression", lambda: compile_condition(condition_text))


def _check_key_condition(text: str, placeholders: Placeholders) -> tuple[KeyTerm, ...] | None:
    condition = compile_key_condition(text)
    plain = condition.check(placeholders.names, placeholders.values)
    placeholders.use(condition.names, condition.values)
    return plain


def _with_filter(parts: QueryParts, text: str, placeholders: Placeholders) -> QueryParts:
    condition = compile_condition(text)
    predicate = condition.bind(placeholders.names, placeholders.values)
    placeholders.use(condition.names, condition.values)
    return parts._replace(
        filter=predicate,
        filter_attributes=condition.attributes(placeholders.names),
        filter_nested=condition.nested_attributes(placeholders.names),
    )


def _attributes_to_get(names: list[str] | None) -> Projector | None:
    if names is None:
        return None
    legacy.refuse_duplicates(names)
    return Projector(tuple((name,) for name in names))
