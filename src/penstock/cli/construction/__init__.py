"""`penstock construction`: one file a command."""
