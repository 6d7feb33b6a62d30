"""Drawings with known truth, and how well they are read: `python -m bench.drawings`.

sheet.py     a page that text, lines and circles are drawn on, as PDF bytes or as a scan of them
plan.py      rooms, walls and doors of a floor, and the things of a drawing that are no devices
tuned.py     six styles that the reader was made with
held_out.py  four styles that were drawn before the reader was read or written; nobody tunes on them
score.py     recall and precision against the truth
"""
