"""The names of `penstock tables doctor`'s rules, which `allow={"no-pitr": "a cache"}` in a definition switches off.

They stand here, below the rules themselves (tables/doctor.py): a definition is checked without importing those.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

DOCTOR_RULES: Final = (
    "empty-index",
    "endless-table",
    "hot-index-key",
    "index-type",
    "many-indexes",
    "millisecond-ttl",
    "no-deletion-protection",
    "no-pitr",
    "redundant-index",
    "slow-index",
    "string-ttl",
    "tenant-leak",
)


def allow_problems(allow: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What is wrong with `allow`, and what to do: a rule that there is not, a reason that is none."""
    for rule, reason in allow.items():
        if rule not in DOCTOR_RULES:
            near = difflib.get_close_matches(str(rule), DOCTOR_RULES, n=1)
            mend = f"Did you mean {near[0]!r}?" if near else f"There is {', '.join(DOCTOR_RULES)}"
            yield f"allow names {rule!r}, which is no rule of doctor's", mend
        elif not isinstance(reason, str) or not reason.strip():
            mend = f'Say why, for example allow={{"{rule}": "a cache, rebuilt every night"}}'
            yield f"allow switches {rule!r} off without a reason", mend
