"""Requests about a resource by its ARN: tags and policies.

What is wrong with an ARN, and the order in which it and the rest are refused, is the operations' own.
"""

from __future__ import annotations

from penstock.engine.requests.common import ARN, ARN_CHARACTERS, FLAG, TEXT
from penstock.engine.requests.shapes import String
from penstock.engine.requests.structures import List, Request, Required, Structure
from penstock.engine.requests.tables import TAGS

_REVISION = String(1, 255)
_TAGGED = String(maximum=ARN_CHARACTERS)  # an empty one is refused by the operations, in their own words

REQUESTS = {
    "TagResource": Request(
        Structure(
            "TagResourceInput",
            ResourceArn=_TAGGED,
            Tags=TAGS,
        )
    ),
    "UntagResource": Request(Structure("UntagResourceInput", ResourceArn=_TAGGED, TagKeys=List(TEXT))),
    "ListTagsOfResource": Request(Structure("ListTagsOfResourceInput", ResourceArn=_TAGGED, NextToken=TEXT)),
    "PutResourcePolicy": Request(
        Structure(
            "PutResourcePolicyInput",
            ResourceArn=Required(ARN),
            Policy=Required(TEXT),
            ExpectedRevisionId=_REVISION,
            ConfirmRemoveSelfResourceAccess=FLAG,
        )
    ),
    "GetResourcePolicy": Request(Structure("GetResourcePolicyInput", ResourceArn=Required(ARN))),
    "DeleteResourcePolicy": Request(
        Structure("DeleteResourcePolicyInput", ResourceArn=Required(ARN), ExpectedRevisionId=_REVISION)
    ),
}
