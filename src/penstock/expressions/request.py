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

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from penstock.errors import DynamoDBError, ValidationException
from penstock.expressions import legacy
from penstock.expressions.compiled.conditions import (
    Condition,
    KeyCondition,
    KeyTerm,
    Predicate,
    compile_condition,
    compile_key_condition,
    prepare_term,
)
from penstock.expressions.compiled.paths import CACHED, BoundPath, Projection, Projector, compile_projection
from penstock.expressions.compiled.updates import BoundUpdate, Update, charge_of, compile_update
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import RemoveAction, SetAction, Value
from penstock.wire.limits import ATTRIBUTE_NAME_BYTES, EXPRESSION_VALUES_BYTES, ITEM_BYTES, PLACEHOLDER_BYTES
from penstock.wire.numbers import RefusedValue
from penstock.wire.values import AttributeValue, Item, check_item, check_value, type_of

Request = Mapping[str, Any]
Between = Callable[[], object]
T = TypeVar("T")
N = TypeVar("N", bound="_Named")

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


_SEARCH = _Parameters(("ProjectionExpression", "SearchConditionExpression"), (), "SearchConditionExpression")


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
    known = None if text is None else named_expressions(None, text, get("ExpressionAttributeNames"))
    if transaction and known is None:
        _refuse_no_values(request)
        _compile(None, text)
    if between is not None:
        between()
    if text is None:
        return legacy.expected_of(get("Expected") or {}, get("ConditionalOperator"))
    usual = None if known is None else known.check_values(get("ExpressionAttributeValues"))
    if known is not None and usual is not None:
        try:
            return known.condition(usual[0])
        except ExpressionError as problem:
            raise ValidationException(problem.text("ConditionExpression")) from None
    placeholders = Placeholders.of(request)
    condition = _refusing("ConditionExpression", lambda: _bind_condition(text, placeholders))
    placeholders.refuse_unused()
    return condition


def _refuse_no_values(request: Request) -> None:
    """A transaction's empty values are refused before its expressions are read."""
    if request.get("ExpressionAttributeValues") == {}:
        raise ValidationException("ExpressionAttributeValues must not be empty")


def update_of(
    request: Request, between: Between | None = None, *, transaction: bool = False
) -> tuple[BoundUpdate | PlainUpdate | None, Predicate | None]:
    """The update and the condition of UpdateItem."""
    get = request.get
    _check_parameters(request, _UPDATE, transaction)
    update_text, condition_text = get("UpdateExpression"), get("ConditionExpression")
    legacy_only = update_text is None and condition_text is None
    known = None if legacy_only else named_expressions(update_text, condition_text, get("ExpressionAttributeNames"))
    if transaction and known is None:
        _refuse_no_values(request)
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


def search_of(request: Request) -> tuple[tuple[KeyTerm, ...], Projector | None]:
    """What a SearchVectors asks of its items: values that attributes are to have, and a projection."""
    _check_parameters(request, _SEARCH)
    text, projection = request.get("SearchConditionExpression"), request.get("ProjectionExpression")
    placeholders = Placeholders.of(request)
    terms: tuple[KeyTerm, ...] = ()
    if text is not None:
        terms = _refusing("SearchConditionExpression", lambda: _search_terms(text, placeholders))
    projector = None
    if projection is not None:
        projector = _refusing("ProjectionExpression", lambda: _bind_projection(projection, placeholders))
    placeholders.refuse_unused()
    return terms, projector


def _search_terms(text: str, placeholders: Placeholders) -> tuple[KeyTerm, ...]:
    condition = compile_key_condition(text)
    condition.check(placeholders.names, placeholders.values)
    placeholders.use(condition.names, condition.values)
    return condition.equalities(placeholders.names, placeholders.values)


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
    key_text = request.get("KeyConditionExpression")
    filter_text = request.get("FilterExpression")
    projection_text = request.get("ProjectionExpression")
    if parts == _EVERYTHING and request.get("KeyConditions") is None:
        known = named_query(key_text, filter_text, projection_text, request.get("ExpressionAttributeNames"))
        usual = None if known is None else known.placeholders(request.get("ExpressionAttributeValues"))
        if known is not None and usual is not None:
            return known.bind(usual.values)
    placeholders = Placeholders.of(request)
    if key_text is not None:
        _refusing("KeyConditionExpression", lambda: _check_key_condition(key_text, placeholders))
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
    return parts._replace(key_terms=_key_terms(request, key_text, placeholders))


def _key_terms(request: Request, text: str | None, placeholders: Placeholders) -> tuple[KeyTerm, ...]:
    if text is not None:
        names, values = placeholders.names, placeholders.values
        condition = compile_key_condition(text)
        return _refusing("KeyConditionExpression", lambda: condition.terms(names, values))
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


def _check_key_condition(text: str, placeholders: Placeholders) -> None:
    condition = compile_key_condition(text)
    condition.check(placeholders.names, placeholders.values)
    placeholders.use(condition.names, condition.values)


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


# ── expressions with their names put in ────────────────────────────────────────────────────────────

# A program sends few texts, each with the same names every time: what these show together is kept, and a call binds its
# values only. This is a fast path: what is unusual (a placeholder that is missing or unused, a value that is refused)
# comes back as None, and the full path above refuses it, in DynamoDB's words and order.


Expression = Update | Condition | KeyCondition | Projection
Names = Mapping[str, str]
Values = Mapping[str, AttributeValue]

_KEPT_BYTES = 4096  # of names: larger ones are seen too seldom to be worth their room


class PlainUpdate:
    """An update that only sets top-level attributes to values and removes others, as most do: nothing can fail."""

    __slots__ = ("_steps", "_values", "attributes", "charge", "creates")

    nested: frozenset[str] = frozenset()

    def __init__(self, steps: Mapping[str, str | None], attributes: frozenset[str], creates: bool, values: Values):
        self._steps = steps
        self._values = values
        self.attributes = attributes
        self.creates = creates
        self.charge = 0

    def apply(self, item: Item) -> Item:
        """The item as the update leaves it."""
        updated = dict(item)
        values = self._values
        for name, placeholder in self._steps.items():
            if placeholder is not None:
                updated[name] = values[placeholder]
            else:
                updated.pop(name, None)
        return updated

    def project(self, item: Item) -> Item:
        """What UPDATED_OLD and UPDATED_NEW show of `item`."""
        return {name: item[name] for name in self._steps if name in item}

    def types(self, among: Iterable[str]) -> dict[str, str]:
        """The types of those of these attributes that are set."""
        steps, values = self._steps, self._values
        return {name: type_of(values[steps[name]]) for name in among if steps.get(name) is not None}  # type: ignore[index]


class NamedUpdate:
    """An update whose names are known; ExpressionError where they make its paths clash."""

    def __init__(self, update: Update, names: Names) -> None:
        self._update = update
        self._names = names
        self._paths = update.paths(names)
        self._steps = _steps(update, self._paths)
        self._attributes = frozenset(str(path[0]) for path in self._paths)
        self._creates = not all(isinstance(action, RemoveAction) for action in update.tree.actions)

    def bind(self, values: Values) -> BoundUpdate | PlainUpdate:
        if self._steps is not None:
            return PlainUpdate(self._steps, self._attributes, self._creates, values)
        return self._update.bind_at(self._paths, self._names, values)


def _steps(update: Update, paths: list[BoundPath]) -> dict[str, str | None] | None:
    """What stands at each attribute: a value's placeholder, or nothing. None where an update is not so plain."""
    steps: dict[str, str | None] = {}
    for action, path in zip(update.tree.actions, paths, strict=True):
        if len(path) > 1:
            return None
        if isinstance(action, SetAction) and isinstance(action.value, Value):
            steps[str(path[0])] = action.value.name
        elif isinstance(action, RemoveAction):
            steps[str(path[0])] = None
        else:
            return None
    return steps


class _Unusual(Exception):
    """The full path takes it."""


class _Named:
    """The expressions of one call, with their names."""

    def __init__(self, expressions: Iterable[Expression | None], names: dict[str, str] | None) -> None:
        used = [one for one in expressions if one is not None]
        self._names = dict(names or {})
        self.names_size = 0 if names is None else size_of_names(names)
        self.values = frozenset[str]().union(*(one.values for one in used))
        check_value_keys(self.values)
        if self._names.keys() != frozenset[str]().union(*(one.names for one in used)):
            raise _Unusual

    def placeholders(self, values: Item | None) -> Placeholders | None:
        """The names and these values, checked; None where they are not what the expressions use."""
        checked = self.check_values(values)
        return None if checked is None else Placeholders(self._names, *checked)

    def check_values(self, values: Item | None) -> tuple[Item, int] | None:
        """These values, checked, and their size with the names'; None as above."""
        if values is None:
            return None if self.values else ({}, self.names_size)
        if values.keys() != self.values or not values:
            return None
        try:
            checked, size = check_item(values)
        except DynamoDBError:
            return None
        size += self.names_size
        return None if size > EXPRESSION_VALUES_BYTES else (checked, size)


class NamedExpressions(_Named):
    """The update and the condition of one write, either of which may be missing."""

    def __init__(self, update_text: str | None, condition_text: str | None, names: dict[str, str] | None) -> None:
        update = None if update_text is None else compile_update(update_text)
        condition = None if condition_text is None else compile_condition(condition_text)
        super().__init__((update, condition), names)
        self._update = None if update is None else NamedUpdate(update, self._names)
        self._bind_condition = None if condition is None else prepare_term(condition.tree, self._names)

    def update(self, values: Values) -> BoundUpdate | PlainUpdate | None:
        return None if self._update is None else self._update.bind(values)

    def condition(self, values: Values) -> Predicate | None:
        """ExpressionError as of `Condition.bind`."""
        return None if self._bind_condition is None else self._bind_condition(values)


class NamedQuery(_Named):
    """The expressions of a Query or Scan, any of which may be missing."""

    def __init__(
        self, key_text: str | None, filter_text: str | None, projection_text: str | None, names: dict[str, str] | None
    ) -> None:
        key = None if key_text is None else compile_key_condition(key_text)
        condition = None if filter_text is None else compile_condition(filter_text)
        projection = None if projection_text is None else compile_projection(projection_text)
        super().__init__((key, condition, projection), names)
        self._bind_key = None if key is None else key.prepare(self._names)
        if key is not None and self._bind_key is None:
            raise _Unusual
        self._bind_filter = None if condition is None else prepare_term(condition.tree, self._names)
        projector = None if projection is None else projection.bind(self._names)
        self._parts = QueryParts(
            projector=projector,
            filter_attributes=() if condition is None else condition.attributes(self._names),
            projected_attributes=() if projector is None else projector.attributes,
            filter_nested=frozenset() if condition is None else condition.nested_attributes(self._names),
            projected_nested=frozenset() if projector is None else projector.nested,
        )

    def bind(self, values: Values) -> QueryParts:
        parts, bind_key, bind_filter = self._parts, self._bind_key, self._bind_filter
        if bind_key is not None:
            parts = parts._replace(key_terms=_refusing("KeyConditionExpression", lambda: bind_key(values)))
        if bind_filter is not None:
            parts = parts._replace(filter=_refusing("FilterExpression", lambda: bind_filter(values)))
        return parts


_KEPT: dict[Any, NamedExpressions] = {}
_KEPT_QUERIES: dict[Any, NamedQuery] = {}


def named_expressions(
    update: str | None, condition: str | None, names: dict[str, str] | None
) -> NamedExpressions | None:
    """The expressions of these texts with these names in them; None where anything is unusual."""
    key = (update, condition, None if names is None else tuple(names.items()))
    found = _KEPT.get(key)
    return _keep(_KEPT, key, lambda: NamedExpressions(update, condition, names)) if found is None else found


def named_query(
    key_text: str | None, filter_text: str | None, projection_text: str | None, names: dict[str, str] | None
) -> NamedQuery | None:
    """The same for a Query or Scan."""
    key = (key_text, filter_text, projection_text, None if names is None else tuple(names.items()))
    found = _KEPT_QUERIES.get(key)
    if found is not None:
        return found
    return _keep(_KEPT_QUERIES, key, lambda: NamedQuery(key_text, filter_text, projection_text, names))


def _keep(kept: dict[Any, N], key: Any, compile_named: Callable[[], N]) -> N | None:
    try:
        expressions = compile_named()
    except (ExpressionError, DynamoDBError, _Unusual):
        return None
    if expressions.names_size <= _KEPT_BYTES:
        if len(kept) >= CACHED:
            kept.clear()
        kept[key] = expressions
    return expressions


# ── names and values ───────────────────────────────────────────────────────────────────────────────


_NAME = re.compile(r"#[0-9a-zA-Z_]+")
_VALUE = re.compile(r":[0-9a-zA-Z_]+")


class Placeholders:
    """What a request's placeholders stand for, and which of them its expressions have used."""

    __slots__ = ("_used_names", "_used_values", "names", "size", "values")

    def __init__(self, names: Mapping[str, str], values: Mapping[str, AttributeValue], size: int = 0) -> None:
        self.names = names
        self.values = values
        self.size = size
        self._used_names: frozenset[str] = frozenset()
        self._used_values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Placeholders:
        """The request's names and values, checked; its values are normalised."""
        names = request.get("ExpressionAttributeNames")
        values = request.get("ExpressionAttributeValues")
        names_size = 0 if names is None else size_of_names(names)
        checked, values_size = ({}, 0) if values is None else _checked_values(values)
        if names_size + values_size > EXPRESSION_VALUES_BYTES:
            _refuse_size(names_size, values_size)
        return cls(names or {}, checked, names_size + values_size)

    def use(self, names: frozenset[str], values: frozenset[str]) -> None:
        """Notes what an expression uses."""
        self._used_names = self._used_names | names if self._used_names else names
        self._used_values = self._used_values | values if self._used_values else values

    def refuse_unused(self) -> None:
        """Refuses what no expression uses."""
        _refuse_unused("ExpressionAttributeNames", self.names, self._used_names)
        _refuse_unused("ExpressionAttributeValues", self.values, self._used_values)


def size_of_names(names: Mapping[str, str]) -> int:
    """The size of all keys and names, which are refused where they are not well formed."""
    if not names:
        raise ValidationException("ExpressionAttributeNames must not be empty")
    size = 0
    for key, name in names.items():
        _check_key("ExpressionAttributeNames", key, _NAME)
        length = len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
        if not 0 < length <= ATTRIBUTE_NAME_BYTES:
            why = "Attribute name is too large, must be less than 65536 bytes" if length else "Empty attribute name"
            raise ValidationException(f"ExpressionAttributeNames contains invalid value: {why} for key {key}")
        size += len(key) + length
    return size


def check_value_keys(keys: Iterable[str]) -> None:
    """Refuses :placeholders that are not well formed."""
    for key in keys:
        _check_key("ExpressionAttributeValues", key, _VALUE)


def _checked_values(values: Item) -> tuple[Item, int]:
    """The values, normalised, and the size of all keys and values."""
    if not values:
        raise ValidationException("ExpressionAttributeValues must not be empty")
    check_value_keys(values)
    try:
        return check_item(values)
    except ValidationException:
        for key, value in values.items():
            _refuse_value(key, value)
        raise


def _refuse_value(key: str, value: AttributeValue) -> None:
    try:
        check_value(value)
    except ValidationException as problem:
        older = f"ExpressionAttributeValues contains invalid value: {problem.message} for key {key}"
        if isinstance(problem, RefusedValue):
            raise RefusedValue(older, problem.current) from None
        raise ValidationException(older) from None


def _refuse_size(names: int, values: int) -> None:
    if names > EXPRESSION_VALUES_BYTES:
        raise ValidationException("ExpressionAttributeNames exceeds max size")
    if values > EXPRESSION_VALUES_BYTES:
        raise ValidationException("ExpressionAttributeValues exceeds max size")
    raise ValidationException(
        "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size"
    )


@lru_cache(maxsize=4096)
def _is_placeholder(key: str, form: re.Pattern[str]) -> bool:
    return len(key) <= PLACEHOLDER_BYTES and form.fullmatch(key) is not None


def _check_key(parameter: str, key: str, form: re.Pattern[str]) -> None:
    if _is_placeholder(key, form):
        return
    if form.fullmatch(key) is None:
        raise ValidationException(f'{parameter} contains invalid key: Syntax error; key: "{key}"')
    raise ValidationException(
        f"{parameter} contains invalid key: "
        f"The expression attribute map contains a key that is too long; size of key: {len(key)}"
    )


def _refuse_unused(parameter: str, given: Mapping[str, Any], used: frozenset[str]) -> None:
    if given.keys() <= used:
        return
    unused = in_java_order([key for key in given if key not in used], len(given))
    raise ValidationException(f"Value provided in {parameter} unused in expressions: keys: {{{', '.join(unused)}}}")


def in_java_order(keys: Iterable[str], total: int) -> list[str]:
    """Keys in the order of a Java HashSet that was made for `total` of them: so DynamoDB lists them."""
    capacity = 16
    while capacity < total / 0.75 + 1:
        capacity *= 2

    def slot(key: str) -> int:
        hashed = 0
        for character in key:
            hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
        return (hashed ^ (hashed >> 16)) & (capacity - 1)

    return sorted(keys, key=slot)
