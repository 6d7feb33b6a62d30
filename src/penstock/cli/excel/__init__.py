"""`penstock excel`: a file a command."""
