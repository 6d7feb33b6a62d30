"""What DynamoDB says about an expression that it refuses, each text once.

AWS rewords its validation region by region; docs/decisions/0004-wording.md says which generation is spoken where. The
envelope that some operations put around these texts is not theirs: it is in `engine/requests/error_wording.py`.
"""

from __future__ import annotations

from penstock.wire.values import AttributeValue

EMPTY = "The expression can not be empty;"
REDUNDANT_PARENTHESES = "The expression has redundant parentheses;"
TOO_LARGE = "Expression size has exceeded the maximum allowed size;"

MISSING_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
BAD_PATH = "The document path provided in the update expression is invalid for update"
BAD_OPERAND = "An operand in the update expression has an incorrect data type"
TYPE_MISMATCH = "Type mismatch for attribute to update"

BAD_OPERATOR = "Failed to satisfy constraint: Member must satisfy enum value set: [ALL, OR]"  # ALL: AWS's own word

ANY_TYPE = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"
TYPE_NAMES = "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"

LONG_TYPES = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "BOOL": "BOOLEAN",
    "NULL": "NULL",
    "L": "LIST",
    "M": "MAP",
    "SS": "STRING_SET",
    "NS": "NUMBER_SET",
    "BS": "BINARY_SET",
}


class ExpressionError(Exception):
    """An expression that DynamoDB refuses.

    `message` is the text that follows "Invalid XExpression: "; a `bare` message stands alone.
    """

    def __init__(self, message: str, *, bare: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.bare = bare

    def text(self, parameter: str) -> str:
        """The whole message, for the expression of this parameter."""
        return self.message if self.bare else f"Invalid {parameter}: {self.message}"


def syntax(token: str, near: str) -> ExpressionError:
    return ExpressionError(f'Syntax error; token: "{token}", near: "{near}"')


def reserved(word: str) -> ExpressionError:
    return ExpressionError(f"Attribute name is a reserved keyword; reserved keyword: {word}")


def undefined_name(name: str) -> ExpressionError:
    return ExpressionError(
        f"An expression attribute name used in the document path is not defined; attribute name: {name}"
    )


def undefined_value(name: str) -> ExpressionError:
    return ExpressionError(f"An expression attribute value used in expression is not defined; attribute value: {name}")


def unknown_function(name: str) -> ExpressionError:
    return ExpressionError(f"Invalid function name; function: {name}")


def misplaced_function(name: str) -> ExpressionError:
    return ExpressionError(f"The function is not allowed to be used this way in an expression; function: {name}")


def forbidden_function(name: str, where: str) -> ExpressionError:
    return ExpressionError(f"The function is not allowed in {where} expression; function: {name}")


def operand_count(operator: str, count: int) -> ExpressionError:
    return ExpressionError(
        "Incorrect number of operands for operator or function; "
        f"operator or function: {operator}, number of operands: {count}"
    )


def operand_type(operator: str, kind: str) -> ExpressionError:
    return ExpressionError(
        f"Incorrect operand type for operator or function; operator or function: {operator}, operand type: {kind}"
    )


def action_type(keyword: str, kind: str) -> ExpressionError:
    return ExpressionError(
        f"Incorrect operand type for operator or function; operator: {keyword}, operand type: {LONG_TYPES[kind]}"
    )


def needs_path(operator: str) -> ExpressionError:
    return ExpressionError(f"Operator or function requires a document path; operator or function: {operator}")


def not_distinct(operator: str, path: str) -> ExpressionError:
    return ExpressionError(
        "The first operand must be distinct from the remaining operands for this operator or function; "
        f"operator: {operator}, first operand: {path}"
    )


def unknown_type(name: str) -> ExpressionError:
    return ExpressionError(f"Invalid attribute type name found; type: {name}, valid types: {TYPE_NAMES}")


def too_many_operators(count: int) -> ExpressionError:
    return ExpressionError(f"The expression contains too many operators; operator count: {count}")


def too_many_candidates(count: int) -> ExpressionError:
    return ExpressionError(f"The IN operator is provided with too many operands; number of operands: {count}")


def too_deep(levels: int) -> ExpressionError:
    return ExpressionError(f"The document path has too many nesting levels; nesting levels: {levels}")


def index_out_of_range(index: int) -> ExpressionError:
    return ExpressionError(f"List index is not within the allowable range; index: [{index}]")


def repeated_section(keyword: str) -> ExpressionError:
    return ExpressionError(f'The "{keyword}" section can only be used once in an update expression;')


def clashing_paths(how: str, one: str, two: str) -> ExpressionError:
    return ExpressionError(
        f"Two document paths {how} with each other; must remove or rewrite one of these paths; "
        f"path one: {one}, path two: {two}"
    )


def bounds_of_two_types(low: AttributeValue, high: AttributeValue) -> ExpressionError:
    return ExpressionError(
        "The BETWEEN operator requires same data type for lower and upper bounds; " + _bounds(low, high)
    )


def bounds_out_of_order(low: AttributeValue, high: AttributeValue) -> ExpressionError:
    return ExpressionError(
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; " + _bounds(low, high)
    )


def _bounds(low: AttributeValue, high: AttributeValue) -> str:
    return f"lower bound operand: {_render_value(low)}, upper bound operand: {_render_value(high)}"


def _render_value(value: AttributeValue) -> str:
    ((kind, data),) = value.items()
    return f"AttributeValue: {{{kind}:{data}}}"


# ── key conditions: these texts stand alone ──────────────────────────────────────────────────────


def key_operator(operator: str) -> ExpressionError:
    return ExpressionError(f"Invalid operator used in KeyConditionExpression: {operator}", bare=True)


def key_condition(why: str) -> ExpressionError:
    return ExpressionError(f"Invalid condition in KeyConditionExpression: {why}", bare=True)


def repeated_key_condition() -> ExpressionError:
    """The one of these texts that names its parameter."""
    return ExpressionError("KeyConditionExpressions must only contain one condition per key")


def search_condition(why: str) -> ExpressionError:
    """Of SearchVectors."""
    return ExpressionError(why)


def key_conditions(why: str) -> ExpressionError:
    return ExpressionError(f"KeyConditionExpressions {why}", bare=True)
