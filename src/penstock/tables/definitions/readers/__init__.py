"""Definitions in files of other tools, read as tables.

documents.py       a file's JSON or YAML as plain values, with limits
cloudformation.py  AWS::DynamoDB::Table and GlobalTable of a template, with its functions resolved
template_members.py the members that a table may have there
terraform_json.py  what `terraform show -json` prints, of a plan or of a state
definition_file.py which of these a file is, and its tables
"""
