"""The tables of a construction-expenses application, and its failed webhooks."""
