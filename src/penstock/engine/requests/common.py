"""Shapes that several families of requests share."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from penstock.engine.requests.attribute_values import VALUE, AttributeList, AttributeMap
from penstock.engine.requests.shapes import Acceptor, Boolean, Enum, Faults, Path, String
from penstock.engine.requests.structures import List, Map, Names, Required, Structure
from penstock.errors import ValidationException

NAME = "[a-zA-Z0-9_.-]+"
_NAME_OR_ARN = r"[a-zA-Z0-9_.-]{3,255}|arn:.{1,1020}"
_ARN_LENGTH = 1024


@lru_cache(maxsize=1024)
def _is_name_or_arn(text: str) -> bool:
    return re.fullmatch(_NAME_OR_ARN, text, re.ASCII) is not None


class TableName(String):
    """A table's name, or its ARN.

    `empty_alone` is PutItem's and UpdateItem's: they report an empty name by its length only.
    """

    def __init__(self, *, empty_alone: bool = False) -> None:
        super().__init__(3, 255, NAME)
        self._empty_alone = empty_alone

    def acceptor(self) -> Acceptor:
        return lambda value: type(value) is str and _is_name_or_arn(value)

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if value.startswith("arn:"):
            if len(value) > _ARN_LENGTH:
                faults.add(value, path, f"Member must have length less than or equal to {_ARN_LENGTH}")
        elif self._empty_alone and not value:
            faults.add(value, path, "Member must have length greater than or equal to 1")
        else:
            super().inspect(value, path, faults)


def table_name_first(request: dict[str, Any]) -> None:
    """The control plane refuses a missing, short or long name before it looks at anything else."""
    name = request.get("TableName")
    if name is None:
        raise ValidationException("The parameter 'TableName' is required but was not present in the request")
    if not name.startswith("arn:") and not 3 <= len(name) <= 255:
        raise ValidationException("TableName must be at least 3 characters long and at most 255 characters long")


TABLE = TableName()
TABLE_NAMES = Names(3, 255, NAME, accepted=_NAME_OR_ARN)
INDEX_NAME = String(3, 255, NAME)
ARN_CHARACTERS = 1283
ARN = String(1, ARN_CHARACTERS)
TEXT = String()
FLAG = Boolean()

ATTRIBUTE_MAP = AttributeMap()
ATTRIBUTE_NAMES = Map(TEXT)
ATTRIBUTES_TO_GET = List(TEXT, 1, 255)

CONSUMED_CAPACITY = Enum("INDEXES", "TOTAL", "NONE")
COLLECTION_METRICS = Enum("SIZE", "NONE")
RETURN_VALUES = Enum("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
ON_CONDITION_FAILURE = Enum("ALL_OLD", "NONE")
CONDITIONAL_OPERATOR = Enum("OR", "AND")
COMPARISON = Enum(
    "IN",
    "NULL",
    "BETWEEN",
    "LT",
    "NOT_CONTAINS",
    "EQ",
    "GT",
    "NOT_NULL",
    "NE",
    "LE",
    "BEGINS_WITH",
    "GE",
    "CONTAINS",
)
TOKEN = String(1, 36)

EXPECTED = Map(
    Structure(
        "ExpectedAttributeValue",
        AttributeValueList=AttributeList(),
        ComparisonOperator=COMPARISON,
        Exists=FLAG,
        Value=VALUE,
    )
)
CONDITIONS = Map(Structure("Condition", AttributeValueList=AttributeList(), ComparisonOperator=Required(COMPARISON)))
