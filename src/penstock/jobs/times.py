"""Times as jobs store them."""

from penstock.clock import utc_seconds as from_text
from penstock.clock import utc_text as to_text

__all__ = ["from_text", "to_text"]
