"""Column statistics of files, row groups, slices and partitions."""
