"""The tables in which Penstock keeps its own state: leases, histories, checkpoints, the phase of a rekey.

That state is of one database, and would be wrong in another: a lease that nobody holds, a place in a stream that is
not there. So these tables are nobody's definitions, and "all tables" never means them; by its name, each can be had.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

REKEY_TABLE: Final = "penstock-rekey"
"""Where rekeys are kept: their source table, and the phase that they are in (rekey/state.py)."""


def state_table_name(environment: Mapping[str, str] | None = None) -> str:
    """Where leases and histories of tables are: PENSTOCK_STATE_TABLE, else `penstock-state` (state/state_table.py)."""
    return _named("PENSTOCK_STATE_TABLE", environment) or "penstock-state"


def streams_table_name(environment: Mapping[str, str] | None = None) -> str:
    """Where consumers' checkpoints are: PENSTOCK_STREAMS_TABLE, else `penstock-streams` (streams/group_table.py)."""
    return _named("PENSTOCK_STREAMS_TABLE", environment) or "penstock-streams"


def own_tables() -> frozenset[str]:
    """All of them, by their names here."""
    return frozenset({REKEY_TABLE, state_table_name(), streams_table_name()})


def _named(variable: str, environment: Mapping[str, str] | None) -> str | None:
    return (os.environ if environment is None else environment).get(variable)
