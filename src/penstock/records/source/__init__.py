"""Which records are to be worked on.

selection.py   what is pending, and what says that it is done, as DynamoDB's expressions
done_marks.py  the marks of a record that is done
feeder.py      reads them, page after page
"""
