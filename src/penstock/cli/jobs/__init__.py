"""`penstock worker`, `jobs` and `schedules`: the work of an app.

worker.py      worker: runs the jobs of an app, in this process or in several
supervisor.py  the processes of --processes and --reload
commands.py    jobs: list, show, watch, explain, cancel, retry and others
copies.py      jobs pull, debug, fork: a job of another database, copied and run here
schedules.py   schedules: tasks by the clock
"""
