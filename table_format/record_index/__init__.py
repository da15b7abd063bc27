"""The record-level index (RFC-8): in which file group each record key lies.

On disk it is the metadata table's partition `record_index`. Where what is:

- `layout`: the file groups, and which of them can hold a key; `hashes`: the functions that spread keys over them
- `index`: opening the index of a table and asking it; `shard`: look-ups in one file group;
  `choice`: whether they read all of an HFile
- `file_options`: codec of its HFiles, and what stands in them beside entries
- `entries`: the Avro bytes of entries
- `commit`: a commit's changes go into the index; `log_file`: what it writes into one file group
- `key_conflicts`: keys that two writers put at the same time
- `growth`: how many file groups; `founding`: making them; `publish`: putting a built index to use
- `resize`: spreading an index over more file groups
- `compaction`: a file group's base file and logs become one base file
- `deltas`: what one task of a write does to the index, in a file
- `key_source`: the keys of data files; `runs`: keys of many of them by file group of the index; `key_order`: sorting
- `build`: the base files of an index out of the data, restartable; `group_file`: one of them
- `bootstrap`: building the index of a table with data, beside its writers
- `verify`: does the index say what the data says; `compare`: one file group of it
- `locations`: the columns in which locations are handed about
"""
