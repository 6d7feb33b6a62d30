"""What DynamoDB checks in an expression before it looks at any placeholder: size, words, functions, operators.

The checks go through the expression in the order in which it is written and stop at the first problem.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import (
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    Node,
    Not,
    Or,
    Path,
    Term,
    UpdateTree,
    Value,
    children,
    walk,
)
from penstock.wire.limits import EXPRESSION_BYTES, EXPRESSION_OPERATORS

# ── the 573 reserved words of AWS's developer guide ───────────────────────────────────────────────


_WORDS = """
ABORT ABSOLUTE ACTION ADD AFTER AGENT AGGREGATE ALL ALLOCATE ALTER ANALYZE AND ANY ARCHIVE ARE ARRAY
AS ASC ASCII ASENSITIVE ASSERTION ASYMMETRIC AT ATOMIC ATTACH ATTRIBUTE AUTH AUTHORIZATION AUTHORIZE
AUTO AVG BACK BACKUP BASE BATCH BEFORE BEGIN BETWEEN BIGINT BINARY BIT BLOB BLOCK BOOLEAN BOTH
BREADTH BUCKET BULK BY BYTE CALL CALLED CALLING CAPACITY CASCADE CASCADED CASE CAST CATALOG CHAR
CHARACTER CHECK CLASS CLOB CLOSE CLUSTER CLUSTERED CLUSTERING CLUSTERS COALESCE COLLATE COLLATION
COLLECTION COLUMN COLUMNS COMBINE COMMENT COMMIT COMPACT COMPILE COMPRESS CONDITION CONFLICT CONNECT
CONNECTION CONSISTENCY CONSISTENT CONSTRAINT CONSTRAINTS CONSTRUCTOR CONSUMED CONTINUE CONVERT COPY
CORRESPONDING COUNT COUNTER CREATE CROSS CUBE CURRENT CURSOR CYCLE DATA DATABASE DATE DATETIME DAY
DEALLOCATE DEC DECIMAL DECLARE DEFAULT DEFERRABLE DEFERRED DEFINE DEFINED DEFINITION DELETE
DELIMITED DEPTH DEREF DESC DESCRIBE DESCRIPTOR DETACH DETERMINISTIC DIAGNOSTICS DIRECTORIES DISABLE
DISCONNECT DISTINCT DISTRIBUTE DO DOMAIN DOUBLE DROP DUMP DURATION DYNAMIC EACH ELEMENT ELSE ELSEIF
EMPTY ENABLE END EQUAL EQUALS ERROR ESCAPE ESCAPED EVAL EVALUATE EXCEEDED EXCEPT EXCEPTION
EXCEPTIONS EXCLUSIVE EXEC EXECUTE EXISTS EXIT EXPLAIN EXPLODE EXPORT EXPRESSION EXTENDED EXTERNAL
EXTRACT FAIL FALSE FAMILY FETCH FIELDS FILE FILTER FILTERING FINAL FINISH FIRST FIXED FLATTERN FLOAT
FOR FORCE FOREIGN FORMAT FORWARD FOUND FREE FROM FULL FUNCTION FUNCTIONS GENERAL GENERATE GET GLOB
GLOBAL GO GOTO GRANT GREATER GROUP GROUPING HANDLER HASH HAVE HAVING HEAP HIDDEN HOLD HOUR
IDENTIFIED IDENTITY IF IGNORE IMMEDIATE IMPORT IN INCLUDING INCLUSIVE INCREMENT INCREMENTAL INDEX
INDEXED INDEXES INDICATOR INFINITE INITIALLY INLINE INNER INNTER INOUT INPUT INSENSITIVE INSERT
INSTEAD INT INTEGER INTERSECT INTERVAL INTO INVALIDATE IS ISOLATION ITEM ITEMS ITERATE JOIN KEY KEYS
LAG LANGUAGE LARGE LAST LATERAL LEAD LEADING LEAVE LEFT LENGTH LESS LEVEL LIKE LIMIT LIMITED LINES
LIST LOAD LOCAL LOCALTIME LOCALTIMESTAMP LOCATION LOCATOR LOCK LOCKS LOG LOGED LONG LOOP LOWER MAP
MATCH MATERIALIZED MAX MAXLEN MEMBER MERGE METHOD METRICS MIN MINUS MINUTE MISSING MOD MODE MODIFIES
MODIFY MODULE MONTH MULTI MULTISET NAME NAMES NATIONAL NATURAL NCHAR NCLOB NEW NEXT NO NONE NOT NULL
NULLIF NUMBER NUMERIC OBJECT OF OFFLINE OFFSET OLD ON ONLINE ONLY OPAQUE OPEN OPERATOR OPTION OR
ORDER ORDINALITY OTHER OTHERS OUT OUTER OUTPUT OVER OVERLAPS OVERRIDE OWNER PAD PARALLEL PARAMETER
PARAMETERS PARTIAL PARTITION PARTITIONED PARTITIONS PATH PERCENT PERCENTILE PERMISSION PERMISSIONS
PIPE PIPELINED PLAN POOL POSITION PRECISION PREPARE PRESERVE PRIMARY PRIOR PRIVATE PRIVILEGES
PROCEDURE PROCESSED PROJECT PROJECTION PROPERTY PROVISIONING PUBLIC PUT QUERY QUIT QUORUM RAISE
RANDOM RANGE RANK RAW READ READS REAL REBUILD RECORD RECURSIVE REDUCE REF REFERENCE REFERENCES
REFERENCING REGEXP REGION REINDEX RELATIVE RELEASE REMAINDER RENAME REPEAT REPLACE REQUEST RESET
RESIGNAL RESOURCE RESPONSE RESTORE RESTRICT RESULT RETURN RETURNING RETURNS REVERSE REVOKE RIGHT
ROLE ROLES ROLLBACK ROLLUP ROUTINE ROW ROWS RULE RULES SAMPLE SATISFIES SAVE SAVEPOINT SCAN SCHEMA
SCOPE SCROLL SEARCH SECOND SECTION SEGMENT SEGMENTS SELECT SELF SEMI SENSITIVE SEPARATE SEQUENCE
SERIALIZABLE SESSION SET SETS SHARD SHARE SHARED SHORT SHOW SIGNAL SIMILAR SIZE SKEWED SMALLINT
SNAPSHOT SOME SOURCE SPACE SPACES SPARSE SPECIFIC SPECIFICTYPE SPLIT SQL SQLCODE SQLERROR
SQLEXCEPTION SQLSTATE SQLWARNING START STATE STATIC STATUS STORAGE STORE STORED STREAM STRING STRUCT
STYLE SUB SUBMULTISET SUBPARTITION SUBSTRING SUBTYPE SUM SUPER SYMMETRIC SYNONYM SYSTEM TABLE
TABLESAMPLE TEMP TEMPORARY TERMINATED TEXT THAN THEN THROUGHPUT TIME TIMESTAMP TIMEZONE TINYINT TO
TOKEN TOTAL TOUCH TRAILING TRANSACTION TRANSFORM TRANSLATE TRANSLATION TREAT TRIGGER TRIM TRUE
TRUNCATE TTL TUPLE TYPE UNDER UNDO UNION UNIQUE UNIT UNKNOWN UNLOGGED UNNEST UNPROCESSED UNSIGNED
UNTIL UPDATE UPPER URL USAGE USE USER USERS USING UUID VACUUM VALUE VALUED VALUES VARCHAR VARIABLE
VARIANCE VARINT VARYING VIEW VIEWS VIRTUAL VOID WAIT WHEN WHENEVER WHERE WHILE WINDOW WITH WITHIN
WITHOUT WORK WRAPPED WRITE YEAR ZONE
"""

RESERVED_WORDS = frozenset(_WORDS.split())


def is_reserved(name: str) -> bool:
    """Whether this name, in any case, must be written as a #placeholder."""
    return name.upper() in RESERVED_WORDS


# ── checks ────────────────────────────────────────────────────────────────────────────────────────


PREDICATES = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
}
OPERAND_FUNCTIONS = {"size": 1}
UPDATE_FUNCTIONS = {"if_not_exists": 2, "list_append": 2}
OPERAND_COUNTS = PREDICATES | OPERAND_FUNCTIONS | UPDATE_FUNCTIONS

_LIST_INDEX_MAX = 2**31 - 1


def check_size(text: str, *, tell: bool = False) -> None:
    """Refuses an empty expression and one of more than 4 KB; DynamoDB tells the size of conditions only."""
    if not text:
        raise ExpressionError(error_wording.EMPTY)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > EXPRESSION_BYTES:
        raise ExpressionError(error_wording.TOO_LARGE + (f" expression size: {size}" if tell else ""))


def check_condition(tree: Term) -> None:
    """Words, functions and the number of operators of a condition."""
    count = 0
    pending: list[tuple[Node, bool]] = [(tree, True)]
    while pending:
        node, is_term = pending.pop()
        if isinstance(node, Call):
            _check_condition_function(node.name, is_term)
        elif isinstance(node, Path):
            check_words(node)
        count += _operators(node)
        if count > EXPRESSION_OPERATORS:
            raise error_wording.too_many_operators(EXPRESSION_OPERATORS + 1)
        holds_terms = isinstance(node, Not | And | Or)
        pending.extend((child, holds_terms) for child in reversed(children(node)))


def check_update(tree: UpdateTree) -> None:
    """Words, functions, operators and sections, a section at a time in the order of their first appearance."""
    count = 0
    for keyword in dict.fromkeys(section.keyword for section in tree.sections):
        sections = [section for section in tree.sections if section.keyword == keyword]
        for node in walk(*(action for section in sections for action in section.actions)):
            if isinstance(node, Call):
                _check_update_function(node.name)
            elif isinstance(node, Path):
                check_words(node)
            _refuse_inner_append(node)
            count += _operators(node)
            if count > EXPRESSION_OPERATORS:
                raise error_wording.too_many_operators(EXPRESSION_OPERATORS + 1)
        if len(sections) > 1:
            raise error_wording.repeated_section(keyword)


def check_words(path: Path) -> None:
    """Reserved words and list indexes of a path."""
    for part in path.parts:
        if isinstance(part, int):
            if part > _LIST_INDEX_MAX:
                raise error_wording.index_out_of_range(part)
        elif is_reserved(part):
            raise error_wording.reserved(part)


def placeholders(nodes: Iterable[Node]) -> tuple[frozenset[str], frozenset[str]]:
    """The #names and the :values that stand in these trees."""
    names: set[str] = set()
    values: set[str] = set()
    for node in walk(*nodes):
        if isinstance(node, Value):
            values.add(node.name)
        elif isinstance(node, Path):
            names.update(part for part in node.parts if isinstance(part, str) and part[0] == "#")
    return frozenset(names), frozenset(values)


def _operators(node: Node) -> int:
    """How many operators and functions this node counts as; brackets and commas are none."""
    if isinstance(node, And | Or):
        return len(node.terms) - 1
    return int(isinstance(node, Comparison | Between | In | Not | Call | Arithmetic))


def _check_condition_function(name: str, is_term: bool) -> None:
    if name not in OPERAND_COUNTS:
        raise error_wording.unknown_function(name)
    if name in UPDATE_FUNCTIONS:
        raise error_wording.forbidden_function(name, "a condition")
    if is_term != (name in PREDICATES):
        raise error_wording.misplaced_function(name)


def _refuse_inner_append(node: Node) -> None:
    """Of the functions of an update only if_not_exists may be another's operand."""
    if isinstance(node, Call | Arithmetic) and any(
        isinstance(child, Call) and child.name == "list_append" for child in children(node)
    ):
        raise error_wording.misplaced_function("list_append")


def _check_update_function(name: str) -> None:
    if name not in OPERAND_COUNTS:
        raise error_wording.unknown_function(name)
    if name not in UPDATE_FUNCTIONS:
        raise error_wording.forbidden_function(name, "an update")
