"""`python -m bench.conformance NAME DIR`: a client library's own tests against our server."""

from __future__ import annotations

import sys

from bench.conformance.client_suites import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
