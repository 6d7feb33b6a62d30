"""Vectors in memory, and the nearest of them.

matrix.py    the vectors of one index as rows of numbers: NumPy's where it is installed, Python's own otherwise
cache.py     one matrix for each index that is searched, kept in step with the file
nearest.py   exact scores, and the order of answers

The rows in the file are `engine/items/vector_rows.py`'s.
"""
