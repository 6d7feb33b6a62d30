"""How an engine behaves, and whose tables a call means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True, slots=True)
class Throttling:
    """Limits of throughput, enforced as DynamoDB does: see docs/throttling.md."""

    partition_read_units: float = 3_000.0
    partition_write_units: float = 1_000.0
    """What one partition gives in a second, and so what one key can get."""

    burst_seconds: float = 300.0
    """How much unused provisioned throughput is saved."""

    on_demand_read_units: float = 12_000.0
    on_demand_write_units: float = 4_000.0
    """What an on-demand table or index gives in a second, unless its warm throughput is higher."""

    split_seconds: float = 60.0
    """How long a partition is throttled before its hottest key is given one of its own."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Delays are zero by default, for tests' sake; DynamoDB's own are seconds to minutes (TTL: hours)."""

    synchronous: Literal["normal", "full"] = "normal"
    """normal survives the death of the process; full also survives the loss of power, at a sync each commit."""

    table_delay_seconds: float = 0.0
    """How long a table is CREATING, UPDATING or DELETING."""

    index_delay_seconds: float = 0.0
    """How long, at the least, a new index is CREATING and Backfilling."""

    ttl_lag_seconds: float = 0.0
    """How long after its time an item stays before the sweeper deletes it."""

    ttl_sweep_seconds: float = 1.0
    """How often the sweeper looks."""

    busy_seconds: float = 30.0
    """How long a write waits for another process's transaction."""

    frozen_seconds: float = 5.0
    """How long, if that process is stopped (SIGSTOP, a debugger): it may never go on."""

    page_cache_bytes: int = 32 * 1024 * 1024

    throttling: Throttling | None = None
    """Whether limits of throughput are enforced, and which."""

    heat: bool = False
    """Whether units are counted by key and partition, for `penstock heat`; throttling counts them too."""


class Scope(NamedTuple):
    """An account and a region: the tables of one are not seen from another.

    A tuple, because it is hashed at every call.
    """

    account: str = "000000000000"
    region: str = "us-east-1"

    def arn(self, resource: str) -> str:
        return f"arn:aws:dynamodb:{self.region}:{self.account}:{resource}"


DEFAULT_SCOPE = Scope()
