"""From a PDF to a schedule and its evaluation, in the order in which a job does it.

pdf.py         a drawing: the pages of a PDF as text with places, rows and tables
context.py     a document beside the drawing
components.py  the legend, and components counted by their designators
schedule.py    the component schedule as an Excel workbook, and whether it agrees with the drawing
agents.py      who does the thinking of each of these: plug-ins
sample.py      a drawing of a building that there is not
"""
