"""A table as it should be.

definition.py   Table, Index and Naming (prefix, environment, suffix)
problems.py     what is wrong with a definition
aws_shapes.py   a definition as AWS's JSON, and back
export_file.py  a definition as a file, in DescribeTable's shape
readers/        definitions in files of other tools: CloudFormation, Terraform
own_tables.py   the names of the tables in which Penstock keeps its own state
sources.py      where a command's DEFINITIONS come from: a module, a folder, a file, a system
"""
