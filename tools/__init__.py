"""Tools for those who work on Penstock. Each is a command: `python -m tools.NAME --help`."""
