"""A Hive Metastore as a local process, for trying things with nothing else installed.

Where what is, from the outside in:

- the command `hudi-catalog metastore`: `commands`;
- the process: `server`, `hive_classes`;
- what it needs: `java`, `pyspark_jars`.
"""
