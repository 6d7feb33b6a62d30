"""Requests about a resource by its ARN: tags and policies.

What is wrong with an ARN, and the order in which it and the rest are refused, is the operations' own.
"""

from __future__ import annotations

from penstock.engine.requests.common import ARN, FLAG, TEXT
from penstock.engine.requests.tables import TAGS
from penstock.engine.shapes import String
from penstock.engine.structures import List, Request, Required, Structure

_REVISION = String(1, 255)

REQUESTS = {
    "TagResource": Request(
        Structure(
            "TagResourceInput",
            ResourceArn=TEXT,
            Tags=TAGS,
        )
    ),
    "UntagResource": Request(Structure("UntagResourceInput", ResourceArn=TEXT, TagKeys=List(TEXT))),
    "ListTagsOfResource": Request(Structure("ListTagsOfResourceInput", ResourceArn=TEXT, NextToken=TEXT)),
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
