"""Jobs by the clock.

cron.py  when a schedule is due next
"""
