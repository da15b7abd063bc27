"""Hudi tables in the metastores of other engines.

Where what is, each list from the outside in:

- registering tables: `commands`, `changes`, `owners`, `options`;
- for Hive and Spark: `hive_target`, `hive_names`, `hive_entries`, `spark_properties`;
- partitions there: `partition_sync`, `partition_record`, `extractors`;
- for Trino: `trino_target`, `hudi_connector`;
- after each commit of the writer: `after_commit`, `writer_options`;
- registered tables as the gateway reads and pins them: `trino_tables`, `newest`, `pins`;
- what an entry says: `entries`, `hive_types`, `stored_types`, `stored_names`,
  `reading_rules`;
- its list of files: `file_lists`, `manifests`, `locations`;
- metastores: `metastore`, `open_metastore`, `file_metastore`;
- a Hive Metastore: `thrift_metastore`, `thrift_entries`, `thrift_connections`, `thrift_connecting`, `sasl_client`,
  `metastore_options`.
"""
