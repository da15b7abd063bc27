"""Sync of Hudi tables to metastores: entries for Hive, Spark and Trino, and clients of the metastores."""
