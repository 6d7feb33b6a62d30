"""Where a report's rows come from.

source          what a source is, and which one a text such as `data/` or `table:Products` names
made_up         a project that is generated: the same one for the same name
places          a folder or a file, a URL, a DynamoDB table, a Python function
file_formats    CSV and JSON as rows
download        one GET, with its limits
errors          what can go wrong, by what to do next
"""
