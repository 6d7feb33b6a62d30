"""From a PDF to a schedule and its evaluation, in the order in which a job does it.

pdf.py            a PDF: what is refused, and its pages
pdfium.py         PDFium's reading of it, from a process of its own
pdfium_child.py   that process
scans/            pages that are pictures: text recognition
page.py           a page: runs of text with places, outlines, rows and tables
context.py        a document beside the drawing
marks.py          what on a page looks like the tag of a device or a door
legend.py         what codes mean
components.py     components: marks and rows of schedules, with their meanings
schedule.py       the component schedule as an Excel workbook, and whether it agrees with the components
drawing_check.py  whether the schedule agrees with the drawing
agents.py         who does the thinking of each of these: plug-ins
sample.py         a drawing of a building that there is not
"""
