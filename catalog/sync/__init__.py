"""Hudi tables in the metastores of other engines.

Where what is, each list from the outside in:

- registering tables: `commands`, `trino_target`, `hudi_connector`, `changes`, `options`;
- registered tables as the gateway reads and pins them: `trino_tables`, `newest`, `pins`;
- what an entry says: `entries`, `hive_types`, `stored_types`;
- its list of files: `file_lists`, `manifests`, `locations`;
- metastores: `metastore`, `open_metastore`, `file_metastore`, `thrift_metastore`.
"""
