"""Any request at all gets DynamoDB's answer or DynamoDB's error: never a crash, a hang, or half a change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
import pytest
from request_generator import Generator, models
from sample_tables import assert_indexes_agree, index, make, table

from penstock.engine import Engine, Pending
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.registry import OPERATIONS, Operation
from penstock.errors import DynamoDBError, InternalServerError

REQUESTS = 2_000
LONGEST_SECONDS = 3.0  # of this process: a busy machine does not count
SHAPES = {name: shape for name, shape in models().items() if name in OPERATIONS}

INDEXED = table(
    "indexed",
    "pk:S / sk:N",
    globals_=(index("by_a", "a:S", "KEYS_ONLY"),),
    locals_=(index("local_n", "pk:S / n:N"),),
)
TABLES = (table("plain", "pk:S"), INDEXED, table("streamed", "pk:S / sk:S"))


@pytest.fixture
def fuzzed() -> Iterator[Engine]:
    with Engine() as engine:
        # What the sweeper deletes meanwhile would look like a request's doing.
        engine.maintenance.stop()
        yield engine


def restore(engine: Engine) -> None:
    """Makes the tables that a request may have deleted, with an item in each."""
    for definition in TABLES:
        if _is_missing(engine, definition["TableName"]):
            make(engine, definition)
            item = {"pk": {"S": "a"}, "sk": {"N": "1"}, "a": {"S": "a"}, "n": {"N": "1"}, "s": {"SS": ["a"]}}
            if definition["TableName"] == "streamed":
                item["sk"] = {"S": "a"}
            engine.execute("PutItem", {"TableName": definition["TableName"], "Item": item})


def _is_missing(engine: Engine, name: str) -> bool:
    with engine.reading() as call:
        return call.find(name) is None


def dump(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every SQL table."""
    with engine.reading() as call:
        names = [name for (name,) in call.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(call.db.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}


def attempt(engine: Engine, operation: str, request: Any) -> DynamoDBError | None:
    """Executes the request; an error must be DynamoDB's, must be JSON, and must have changed nothing."""
    before = dump(engine)
    began = time.process_time()
    try:
        engine.execute(operation, request)
    except DynamoDBError as error:
        assert not isinstance(error, InternalServerError), error
        orjson.loads(orjson.dumps(_without_halves(error.body())))
        assert dump(engine) == before, f"{error.code} left a change behind"
        return error
    finally:
        assert time.process_time() - began < LONGEST_SECONDS
    return None


def _whole(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _without_halves(body: dict[str, Any]) -> dict[str, Any]:
    """A text that is echoed may hold half a surrogate pair if the request did, which only a call in process can."""
    return {
        name: value.encode(errors="replace").decode() if isinstance(value, str) else value
        for name, value in body.items()
    }


@pytest.mark.parametrize("wildness", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_requests_of_any_shape_get_dynamodbs_answers(fuzzed: Engine, seed: int, wildness: float) -> None:
    random = Random(seed)
    generator = Generator(random, wildness)
    names = sorted(SHAPES)
    answered = 0
    for step in range(REQUESTS):
        restore(fuzzed)
        name = random.choice(names)
        request = generator.request(SHAPES[name])
        try:
            answered += attempt(fuzzed, name, request) is None
        except BaseException as error:
            error.add_note(f"seed {seed}, wildness {wildness}, step {step}: {name} {request!a}")
            raise
    assert answered, "no request was well-formed enough to be answered: the generator tests nothing"
    assert_indexes_agree(fuzzed, "indexed")


@pytest.mark.parametrize("seed", range(2))
def test_a_group_of_any_requests_gets_an_answer_each(fuzzed: Engine, seed: int) -> None:
    random = Random(seed)
    generator = Generator(random, 0.02, halves=False)
    names = sorted(SHAPES)
    for _ in range(60):
        restore(fuzzed)
        calls = [Pending(name, generator.request(SHAPES[name])) for name in random.choices(names, k=12)]
        answers = fuzzed.answer_many(calls)
        assert len(answers) == len(calls)
        for answer in answers:
            if isinstance(answer, DynamoDBError):
                assert not isinstance(answer, InternalServerError), answer
            else:
                orjson.loads(answer)
    restore(fuzzed)
    assert_indexes_agree(fuzzed, "indexed")


def test_a_fault_in_one_call_of_a_group_leaves_the_others_their_answers(
    fuzzed: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore(fuzzed)

    def fail(call: OperationContext, request: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError

    monkeypatch.setitem(OPERATIONS, "DescribeLimits", Operation("DescribeLimits", "read", fail))
    put = Pending("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "kept"}}})
    get = Pending("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "kept"}}})
    written, fault, read = fuzzed.answer_many([put, Pending("DescribeLimits", {}), get])
    assert isinstance(fault, InternalServerError)
    assert written == b"{}"
    assert isinstance(read, bytes) and orjson.loads(read) == {"Item": {"pk": {"S": "kept"}}}


@pytest.mark.parametrize("operation", ["", "getitem", "DropDatabase", "GetItem ", "__init__"])
def test_an_unknown_operation_is_refused_by_name(fuzzed: Engine, operation: str) -> None:
    error = attempt(fuzzed, operation, {})
    assert error is not None and error.code == "UnknownOperationException"


@pytest.mark.parametrize("operation", sorted(SHAPES))
@pytest.mark.parametrize("request_", [{}, None, [], "", 1, True, {"": ""}, {"TableName": None}], ids=repr)
def test_a_request_of_nothing_gets_dynamodbs_answer(operation: str, request_: Any) -> None:
    with Engine() as engine:
        attempt(engine, operation, request_)
