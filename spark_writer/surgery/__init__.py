"""Row-group surgery (RFC-68): new versions of Parquet files out of copied bytes and the few parts that changed.

Where what is:
- `merge_file`: an upsert or delete on a base file: locates rows, chooses what to touch, splices
- `opened`: a base file that is open for it: footer, row groups on demand
- `locate`: row groups that may hold some keys, by the footer
- `key_pages`: keys of a row group page by page, by the column index
- `changes`: columns in which updated rows differ from what they were
- `inserts`: where new rows go
- `group_edits`: new columns and rows of touched row groups
- `policy`: its options, and when a whole rewrite is better
- `splice`: writes the new version of a file, given what changes
- `encode`: rows as column chunks that fit into a file
- `footer`: the Parquet footer, what stands where in it
- `offset_index`: offset indexes of chunks that stand elsewhere now
- `compact`: Thrift's compact protocol, fields unknown here included
- `source`: bytes from file to file
- `statistics`: column statistics of the new file by its footer
- `key_texts`: Hudi's bloom filter, first and last key of the new file
- `refusal`: when a file is not spliced
"""
