"""Definitions in other people's formats.

export.py          live tables written to a folder of files
cloudformation.py  a CloudFormation template
terraform.py       Terraform's `aws_dynamodb_table`, in HCL
"""
