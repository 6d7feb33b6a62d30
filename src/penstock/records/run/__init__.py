"""One run over a source.

run.py          the feeder, the workers and the renewal of leases, started and ended
schedule.py     what is to be done next, and what is left to other processors
run_context.py  what its threads share: the records in hand, and what becomes of each
workers.py      workers that claim and mark by themselves, or a group writer that does it for all
report.py       the run in numbers and words
"""
