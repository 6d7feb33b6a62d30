"""`penstock security`: one file a command."""
