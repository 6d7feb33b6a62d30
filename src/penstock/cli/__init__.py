"""The command line: one module a command group, on a small kit. Each command parses, calls and prints."""
