"""Scanned pages, in the order in which they are read:

scanned_page    a page's picture to texts and outlines: tiles, a second look, skew
outlined_text   texts in outlines that the first look has overlooked
outlines        what is drawn around a text
"""
