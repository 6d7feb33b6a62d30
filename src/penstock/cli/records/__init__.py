"""`penstock records`: one file a command."""
