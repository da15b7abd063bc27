"""The metadata table: Hudi's merge-on-read table of file listings, column statistics, bloom filters, record index."""
