"""Measurements of Penstock beside its peers: `python -m bench --help`."""
