"""The record index in Spark: look-ups and tagging on DataFrames, building and checking it.

Where what is:
- `frames`: look-ups and insertions on DataFrames
- `write`: a write by the record index, from options to files
- `job`: its Spark jobs
- `rows`: first pass: keyed blocks of rows, and what the driver learns of them
- `tagging`: what becomes of each row, by where the index has its key
- `moves`: whether a record may move to another partition
- `stages`: what tasks do between the first pass and the writing
- `placement`: files for new rows
- `unshuffled`: bulk inserts whose rows are written where they are
- `targets`: the files that change and the tasks that write them
- `files`: current files, and how large files become
- `bootstrap`: building the index of a table with data, and comparing it with the data
- `replaced`: keys of file groups that leave the table
"""
