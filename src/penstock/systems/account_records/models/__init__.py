"""The two models: users and records."""
