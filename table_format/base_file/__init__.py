"""Base files, the Parquet files of a table: reading, footers and bloom filters."""
