"""Metrics.

instruments.py      counters, gauges and histograms; as Prometheus' text
worker_metrics.py   what a worker counts
queue_metrics.py    how deep the queues of a database are, read at most every ten seconds
otel.py             the same instruments, given to OpenTelemetry where a program has loaded it
http.py             GET /metrics of a worker, on this machine only
"""
