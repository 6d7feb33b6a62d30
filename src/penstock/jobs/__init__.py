"""Durable jobs: one state machine, one store, layouts (how a job becomes items), and the worker that runs them."""
