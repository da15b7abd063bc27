"""Hive 4.0.1 as local processes: a metastore and a HiveServer2 on Tez's local mode, from the jars of Maven Central.

- `jars`: fetches the 325 jars of `artifacts.txt`, keeps them in the user's cache folder, compiles the test hook.
- `server`: starts and stops the two processes, configured by the files of `docker/hive/conf`.
- `__main__`: `make hive`.
"""
