"""Requests made from botocore's model of DynamoDB: mostly well-formed, sometimes wild."""

from __future__ import annotations

from base64 import b64encode
from random import Random
from typing import Any

from botocore.loaders import Loader
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StructureShape

TEXTS = ["", "a", "pk", "x" * 300, "ключ", "日本", "\x00", "\ud800", "a\udfffb", "😀", "null", "0", "-1", "#a", ":b"]
NUMBERS = ["0", "1", "-1", "1e125", "1E-130", "9" * 38, "9" * 39, "1e400", "0x10", "", " 1", "NaN", "Infinity", "١"]
NAMES = ["plain", "indexed", "streamed", "missing", "x", "arn:aws:dynamodb:us-east-1:000000000000:table/plain", "a/b"]
EXPRESSIONS = [
    "",
    " ",
    "pk = :b",
    "#a = :b",
    "pk = :b AND sk > :c",
    "attribute_exists(pk)",
    "attribute_type(a, :b) OR size(a) > :c",
    "a.b[0] = :b",
    "NOT (a IN (:b, :c))",
    "a BETWEEN :b AND :c",
    "contains(a, :b)",
    "SET a = :b",
    "SET a = a + :b, #a = if_not_exists(x, :c) REMOVE y[3]",
    "ADD n :b DELETE s :c",
    "REMOVE a, a.b",
    "a, #a.b[1]",
    "((((",
    "\ud800",
    "'",
    "pk = :b AND begins_with(sk, :c)",
    "SELECT * FROM plain WHERE pk = ?",
    "INSERT INTO plain VALUE {'pk': ?}",
    "DELETE FROM plain WHERE pk = 'a'",
    "UPDATE plain SET a = 1 WHERE pk = 'a'",
]
WILD: list[Any] = [
    *[None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**40, 0.5, -1e308, 1e-320],
    *["", "x", "true", "\ud800", "𝕏" * 50, [], {}, [[]], [None], {"": {}}, {"S": "a"}, {"a": None}],
]


def is_unicode(value: Any) -> bool:
    return not isinstance(value, str) or value == value.encode(errors="replace").decode()


def models() -> dict[str, StructureShape | None]:
    """The request's shape of every operation of DynamoDB and of its streams."""
    loader = Loader()
    found: dict[str, StructureShape | None] = {}
    for service in ("dynamodb", "dynamodbstreams"):
        model = ServiceModel(loader.load_service_model(service, "service-2"), service)
        for name in model.operation_names:
            found[name] = model.operation_model(name).input_shape
    return found


class Generator:
    """Makes requests; `wildness` is the share of values that ignore their shape.

    `halves`: texts may hold half a surrogate pair, as Python's can and JSON's cannot.
    """

    def __init__(self, random: Random, wildness: float, *, halves: bool = True) -> None:
        self.random = random
        self.wildness = wildness
        self.texts, self.expressions, self.wilds = TEXTS, EXPRESSIONS, WILD
        if not halves:
            self.texts = list(filter(is_unicode, TEXTS))
            self.expressions = list(filter(is_unicode, EXPRESSIONS))
            self.wilds = list(filter(is_unicode, WILD))

    def request(self, shape: StructureShape | None) -> Any:
        if shape is None:
            return {}
        return self.wild() if self.random.random() < self.wildness / 4 else self.structure(shape, 0)

    def wild(self) -> Any:
        return self.random.choice(self.wilds)

    def value(self, name: str, shape: Shape, depth: int) -> Any:
        if self.random.random() < self.wildness:
            return self.wild()
        if shape.name in ("AttributeValue", "KeyAttributeValue"):
            return self.attribute_value(0)
        if isinstance(shape, StructureShape):
            return self.structure(shape, depth + 1)
        if isinstance(shape, ListShape):
            return [self.value(name, shape.member, depth + 1) for _ in range(self.random.choice([0, 1, 1, 2, 3]))]
        if isinstance(shape, MapShape):
            count = self.random.choice([0, 1, 1, 2])
            return {self.map_key(shape): self.value(name, shape.value, depth + 1) for _ in range(count)}
        return self.scalar(name, shape)

    def structure(self, shape: StructureShape, depth: int) -> dict[str, Any]:
        chance = 0.35 if depth < 4 else 0.1
        made = {
            name: self.value(name, member, depth)
            for name, member in shape.members.items()
            if name in shape.required_members or self.random.random() < chance
        }
        if made and self.random.random() < self.wildness:
            made.pop(self.random.choice(list(made)))
        return made

    def map_key(self, shape: MapShape) -> str:
        if shape.key.name == "ExpressionAttributeNameVariable":
            return self.random.choice(["#a", "#b", "a"])
        if shape.key.name == "ExpressionAttributeValueVariable":
            return self.random.choice([":b", ":c", ":", "b"])
        if shape.key.name in ("TableName", "TableArn"):
            return self.random.choice(NAMES)
        return self.random.choice(["pk", "sk", "a", "n", *self.texts])

    def scalar(self, name: str, shape: Shape) -> Any:
        if shape.type_name == "string":
            return self.text(name, shape)
        if shape.type_name in ("integer", "long"):
            return self.random.choice([0, 1, 2, 5, 100, 1_000_000, -1, 2**31 - 1])
        if shape.type_name in ("double", "float"):
            return self.random.choice([0.0, 0.5, 70.0, -1.0])
        if shape.type_name == "boolean":
            return self.random.random() < 0.5
        if shape.type_name == "timestamp":
            return self.random.choice([0, 1_700_000_000, 1.5, -1, 10**15])
        return b64encode(bytes(self.random.randrange(256) for _ in range(self.random.randrange(5)))).decode()

    def text(self, name: str, shape: Shape) -> str:
        enum = getattr(shape, "enum", None)
        if enum:
            return str(self.random.choice([*enum, *enum, "WRONG"]))
        if "Expression" in name or name == "Statement":
            return self.random.choice(self.expressions)
        if "Table" in name or "Arn" in name:
            return self.random.choice(NAMES)
        if name == "IndexName":
            return self.random.choice(["by_a", "local_n", "none", "x"])
        return self.random.choice(["pk", "sk", "a", "n", *self.texts])

    def attribute_value(self, depth: int) -> Any:
        if self.random.random() < self.wildness:
            return self.wild()
        kind = self.random.choice(["S", "S", "N", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M", "X"])
        value = {kind: self._data(kind, depth)}
        if self.random.random() < 0.02:
            value["N"] = "1"
        return value

    def _data(self, kind: str, depth: int) -> Any:
        binary = self.random.choice(["", "AA==", "AP8=", "x", "=====", "YWI="])
        match kind:
            case "S":
                return self.random.choice(self.texts)
            case "N":
                return self.random.choice(NUMBERS)
            case "B":
                return binary
            case "SS":
                return self.random.choices(self.texts, k=self.random.randrange(3))
            case "NS":
                return self.random.choices(NUMBERS, k=self.random.randrange(3))
            case "BS":
                return [binary] * self.random.randrange(3)
            case "BOOL" | "NULL":
                return self.random.random() < 0.7
            case "L":
                return [self.attribute_value(depth + 1) for _ in range(self.random.randrange(3))] if depth < 40 else []
            case "M":
                return {self.random.choice(self.texts): self.attribute_value(depth + 1)} if depth < 40 else {}
        return "?"
