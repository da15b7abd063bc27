"""Trino and Presto: the service for their Thrift connectors, and a connection whose queries are planned here.

Where what is, each list from the outside in:

- the service: `serve`, `service` (a call in, a reply out), `wire` (the contract), `options`, `catalog_file`;
- what there is: `metadata`, `table_names`, `names`, `column_names`, `types`;
- which splits a scan has: `planning`, `batches`, `file_pieces`, `split_id`, `scans`; what its constraint means:
  `packed_ranges`, `filters`, `domains`, `domain_text`; look-ups by keys: `index_splits`, `index_keys`, `leases`;
- the rows of a split: `rows`, `cursors`, `key_rows`, `pages`, `blocks`, `cells`, `values`,
  `json_texts`;
- the connection: `connecting`, `dbapi`.
"""

from catalog.trino.connecting import connect

__all__ = ["connect"]
