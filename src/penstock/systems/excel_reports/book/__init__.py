"""The workbook: what its sheets look like, and the writing of it.

template    the file that describes a report: sheets, columns, order, formats, totals, charts
profile     what is in a column: counted while rows are fetched
values      text as numbers, dates and times
columns     the columns of a sheet: as the template says, else as the profile suggests
row_order   rows in an order, with bounded memory
pictures    pictures, fitted
totals      sums, groups and notes, counted while rows are written
sheet       one sheet, row by row
workbook    the file: all sheets, and the cover with its charts
"""
