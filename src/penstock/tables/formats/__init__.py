"""Definitions in other people's formats.

import_tables.py   live tables read into definitions, and what of them is not managed
python_source.py   definitions as a Python module
export.py          live tables written to a folder of files
cloudformation.py  a CloudFormation template
terraform.py       Terraform's `aws_dynamodb_table`, in HCL
"""
