"""The database that the configuration names."""

from __future__ import annotations

from functools import cache

from penstock.client.database import Database, connect
from penstock.client.transports import endpoints
from penstock.client.transports.credentials import Credentials, CredentialSource, FixedCredentials
from penstock.client.transports.endpoints import Endpoint
from penstock.systems.account_records.config import DEFAULTS, Config
from penstock.systems.account_records.tables import tables
from penstock.systems.schema_variants import SchemaVariant
from penstock.tables.apply.apply import ensure_tables
from penstock.tables.definitions.definition import Naming


def open_database(config: Config) -> Database:
    """Opens the database of a configuration; the caller closes it."""
    target = endpoints.parse(config.endpoint, {"AWS_REGION": config.region})
    if not isinstance(target, Endpoint):
        return connect(config.endpoint)
    return connect(_with_region(config), credentials=_credentials(config, target))


def default_database() -> Database:
    """The one that models use which were given none: opened once in a process for each configuration."""
    return _opened_once(Config.load())


@cache
def _opened_once(config: Config) -> Database:
    return open_database(config)


def create_tables(db: Database, config: Config, layout: SchemaVariant = "safe") -> tuple[str, ...]:
    """Makes Users and Records where they are missing, and waits for them; the names of those that were made.

    A table that is there is left as it is.
    """
    wanted = tables(layout, users=config.user_table, records=config.record_table)
    there = set(db.tables())
    missing = [table for table in wanted if table.name not in there]
    ensure_tables(db, missing, Naming(prefix="", region=config.region))
    return tuple(table.name for table in missing)


def _with_region(config: Config) -> str:
    url = config.endpoint
    if not url.lower().startswith(("http://", "https://")) or "region=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}region={config.region}"


def _credentials(config: Config, endpoint: Endpoint) -> CredentialSource | None:
    """Those that were set; else a local endpoint's own, or (None) those that boto3 finds for AWS."""
    if config.access_key_id and config.secret_access_key:
        return FixedCredentials(Credentials(config.access_key_id, config.secret_access_key))
    if endpoint.aws:
        return None
    return FixedCredentials(Credentials(DEFAULTS["AWS_ACCESS_KEY_ID"], DEFAULTS["AWS_SECRET_ACCESS_KEY"]))
