"""`penstock accounts`: records of accounts, processed in parallel."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.accounts"

# name → (file, what `penstock accounts --help` says of it)
COMMANDS = {
    "add": (f"{_HERE}.add", "Add records, by options or from a JSON file."),
    "create-tables": (f"{_HERE}.create_tables", "Make the tables Users and Records where they are missing."),
    "delete": (f"{_HERE}.delete", "Delete a record."),
    "env-example": (f"{_HERE}.env_example", "Print a .env with the defaults."),
    "example": (f"{_HERE}.example", "Run one of the examples: user, record, processor or complete."),
    "failures": (f"{_HERE}.failures", "List records that failed for good, grouped by their error."),
    "list": (f"{_HERE}.listing", "List records: unprocessed, processed, or of an account."),
    "mark": (f"{_HERE}.mark", "Mark a record as processed."),
    "process": (f"{_HERE}.process", "Run a function on every unprocessed record, in parallel."),
    "redrive": (f"{_HERE}.redrive", "Make records that failed for good unprocessed again."),
    "show": (f"{_HERE}.show", "Show a record."),
    "user": (f"{_HERE}.user", "Add a user, or show one."),
}


@click.group("accounts", cls=Group, lazy=COMMANDS)
def command() -> None:
    """Records of accounts, processed in parallel, and users.

    \b
    Examples:
      penstock serve &                                  # a local DynamoDB on port 8000
      penstock accounts create-tables
      penstock accounts add --account ACC12345 --run-time 2026-02-17T12:00:00Z --set DocumentId=DOC67890
      penstock accounts process mywork:handle --workers 5

    Where the tables are is said by --url, by the environment or by .env: DYNAMODB_ENDPOINT (http://localhost:8000),
    AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, USER_TABLE (Users) and RECORD_TABLE (Records).

    Exit codes: 0 done, 1 failed, 2 called wrongly or not confirmed, 3 some records failed, 4 not found, 130
    interrupted.
    """
