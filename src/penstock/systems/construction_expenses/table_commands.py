"""`penstock construction tables`: the commands of `penstock tables` with the original scripts' variables and defaults.

Only this system reads those variables (S1.8–S1.14). A variable that is empty is one that is not set.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.kit.options import database_variable
from penstock.cli.tables import COMMANDS, tables_group
from penstock.systems.construction_expenses.books import PREFIX, naming_of

_HELP = """Manage the 13 tables: `penstock tables` with the variables and defaults of this system.

\b
Examples:
  penstock construction tables plan --db expenses.db
  ENVIRONMENT=staging penstock construction tables apply
  TABLE_NAME=company-users INDEX_NAME=phone-index PARTITION_KEY=phone \\
      penstock construction tables add-index --db expenses.db

DEFINITIONS defaults to construction-expenses.

\b
Variables, for options that are not given:
  ENVIRONMENT    [production]              part of the names of the tables (--env)
  TABLE_PREFIX   [construction-expenses]   the prefix of their names (--prefix)
  AWS_REGION     [us-east-1]               the AWS region, without --db and PENSTOCK_DB
  MAX_WAIT       seconds to wait (--max-wait)
  TABLE_NAME, INDEX_NAME, PARTITION_KEY, PARTITION_KEY_TYPE, SORT_KEY, SORT_KEY_TYPE,
  PROJECTION_TYPE, PROJECTION_ATTRIBUTES   the index of add-index and change-index
"""

_INDEX_COMMANDS = ("add-index", "change-index")
_INDEX_VARIABLES = {
    "table": "TABLE_NAME",
    "index": "INDEX_NAME",
    "partition_key": "PARTITION_KEY",
    "partition_key_type": "PARTITION_KEY_TYPE",
    "sort_key": "SORT_KEY",
    "sort_key_type": "SORT_KEY_TYPE",
    "projection_type": "PROJECTION_TYPE",
    "projection_attributes": "PROJECTION_ATTRIBUTES",
}


def table_command_defaults(variables: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Of the table commands' parameters: command → parameter → value, where the command line says nothing."""
    naming = naming_of(variables)
    every = {
        "definitions": PREFIX,
        "env": naming.environment,
        "prefix": naming.prefix,
        "region": naming.region,
        # AWS_REGION alone names no database: a program on AWS has it set, whatever database it is to use.
        "target": database_variable(variables) or f"aws://{naming.region}",
    }
    if variables.get("MAX_WAIT"):
        every["max_wait"] = variables["MAX_WAIT"]
    index = {name: variables[theirs] for name, theirs in _INDEX_VARIABLES.items() if variables.get(theirs)}
    return {name: every | (index if name in _INDEX_COMMANDS else {}) for name in COMMANDS}


command = tables_group(table_command_defaults, help=_HELP)
