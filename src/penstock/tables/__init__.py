"""Tables as code.

definitions/   a table as it should be, and what is wrong with it
plan/          live tables beside definitions: the differences, their cost, how they are shown
apply/         a plan carried out
formats/       exports, CloudFormation, Terraform
data/          items dumped, loaded, compared, backed up
indexes.py     one index at a time, after a look at real items
rekey/         another primary key, with the data
doctor.py      known mistakes
iam_policy.py  the least IAM policy for some commands
"""
