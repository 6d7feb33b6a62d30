"""What DynamoDB says about a PartiQL statement that it refuses, each text once."""

from __future__ import annotations

from penstock.errors import ValidationException

NEEDS_KEY = "Where clause does not contain a mandatory equality on all key attributes"
ALIASING = "Aliasing is not supported"
OVERLAP = "Overlapping conditions with range keys are not supported in where clause"
NOT_ON_INDEX = "This operation is not supported on an index"
EMPTY_COMPONENT = "Path component cannot be an empty string"
TOO_MANY_COMPONENTS = "A path may contain at most 2 components in the FROM clause"
ONE_TABLE = "FROM clause may only contain a single table name"
PARAMETER_COUNT = "Number of parameters in request and statement don't match."
EMPTY_BAG = "Empty bags are not supported"
MIXED_BAG = "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags"
NO_TUPLE = (
    "Unsupported format in item expression. Please use struct format {...} to express item values for insert statement."
)
BAD_IN = (
    "IN operator must have a left hand argument of type Variable Reference and right hand argument of type Seq with at "
    "least one member"
)
NO_TERM = "The arguments to AND/OR must be Expressions"
NO_NEGATED_TERM = "The argument to NOT must be a Type or Expression"
MISSING_VALUE = "MISSING must be compared using IS operator"
EXISTS_OUTSIDE = "EXISTS can only be used in ExecuteTransaction write requests."
EXISTS_CONDITION = "EXISTS() must contain a single item read with additional condition"
MULTI_ATTRIBUTE = (
    "PartiQL statements cannot be executed on tables with multi-attribute HASH keys or multi-attribute RANGE keys."
)

UNEXPECTED_TERM = "Unexpected term"
UNEXPECTED_KEYWORD = "Unexpected keyword"
UNEXPECTED_OPERATOR = "Unexpected operator"
LEFTOVER = "Unexpected token after expression"
NO_RIGHT_SIDE = "Missing right-hand side expression of infix operator"
NO_OPERATION = "Expected data manipulation"
NO_TYPE = "Expected type name"
NO_SIMPLE_PATH = "Expected identifier for simple path"
BAD_DOT = "Invalid path dot component"
TOO_DEEP = "Statement is nested too deeply"


def malformed(detail: str = "") -> ValidationException:
    """A statement that cannot be read; a literal that cannot be converted has no detail."""
    return ValidationException(f"Statement wasn't well formed, can't be processed: {detail}")


def expected(what: str) -> ValidationException:
    return malformed(f"Expected {what}")
