"""Other people's suites against our server. They are fetched by whoever runs them; nothing of them is kept here.

public_suite.py    the public conformance suite: `python -m bench conformance --suite DIR`
client_suites.py   the tests of client libraries: `python -m bench.conformance NAME DIR`; explains known failures
"""

from __future__ import annotations

from bench.conformance.public_suite import run

__all__ = ["run"]
