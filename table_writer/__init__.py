"""Writing Hudi tables, on any executor: keys, merging, base files, indexes, the commit protocol."""
