"""The examples of the system, each a function that says what it does: `penstock accounts example NAME`."""
