"""`penstock tables`: one file a command; `group` lists them, `options` has what they share."""
