"""One PartiQL statement as a read or a write.

1. A WHERE whose every alternative names its partitions is read partition by partition; any other is a scan.
2. Whatever is read, the whole WHERE is the filter; key ranges only spare reading.
3. Limit counts what is read, as in Query and Scan; NextToken names the range and the key to go on after, and is good
   for the same statement and parameters only.
4. INSERT, UPDATE, DELETE and EXISTS take the same steps as PutItem, UpdateItem, DeleteItem and ConditionCheck. An
   UPDATE never makes an item. A DELETE of what is not there does nothing, whatever its condition. An INSERT never
   replaces an item.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, assert_never

import orjson

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import refuse_key_type, refuse_nested_keys
from penstock.engine.catalog.table_schema import IndexInfo, KeyAttribute, TableInfo
from penstock.engine.items import capacity_units, write_steps
from penstock.engine.operations import query_scan
from penstock.engine.operations.query_scan import Page, Walk, not_supported, read_page
from penstock.errors import DuplicateItemException, ResourceNotFoundException, ValidationException
from penstock.expressions.compiled.conditions import KeyTerm, Predicate
from penstock.expressions.compiled.paths import find, refuse_clashes
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.parser import projection_problem
from penstock.expressions.partiql.translation import (
    Branch,
    Parameters,
    Pinned,
    StatementUpdate,
    Translator,
    attributes,
    branches,
    members_of,
    nested_attributes,
    pinned,
    update_of,
)
from penstock.expressions.partiql.tree import And, Delete, Exists, Insert, Node, Path, Select, Struct, Update, place_of
from penstock.expressions.syntax.error_wording import ExpressionError, too_deep
from penstock.wire.limits import ITEM_BYTES, PAGE_BYTES, PATH_ELEMENTS
from penstock.wire.values import AttributeValue, Item, check_item

# ── SELECT ────────────────────────────────────────────────────────────────────────────────────────


_INVALID = "One or more parameter values were invalid: "


@dataclass(slots=True)
class Result:
    items: list[Any] = field(default_factory=list)
    units: capacity_units.Units = field(default_factory=capacity_units.Units)
    last: Item | None = None
    next_token: str | None = None


class Reading:
    """A SELECT that is ready to be run."""

    def __init__(self, select: Select, parameters: Parameters) -> None:
        self.select = select
        self._parameters = parameters
        # Operand types are checked before the table is looked for.
        self._keep: Predicate | None = None if select.where is None else Translator(parameters).predicate(select.where)
        self._problem = projection_problem(select)
        self.project = projector(select)
        self._nested = nested_attributes(*(select.projection or ()), select.where)

    def run(
        self, context: OperationContext, *, consistent: bool = False, limit: int | None = None, token: str | None = None
    ) -> Result:
        """One page."""
        table, index = self.resolve(context, consistent=consistent)
        alternatives = self._branches(table, index)
        self._refuse_unprojected(index, keyed=alternatives is not None and len(alternatives) == 1)
        walks = self._walks(table, index, alternatives)
        first, start = self._position(token, len(walks))
        if start is not None:
            _start_after(walks[first], start)
        return self._read(context, walks, first, limit, consistent)

    # ── what to read ─────────────────────────────────────────────────────────────────────────────

    def resolve(self, context: OperationContext, *, consistent: bool = False) -> tuple[TableInfo, IndexInfo | None]:
        """The table and the index that the statement names, if they can be read.

        DynamoDB refuses an index of a kind that PartiQL cannot read before a projection that it cannot show, and
        that before a table that is not there.
        """
        try:
            table = context.table(self.select.source.table)
        except ResourceNotFoundException as error:
            raise self._problem or error from None
        index = self._index(context, table, consistent)
        if self._problem is not None:
            raise self._problem
        refuse_nested_keys(table, self._nested)
        return table, index

    def _index(self, context: OperationContext, table: TableInfo, consistent: bool) -> IndexInfo | None:
        name = self.select.source.index
        if name is None:
            return None
        index = table.indexes.get(name)
        if index is None:
            # Another process may have made it since the catalog was read (catalog.py, 2).
            context.engine.catalog.forget()
            index = context.table(self.select.source.table).indexes.get(name)
        if index is None and name in table.vectors:
            raise ValidationException(not_supported("Scan"))
        if index is None:
            raise ValidationException("The table does not have the specified index")
        if len(index.hash) > 1 or len(index.range) > 1:
            raise ValidationException(tokens.MULTI_ATTRIBUTE)
        if index.local:
            return index
        if consistent:
            raise ValidationException("Strongly consistent read is not supported on Global Secondary Indexes")
        if index.backfilling or context.now < index.record.get("active_at", 0.0):
            raise ValidationException(f"Cannot read from backfilling global secondary index: {name}")
        return index

    def _branches(self, table: TableInfo, index: IndexInfo | None) -> list[Branch] | None:
        hash_part, sort_part = _key_of(table, index)
        sort_name = None if sort_part is None else sort_part.name
        return branches(self.select.where, hash_part.name, sort_name, self._parameters)

    def _refuse_unprojected(self, index: IndexInfo | None, *, keyed: bool) -> None:
        if index is None or index.projected is None:
            return
        if not index.local and (outside := self._beyond(index, self._projected_names())):
            raise ValidationException(
                f"{_INVALID}Global secondary index {index.name} does not project [{', '.join(outside)}]"
            )
        if keyed and self.select.where is not None:
            outside = self._beyond(index, attributes(self.select.where))
            if outside:
                raise ValidationException(
                    f"{_INVALID}Secondary index {index.name} does not project one or more filter attributes: "
                    f"[{', '.join(outside)}]"
                )

    def _projected_names(self) -> list[str]:
        chosen = self.select.projection or ()
        return list(dict.fromkeys(str(path.parts[0]) for path in chosen if isinstance(path, Path)))

    def _beyond(self, index: IndexInfo, names: list[str]) -> list[str]:
        return [name for name in names if index.projected is not None and name not in index.projected]

    def _walks(self, table: TableInfo, index: IndexInfo | None, alternatives: list[Branch] | None) -> list[Walk]:
        forward, hash_descending = self._order(table, index, alternatives)
        if alternatives is None:
            return [Walk(table, index)]
        hash_part, _ = _key_of(table, index)
        pairs = [(value, branch) for branch in alternatives for value in branch.hashes]
        if hash_descending is not None:
            pairs.sort(key=lambda pair: _order_of(hash_part, pair[0]), reverse=hash_descending)
        walks = _distinct(table, index, hash_part, pairs)
        for walk in walks:
            walk.forward = forward
        return walks

    def _order(
        self, table: TableInfo, index: IndexInfo | None, alternatives: list[Branch] | None
    ) -> tuple[bool, bool | None]:
        """Whether each partition is read forward, and whether partitions are ordered, descending or not."""
        order = self.select.order
        if not order:
            return True, None
        hash_part, sort_part = _key_of(table, index)
        if self.select.where is None:
            raise ValidationException("Must have WHERE clause in the statement when using ORDER BY clause.")
        given: dict[str, bool] = {}
        for term in order:
            name = _top_level(term.path)
            if name != hash_part.name and (sort_part is None or name != sort_part.name):
                raise ValidationException(f"Attribute {name} in ORDER BY clause must be part of the primary key")
            given[name] = term.descending
        if alternatives is None:
            raise ValidationException(
                "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause."
            )
        if hash_part.name not in given and sum(len(branch.hashes) for branch in alternatives) > 1:
            raise ValidationException(
                "Must have hash key in ORDER BY clause when more than one hash key condition specified in WHERE clause."
            )
        # Where only the partition key is named, DynamoDB reads each partition from its end.
        forward = sort_part is not None and given.get(sort_part.name) is False
        return forward, given.get(hash_part.name)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _read(
        self, context: OperationContext, walks: list[Walk], first: int, limit: int | None, consistent: bool
    ) -> Result:
        result = Result()
        index = walks[0].index if walks else None
        beyond = index is not None and index.local and bool(self._beyond(index, self._projected_names()))
        size, left = 0, limit
        for number in range(first, len(walks)):
            page = read_page(
                context,
                walks[number],
                limit=left,
                keep=self._keep,
                project=self.project,
                count_only=False,
                whole_items=beyond,
            )
            result.items += page.items
            result.units.add(_units(walks[number], page, consistent))
            size += page.size
            left = None if left is None else left - page.scanned
            full = size >= PAGE_BYTES or left == 0
            if page.last is not None:
                result.last, result.next_token = page.last, self._token(number, page.last)
                break
            if full and number + 1 < len(walks):
                result.next_token = self._token(number + 1, None)
                break
        return result

    def _token(self, walk: int, key: Item | None) -> str:
        return urlsafe_b64encode(orjson.dumps([self._fingerprint(), walk, key])).decode("ascii")

    def _position(self, token: str | None, walks: int) -> tuple[int, Item | None]:
        if token is None:
            return 0, None
        try:
            fingerprint, walk, key = orjson.loads(urlsafe_b64decode(token))
            position = int(walk), None if key is None else check_item(key)[0]
        except (Base64Error, ValueError, TypeError, AttributeError, ValidationException):
            raise ValidationException("Invalid NextToken") from None
        if fingerprint != self._fingerprint():
            raise ValidationException("NextToken does not match request")
        if not 0 <= position[0] < walks:
            raise ValidationException("Invalid NextToken")
        return position

    def _fingerprint(self) -> str:
        return sha256(repr((self.select, self._parameters)).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def projector(select: Select) -> Callable[[Item], Item] | None:
    """What a SELECT shows of an item: each path under the name of its last part, indexes included."""
    if select.projection is None:
        return None
    paths = [path.parts for path in select.projection if isinstance(path, Path)]
    if any("" in parts for parts in paths):
        raise ValidationException(tokens.EMPTY_COMPONENT)
    deepest = max(map(len, paths), default=0)
    if deepest > PATH_ELEMENTS:
        raise ValidationException(too_deep(deepest).message)
    named = [(parts, _shown_name(parts)) for parts in paths]
    _refuse_clashes(named)

    def project(item: Item) -> Item:
        found = ((name, find(parts, item)) for parts, name in named)
        return {name: value for name, value in found if value is not None}

    return project


def _refuse_clashes(named: list[tuple[tuple[str | int, ...], str]]) -> None:
    """Refuses two columns of one name, and one column within another."""
    seen: set[str] = set()
    for _, name in named:
        if name in seen:
            raise ValidationException(f"Duplicate identifiers in select clause: {name}")
        seen.add(name)
    try:
        refuse_clashes([parts for parts, _ in named])
    except ExpressionError as problem:
        raise ValidationException(problem.message) from None


def _shown_name(parts: tuple[str | int, ...]) -> str:
    last = max(place for place, part in enumerate(parts) if isinstance(part, str))
    return str(parts[last]) + "".join(f"[{part}]" for part in parts[last + 1 :])


def _top_level(path: Any) -> str:
    if isinstance(path, Path) and len(path.parts) == 1:
        return str(path.parts[0])
    raise ValidationException("ORDER BY takes attributes of the primary key")


def _key_of(table: TableInfo, index: IndexInfo | None) -> tuple[KeyAttribute, KeyAttribute | None]:
    if index is None:
        return table.hash, table.range
    return index.hash[0], index.range[0] if index.range else None


def _order_of(part: KeyAttribute, value: AttributeValue) -> bytes:
    return row_keys.data_of(value) if part.kind in value else b""


def _distinct(
    table: TableInfo, index: IndexInfo | None, part: KeyAttribute, pairs: list[tuple[AttributeValue, Branch]]
) -> list[Walk]:
    """The ranges to read, none of which overlaps another.

    A sort key that is excluded rather than named makes no range: its partition is then read once and whole.
    """
    by_partition: dict[bytes, list[tuple[Walk, Branch]]] = {}
    sort_part = _key_of(table, index)[1]
    for value, branch in pairs:
        refuse_key_type(part, value)
        if branch.sort is not None and sort_part is not None:
            for operand in branch.sort.operands:
                refuse_key_type(sort_part, operand)
        terms = [KeyTerm(part.name, "=", (value,))]
        if branch.sort is not None:
            terms.append(branch.sort)
        walk = query_scan.walk_of(table, index, terms)
        by_partition.setdefault(row_keys.partition(value), []).append((walk, branch))
    walks: list[Walk] = []
    for found in by_partition.values():
        if len(found) > 1 and any(branch.sort_negated for _, branch in found):
            walks.append(Walk(table, index, *_bounds(found)))
            continue
        ranges = [walk for walk, _ in found]
        _refuse_overlaps(ranges)
        walks += ranges
    return walks


def _bounds(found: list[tuple[Walk, Branch]]) -> tuple[bytes | None, bool, bytes | None, bool]:
    """From the lowest to the highest row of several ranges of one partition."""
    walks = [walk for walk, _ in found]
    low = min(walk.low for walk in walks if walk.low is not None)
    high = max(walk.high for walk in walks if walk.high is not None)
    return low, False, high, False


def _refuse_overlaps(walks: list[Walk]) -> None:
    ordered = sorted(walks, key=lambda walk: (walk.low or b"", walk.low_open))
    for one, other in pairwise(ordered):
        if one.high is None or other.low is None:
            raise ValidationException(tokens.OVERLAP)
        if other.low < one.high or (other.low == one.high and not one.high_open and not other.low_open):
            raise ValidationException(tokens.OVERLAP)


def _start_after(walk: Walk, start: Item) -> None:
    try:
        query_scan.start_after(walk, start)
    except ValidationException:
        raise ValidationException("Invalid NextToken") from None


def _units(walk: Walk, page: Page, consistent: bool) -> capacity_units.Units:
    units = capacity_units.read_units(page.size, consistent)
    if walk.index is None:
        return capacity_units.Units(units)
    fetched = sum(capacity_units.read_units(size, consistent) for size in page.fetched)
    return capacity_units.Units(fetched, {walk.index.name: units})


# ── INSERT, UPDATE, DELETE, EXISTS ────────────────────────────────────────────────────────────────


WriteStatement = Insert | Update | Delete | Exists


def prepare(
    statement: WriteStatement, parameters: Parameters, on_failure: str | None, *, transaction: bool = False
) -> Prepared:
    """What the statement alone can tell; `on_failure` is ReturnValuesOnConditionCheckFailure."""
    match statement:
        case Insert():
            return _insert(statement, parameters)
        case Update():
            update = update_of(statement, parameters)
            return StatementWrite(statement, parameters, on_failure, update, transaction=transaction)
        case Delete() | Exists():
            return StatementWrite(statement, parameters, on_failure, transaction=transaction)
        case _:
            assert_never(statement)


class Put(write_steps.Put):
    """An INSERT."""

    __slots__ = ()

    def decide(self) -> None:
        if self.old is not None:
            raise DuplicateItemException("Duplicate primary key exists in table")
        self.outcome()

    def returned(self) -> list[Item]:
        return []


def _insert(statement: Insert, parameters: Parameters) -> Put:
    value = statement.value
    if not isinstance(value, Struct):
        raise ValidationException(f"{tokens.NO_TUPLE} at {place_of(value)}")
    item, size = check_item(members_of(value, parameters))
    if size > ITEM_BYTES:
        raise ValidationException("Item size has exceeded the maximum allowed size")
    return Put({"TableName": statement.source.table}, item, size, None)


class StatementWrite(write_steps.Update):
    """An UPDATE, a DELETE or an EXISTS: its WHERE names the key, and what else it says is the condition."""

    __slots__ = ("_parameters", "_statement", "_transaction", "_where")

    def __init__(
        self,
        statement: Update | Delete | Exists,
        parameters: Parameters,
        on_failure: str | None,
        update: StatementUpdate | None = None,
        *,
        transaction: bool = False,
    ) -> None:
        source = statement.select.source if isinstance(statement, Exists) else statement.source
        request = {"TableName": source.table, "ReturnValuesOnConditionCheckFailure": on_failure}
        super().__init__(request, {}, update, None)
        self._statement = statement
        self._transaction = transaction
        self._parameters = parameters
        self._where = statement.select.where if isinstance(statement, Exists) else statement.where
        if self._where is not None:
            Translator(parameters).predicate(self._where)  # types are checked before the table is looked for
        elif not isinstance(statement, Exists):
            raise ValidationException(tokens.NEEDS_KEY)

    def find_key(self, context: OperationContext) -> None:
        """The table, and the key that the WHERE gives; refused if it gives none."""
        self.table = table = context.table(self.request["TableName"])
        found = pinned(self._where, table.key_names, self._parameters)
        if len(found.key) != len(table.key_names):
            raise ValidationException(
                tokens.EXISTS_CONDITION if isinstance(self._statement, Exists) else tokens.NEEDS_KEY
            )
        self.key_values = found.key
        self.condition = self._condition(found)

    def resolve(self, context: OperationContext) -> None:
        self.find_key(context)
        if not self._transaction:  # there a key of a wrong type is worded as any key that does not fit
            for part in self.table.key:
                row_keys.refuse_key_type(part, self.key_values[part.name])
        self.key = row_keys.row_key_of_key(self.table, self.key_values)
        if self.update is not None:
            self._refuse_key_attributes()
        row_keys.refuse_nested_keys(self.table, nested_attributes(self._where))

    def _condition(self, found: Pinned) -> Predicate | None:
        holds = Translator(self._parameters).predicate(_all(found.rest)) if found.rest else None
        if isinstance(self._statement, Delete):
            return None if holds is None else lambda item: not item or holds(item)
        if holds is None and isinstance(self._statement, Exists):
            raise ValidationException(tokens.EXISTS_CONDITION)
        # An item is never empty: it has its key.
        return bool if holds is None else lambda item: bool(item) and holds(item)

    def outcome(self) -> None:
        if isinstance(self._statement, Update):
            super().outcome()
        else:
            self.new = self.old if isinstance(self._statement, Exists) else None

    def apply(self, context: OperationContext) -> None:
        if not isinstance(self._statement, Exists):
            super().apply(context)

    def returned(self, mode: str = "") -> Any:
        """The items that RETURNING asks for."""
        statement = self._statement
        wanted = None if isinstance(statement, Exists) else statement.returning
        if wanted is None:
            return []
        attributes = super().returned(wanted.replace("MODIFIED", "UPDATED").replace(" ", "_"))
        return [] if attributes is None else [attributes]


Prepared = StatementWrite | Put


def _all(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else And(tuple(terms), terms[0].place)  # type: ignore[union-attr]
