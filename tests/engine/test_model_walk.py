"""The engine against a dict, for thousands of steps: whatever is done, both give the same answers.

A walk is a seed: a failure names the seed, the step and the request, and comes back each time.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from copy import copy
from random import Random
from typing import Any

import pytest
from dictionary_model import (
    ConditionFailed,
    Item,
    ModelTable,
    Op,
    Placeholders,
    Refused,
    Value,
    comparable,
    holds,
    plain_number,
    render_condition,
    render_update,
    same,
)
from sample_tables import assert_indexes_agree, every_item, index, make, pages, records, rows, table

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.errors import (
    ConditionalCheckFailedException,
    DynamoDBError,
    TransactionCanceledException,
    ValidationException,
)

STEPS = 900

TABLES = {
    "hash": table("hash", "pk:S"),
    "numbers": table("numbers", "pk:N / sk:N"),
    "binaries": table("binaries", "pk:B / sk:B", locals_=(index("by_b", "pk:B / b:B"),)),
    "texts": table(
        "texts",
        "pk:S / sk:S",
        globals_=(
            index("by_a", "a:S"),
            index("by_b", "b:N / a:S", "KEYS_ONLY"),
            index("by_c", "sk:S / pk:S", "INCLUDE", ("x", "y")),
        ),
        locals_=(index("local_b", "pk:S / b:N", "KEYS_ONLY"), index("local_x", "pk:S / a:S", "INCLUDE", ("x",))),
    ),
    "several": table(
        "several",
        "pk:S / sk:N",
        globals_=(
            index("by_ab", "a:S b:N / c:S sk:N"),
            index("by_b", "b:N c:S / a:S d:B pk:S", "KEYS_ONLY"),
        ),
    ),
}

TEXTS = ["a", "b", "ab", "aé", "\x00", "a\x00", "a\x00b", "z", "\uffff", "\U0001f600", "日本"]
NUMBERS = ["0", "-0", "1", "-1", "10", "1.5", "-1.50", "007", "1e2", "100", "1E-130", "9.99e125", "-9e100", "0.001"]
BYTES = [b"\x00", b"\x00\x00", b"\x00\xff", b"\xff", b"\xff\xff", b"a", b"ab", b"\x01"]
ATTRIBUTES = ["a", "b", "c", "d", "x", "y", "list", "set"]
COMPARISONS = ["=", "<", "<=", ">", ">="]


class Walk:
    """One random walk: the engine and the model side by side."""

    def __init__(self, engine: Engine, definition: dict[str, Any], seed: int) -> None:
        self.engine = engine
        self.random = Random(seed)
        self.name = make(engine, definition)
        self.model = ModelTable(definition)
        self.last: Any = None

    def step(self) -> None:
        self.random.choice(STEPS_OF_A_WALK)(self)

    # ── random values ────────────────────────────────────────────────────────────────────────────

    def one_of(self, choices: list[Any]) -> Any:
        return self.random.choice(choices)

    def key_value(self, kind: str) -> Value:
        if kind == "S":
            return {"S": self.one_of(TEXTS)}
        if kind == "N":
            return {"N": self.one_of(NUMBERS)}
        return {"B": b64encode(self.one_of(BYTES)).decode()}

    def scalar(self) -> Value:
        return self.key_value(self.one_of(["S", "N", "B"]))

    def value(self) -> Value:
        match self.random.randrange(10):
            case 0:
                return {"L": [self.scalar() for _ in range(self.random.randrange(4))]}
            case 1:
                return {"M": {name: self.scalar() for name in self.random.sample(TEXTS, 2)}}
            case 2:
                return self.set()
            case 3:
                return self.one_of([{"BOOL": True}, {"BOOL": False}, {"NULL": True}, {"S": ""}, {"B": ""}])
        return self.scalar()

    def set(self) -> Value:
        if self.random.random() < 0.5:
            return {"SS": self.random.sample(TEXTS, self.random.randint(1, 3))}
        return {"NS": self.random.sample(["1", "2.0", "3", "-4", "1e1"], self.random.randint(1, 3))}

    def attribute(self, name: str) -> Value:
        kind = self.model.types.get(name)
        if kind is not None and self.random.random() < 0.95:
            return self.key_value(kind)  # otherwise an index may refuse it
        return self.value()

    def key(self) -> Item:
        if self.model.items and self.random.random() < 0.6:
            return self.model.key_of(self.one_of(list(self.model.items.values())))
        return {name: self.key_value(self.model.types[name]) for name in self.model.key}

    def item(self) -> Item:
        item = self.key()
        for name in self.random.sample(ATTRIBUTES, self.random.randrange(6)):
            if name not in item:
                item[name] = self.attribute(name)
        return item

    def condition(self, depth: int = 0) -> Op:
        if depth < 2 and self.random.random() < 0.35:
            joined = self.one_of(["AND", "OR", "NOT"])
            return (joined, *(self.condition(depth + 1) for _ in range(1 if joined == "NOT" else 2)))
        name = self.one_of(ATTRIBUTES)
        match self.random.randrange(7):
            case 0:
                return (self.one_of(["exists", "missing"]), name)
            case 1:
                return ("type", name, {"S": self.one_of(["S", "N", "B", "L", "SS"])})
            case 2:
                return ("BETWEEN", name, *self.bounds(self.model.types.get(name, "S")))
            case 3:
                return ("IN", name, *(self.scalar() for _ in range(self.random.randint(1, 4))))
            case 4:
                return ("contains", name, self.scalar())
            case 5:
                return ("begins_with", name, self.key_value(self.one_of(["S", "B"])))
        operator = self.one_of([*COMPARISONS, "<>"])
        return (operator, name, self.scalar() if operator not in ("=", "<>") else self.value())

    def bounds(self, kind: str) -> list[Value]:
        return sorted((self.key_value(kind), self.key_value(kind)), key=comparable)

    def maybe_condition(self) -> Op | None:
        return self.condition() if self.random.random() < 0.4 else None

    def actions(self) -> list[Op]:
        names = self.random.sample(ATTRIBUTES, self.random.randint(1, 4))
        return [self.action(name) for name in names if name not in self.model.key]

    def action(self, name: str) -> Op:
        number: Value = {"N": self.one_of(["1", "-2", "0.5"])}
        match self.random.randrange(9):
            case 0 | 1:
                return ("remove", name)
            case 2:
                return ("add", name, number if name not in ("set", "list") else self.set())
            case 3:
                return ("delete", name, self.set())
            case 4:
                return (self.one_of(["plus", "minus"]), name, number)
            case 5:
                return ("default", name, self.attribute(name))
            case 6:
                return ("append", "list", {"L": [self.scalar()]}) if name == "list" else ("remove", name)
            case 7:
                return ("remove element", "list", self.random.randrange(3)) if name == "list" else ("remove", name)
        return ("set", name, self.attribute(name))

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def request(self, **members: Any) -> dict[str, Any]:
        return {"TableName": self.name, **members}

    def conditional(self, condition: Op | None, actions: list[Op] | None = None, **members: Any) -> dict[str, Any]:
        use = Placeholders()
        if actions:
            members["UpdateExpression"] = render_update(actions, use)
        if condition is not None:
            members["ConditionExpression"] = render_condition(condition, use)
        return self.request(**members, **use.members())

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.last = (operation, request)
        return self.engine.execute(operation, request)

    def both(self, operation: str, request: dict[str, Any], on_model: Callable[[], None]) -> dict[str, Any] | None:
        """Does it in both; their outcomes must be alike. None after an error, which must have changed nothing."""
        expected: type[Exception] | None = None
        try:
            on_model()
        except Refused:
            expected = ValidationException
        except ConditionFailed:
            expected = ConditionalCheckFailedException
        if expected is None:
            return self.execute(operation, request)
        self.refused(operation, request, expected)
        return None

    def refused(self, operation: str, request: dict[str, Any], expected: type[Exception]) -> DynamoDBError:
        before = rows(self.engine, self.name)
        with pytest.raises(expected) as caught:
            self.execute(operation, request)
        assert rows(self.engine, self.name) == before
        error = caught.value
        assert isinstance(error, DynamoDBError)
        return error

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def put(self) -> None:
        item, condition = self.item(), self.maybe_condition()
        old = self.model.items.get(self.model.place(item))
        request = self.conditional(condition, Item=item, ReturnValues="ALL_OLD")
        if (answer := self.both("PutItem", request, lambda: self.model.put(item, condition))) is not None:
            self.same_attributes(answer, old)

    def put_plainly(self) -> None:
        item = self.item()
        self.both("PutItem", self.request(Item=item), lambda: self.model.put(item))

    def delete(self) -> None:
        key, condition = self.key(), self.maybe_condition()
        old = self.model.items.get(self.model.place(key))
        request = self.conditional(condition, Key=key, ReturnValues="ALL_OLD")
        if (answer := self.both("DeleteItem", request, lambda: self.model.delete(key, condition))) is not None:
            self.same_attributes(answer, old)

    def update(self) -> None:
        key, actions, condition = self.key(), self.actions(), self.maybe_condition()
        request = self.conditional(condition, actions, Key=key, ReturnValues="ALL_NEW")
        answer = self.both("UpdateItem", request, lambda: self.model.update(key, actions, condition))
        if answer is not None:
            self.same_attributes(answer, self.model.items.get(self.model.place(key)))

    def same_attributes(self, answer: dict[str, Any], item: Item | None) -> None:
        assert ("Attributes" in answer) == (item is not None)
        assert same(answer.get("Attributes", {})) == same(item or {})

    def get(self) -> None:
        key = self.key()
        answer = self.execute("GetItem", self.request(Key=key))
        expected = self.model.items.get(self.model.place(key))
        assert ("Item" in answer) == (expected is not None)
        assert same(answer.get("Item", {})) == same(expected or {})

    def batch_get(self) -> None:
        keys = list({self.model.place(key): key for key in (self.key() for _ in range(10))}.values())
        answer = self.execute("BatchGetItem", {"RequestItems": {self.name: {"Keys": keys}}})
        places = [self.model.place(key) for key in keys]
        expected = [self.model.items[place] for place in places if place in self.model.items]
        assert sorted(map(hash, map(same, answer["Responses"][self.name]))) == sorted(map(hash, map(same, expected)))

    def batch_write(self) -> None:
        chosen = {self.model.place(item): item for item in (self.item() for _ in range(self.random.randint(1, 25)))}
        deletes = {place for place in chosen if self.random.random() < 0.3}
        asked = [
            {"DeleteRequest": {"Key": self.model.key_of(item)}} if place in deletes else {"PutRequest": {"Item": item}}
            for place, item in chosen.items()
        ]
        trial = self.trial()
        request = {"RequestItems": {self.name: asked}}
        try:
            for place, item in chosen.items():
                trial.delete(item) if place in deletes else trial.put(item)
        except Refused:
            self.refused("BatchWriteItem", request, ValidationException)
        else:
            assert self.execute("BatchWriteItem", request)["UnprocessedItems"] == {}
            self.model.items = trial.items

    def transaction(self) -> None:
        chosen = {self.model.place(item): item for item in (self.item() for _ in range(self.random.randint(1, 5)))}
        trial = self.trial()
        codes, asked = [], []
        for item in chosen.values():
            request, on_model = self.transaction_action(item, trial)
            asked.append(request)
            codes.append(_code_of(on_model))
        request = {"TransactItems": asked}
        if set(codes) == {"None"}:
            self.execute("TransactWriteItems", request)
            self.model.items = trial.items
            return
        error = self.refused("TransactWriteItems", request, TransactionCanceledException)
        found = [reason["Code"] for reason in error.fields["CancellationReasons"]]
        # A key that does not fit its index is seen before any condition is looked at.
        assert found == codes or "ValidationError" in found

    def transaction_action(self, item: Item, trial: ModelTable) -> tuple[dict[str, Any], Callable[[], None]]:
        condition = self.condition() if self.random.random() < 0.15 else None
        key = self.model.key_of(item)
        match self.random.randrange(4):
            case 0:
                return {"Put": self.conditional(condition, Item=item)}, lambda: trial.put(item, condition)
            case 1:
                return {"Delete": self.conditional(condition, Key=key)}, lambda: trial.delete(key, condition)
            case 2:
                actions = self.actions() or [("remove", "x")]
                update = self.conditional(condition, actions, Key=key)
                return {"Update": update}, lambda: trial.update(key, actions, condition)
        check = condition or ("missing", "nothing has this")
        return {"ConditionCheck": self.conditional(check, Key=key)}, lambda: trial._check(key, check)

    def trial(self) -> ModelTable:
        """A copy of the model, to be taken over or thrown away."""
        trial = copy(self.model)
        trial.items = dict(self.model.items)
        return trial

    def query(self) -> None:
        name = self.one_of([None, *self.model.indexes])
        terms = self.key_terms(name)
        forward = self.random.random() < 0.5
        request = self.query_request(name, terms, ScanIndexForward=forward)
        self.compare(name, every_item(self.engine, "Query", request), self.model.query(name, terms, forward=forward))
        whole = {key: value for key, value in request.items() if key != "Limit"} | {"Select": "COUNT"}
        assert self.execute("Query", whole)["Count"] == len(self.model.query(name, terms))

    def filtered_query(self) -> None:
        name = self.one_of([None, *self.model.indexes])
        terms = self.key_terms(name)
        hashes, ranges = self.model.schema(name)
        condition = self.condition()
        if {*hashes, *ranges} & set(_names(condition)):
            return
        use = Placeholders()
        filtering = {"FilterExpression": render_condition(condition, use)}
        request = self.query_request(name, terms, use, **filtering)
        if not all(self.model.holds(name, one) for one in _names(condition)):
            assert "does not project" in self.refused("Query", request, ValidationException).message
            return
        expected = self.model.query(name, terms, lambda item: holds(condition, item))
        found = every_item(self.engine, "Query", request)
        self.compare(name, found, expected)

    def key_terms(self, name: str | None) -> list[Op]:
        hashes, ranges = self.model.schema(name)
        held = self.model.view(name)
        example = self.one_of(held) if held and self.random.random() < 0.9 else None
        terms: list[Op] = [
            ("=", part, example[part] if example else self.key_value(self.model.types[part])) for part in hashes
        ]
        for part in ranges[: self.random.randint(0, len(ranges))]:
            value = example[part] if example and self.random.random() < 0.6 else self.key_value(self.model.types[part])
            terms.append(("=", part, value))
        if len(terms) > len(hashes):
            terms[-1] = self.range_term(*terms[-1][1:])
        return terms

    def range_term(self, name: str, value: Value) -> Op:
        kind = self.model.types[name]
        operator = self.one_of([*COMPARISONS, "BETWEEN", "begins_with"])
        if operator == "BETWEEN":
            return (operator, name, *self.bounds(kind))
        if operator == "begins_with" and kind == "N":
            operator = ">="
        return (operator, name, value)

    def query_request(
        self, name: str | None, terms: list[Op], use: Placeholders | None = None, **members: Any
    ) -> dict[str, Any]:
        use = use or Placeholders()
        condition = " AND ".join(render_condition(term, use) for term in terms)
        if name is not None:
            members["IndexName"] = name
        if self.random.random() < 0.6:
            members["Limit"] = self.random.randint(1, 5)
        request = self.request(KeyConditionExpression=condition, **members, **use.members())
        self.last = ("Query", request)
        return request

    def compare(self, name: str | None, found: list[Item], expected: list[Item]) -> None:
        """The same items in the same order; items whose sort keys are equal may stand in any."""
        _, ranges = self.model.schema(name)
        order = [[comparable(item[part]) for part in ranges] for item in found]
        assert order == [[comparable(item[part]) for part in ranges] for item in expected]
        assert sorted(map(hash, map(same, found))) == sorted(map(hash, map(same, expected)))

    def scan(self) -> None:
        name = self.one_of([None, *self.model.indexes])
        members: dict[str, Any] = {"Limit": self.random.randint(1, 9)} if self.random.random() < 0.6 else {}
        if name is not None:
            members["IndexName"] = name
        found = every_item(self.engine, "Scan", self.request(**members))
        assert sorted(map(hash, map(same, found))) == sorted(map(hash, map(same, self.model.view(name))))

    def parallel_scan(self) -> None:
        total = self.one_of([1, 2, 3, 7, 64, 5_000])
        segments = range(total) if total < 100 else self.random.sample(range(total), 3)
        name = self.one_of([None, *self.model.indexes])
        members = {"IndexName": name} if name is not None else {}
        found: list[Item] = []
        for segment in segments:
            request = self.request(TotalSegments=total, Segment=segment, Limit=2, **members)
            found += [item for page in pages(self.engine, "Scan", request) for item in page["Items"]]
        hashes = sorted(map(hash, map(same, found)))
        if total < 100:
            assert hashes == sorted(map(hash, map(same, self.model.view(name))))


def _names(condition: Op) -> list[str]:
    """The attributes that a condition looks at."""
    if condition[0] in ("AND", "OR", "NOT"):
        return [name for one in condition[1:] for name in _names(one)]
    return [condition[1]]


def _code_of(on_model: Callable[[], None]) -> str:
    """The cancellation reason that an action of a transaction has."""
    try:
        on_model()
    except Refused:
        return "ValidationError"
    except ConditionFailed:
        return "ConditionalCheckFailed"
    return "None"


STEPS_OF_A_WALK: list[Callable[[Walk], None]] = [
    *[Walk.put, Walk.put_plainly, Walk.update, Walk.update] * 3,
    *[Walk.delete, Walk.batch_write, Walk.transaction, Walk.query, Walk.query, Walk.filtered_query],
    *[Walk.get, Walk.batch_get, Walk.scan, Walk.parallel_scan],
]


@pytest.mark.parametrize("seed", [1, 16])
@pytest.mark.parametrize("kind", TABLES)
def test_a_walk_gives_the_answers_of_a_dict(engine: Engine, kind: str, seed: int) -> None:
    walk = Walk(engine, TABLES[kind], seed)
    for step in range(STEPS):
        try:
            walk.step()
        except BaseException as error:
            error.add_note(f"table {kind}, seed {seed}, step {step}, last request {walk.last}")
            raise
        if step % 100 == 99:
            assert_indexes_agree(engine, walk.name)
    assert sorted(map(hash, map(same, every_item(engine, "Scan", walk.request())))) == sorted(
        map(hash, map(same, walk.model.items.values()))
    )


def test_a_walk_on_a_watched_table_is_told_by_its_stream_and_its_journal() -> None:
    """With a stream, TTL and point-in-time recovery on, the stream's images and a restored table are the dict too."""
    clock = ManualClock()
    with Engine(clock=clock) as engine:
        engine.maintenance.stop()
        walk = Walk(engine, TABLES["texts"], 5)
        specification = {"Enabled": True, "AttributeName": "x"}
        engine.execute("UpdateTimeToLive", walk.request(TimeToLiveSpecification=specification))
        specification = {"PointInTimeRecoveryEnabled": True}
        engine.execute("UpdateContinuousBackups", walk.request(PointInTimeRecoverySpecification=specification))
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        engine.execute("UpdateTable", walk.request(StreamSpecification=stream))
        for _ in range(STEPS):
            clock.advance(1.0)
            walk.step()
        assert_indexes_agree(engine, walk.name)
        expected = sorted(map(hash, map(same, walk.model.items.values())))
        told = images(engine, walk.name)
        assert sorted(map(hash, map(same, told))) == expected
        clock.advance(600.0)
        restore = {"SourceTableName": walk.name, "TargetTableName": "restored", "UseLatestRestorableTime": True}
        engine.execute("RestoreTableToPointInTime", restore)
        found = every_item(engine, "Scan", {"TableName": "restored"})
        assert sorted(map(hash, map(same, found))) == expected
        assert_indexes_agree(engine, "restored")


def images(engine: Engine, name: str) -> list[Item]:
    """The items that a table's stream leaves, if each record begins where the one before it ended."""
    told: dict[Any, Item | None] = {}
    for record in records(engine, name):
        change = record["dynamodb"]
        key = same(change["Keys"])
        assert change.get("OldImage") == told.get(key), "a record is missing"
        told[key] = change.get("NewImage")
    return [image for image in told.values() if image is not None]


def test_the_model_writes_numbers_in_one_way() -> None:
    assert [plain_number(text) for text in ("007", "-0", "1e2", "-1.50", "0.0")] == ["7", "0", "100", "-1.5", "0"]
