"""Row-group surgery (RFC-68): new versions of Parquet files out of copied bytes and the few parts that changed."""
