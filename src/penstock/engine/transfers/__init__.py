"""Exports of tables to S3, and imports from it: long work that is a record in the file, done by a thread of its own.

records.py         the record of an export or import: begun, held by a process, continued, ended
buckets.py         what the engine asks of buckets; `penstock.files.buckets` has a folder's and S3's
item_images.py     a table's items as they were at a time, and what changed between two times
export_files.py    the data files and manifests of an export, in DynamoDB's layout
export_run.py      one export, a data file a step
object_records.py  the records of an object: decompressed, and cut into lines, rows or values
import_run.py      one import: objects into a new table, a batch a step
runner.py          the thread: it finds what is to be done, and continues what a killed process left
"""
