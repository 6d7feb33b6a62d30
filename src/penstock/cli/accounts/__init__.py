"""`penstock accounts`: one file a command."""
