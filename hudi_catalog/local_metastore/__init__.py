"""A Hive Metastore as a local process, for trying things with nothing else installed."""
