"""What all command groups share.

exit_codes.py   the codes that commands end with, and the error that carries one
output.py       text that is safe for a terminal, JSON, progress lines
logs.py         the log: lines, or lines of JSON
grid.py         rows in columns that fit a terminal
options.py      --db, --json, --yes, --dry-run and others; the question before a change
groups.py       commands and groups: sections, lazy imports, "did you mean", errors as text or JSON
databases.py    opens the target of --db
completion.py   what a shell completes: tables, jobs, definitions

A group is one module. It has its group as `command`, makes its commands with `@command.command(…)` and raises errors;
the kit shows them. Modules of the kit import no other room at their top, except `databases` and `completion`.
"""
