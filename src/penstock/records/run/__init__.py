"""One run over a source.

run.py            the feeder, the workers and the watcher, started and ended
run_context.py    what its threads share
schedule.py       what is to be done next
workers.py        workers that claim and mark by themselves
group_writer.py   one who claims and marks for all, in one commit
lease_watcher.py  renews leases; gives up functions that hang
outcomes.py       what becomes of each record
report.py         the run in numbers and words
run_records.py    what is stored of a run
"""
