"""Base files, the Parquet files of a table: reading, writing, footers and bloom filters."""
