"""`penstock files`: one file a command."""
