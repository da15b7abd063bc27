"""Sources of rows to write: Arrow-like data and files."""
