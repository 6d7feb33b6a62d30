"""Definitions in other people's formats.

export_file.py     a definition as a file, in DescribeTable's shape
export.py          live tables written to a folder of them
cloudformation.py  a CloudFormation template
terraform.py       Terraform's `aws_dynamodb_table`
hcl.py             as much of HCL as tables need
"""
