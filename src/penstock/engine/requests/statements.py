"""Requests in PartiQL."""

from __future__ import annotations

from penstock.engine.requests.attribute_values import AttributeList
from penstock.engine.requests.common import CONSUMED_CAPACITY, FLAG, ON_CONDITION_FAILURE, TOKEN
from penstock.engine.requests.shapes import Integer, String
from penstock.engine.requests.structures import List, Request, Required, Structure
from penstock.wire.limits import BATCH_WRITE_ITEMS, TRANSACTION_ACTIONS

_STATEMENT = String(1, 8192)
_PARAMETERS = AttributeList(1)

EXECUTE_STATEMENT = Structure(
    "ExecuteStatementInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    Statement=Required(_STATEMENT),
    Parameters=_PARAMETERS,
    ConsistentRead=FLAG,
    NextToken=String(1, 32768),
    Limit=Integer(1),
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
)

BATCH_EXECUTE_STATEMENT = Structure(
    "BatchExecuteStatementInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    Statements=Required(
        List(
            Structure(
                "BatchStatementRequest",
                Statement=Required(_STATEMENT),
                Parameters=_PARAMETERS,
                ConsistentRead=FLAG,
                ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
            ),
            1,
            BATCH_WRITE_ITEMS,
        )
    ),
)

EXECUTE_TRANSACTION = Structure(
    "ExecuteTransactionInput",
    ClientRequestToken=TOKEN,
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TransactStatements=Required(
        List(
            Structure(
                "ParameterizedStatement",
                Statement=Required(_STATEMENT),
                Parameters=_PARAMETERS,
                ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
            ),
            1,
            TRANSACTION_ACTIONS,
        )
    ),
)

REQUESTS = {
    "ExecuteStatement": Request(EXECUTE_STATEMENT),
    "BatchExecuteStatement": Request(BATCH_EXECUTE_STATEMENT),
    "ExecuteTransaction": Request(EXECUTE_TRANSACTION),
}
