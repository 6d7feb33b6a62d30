"""`penstock jobs` and `penstock worker`."""
