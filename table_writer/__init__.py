"""Writing Hudi tables, whoever runs it: keys, merging, base files, indexes, the commit protocol."""
