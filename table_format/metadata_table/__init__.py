"""The metadata table: Hudi's own merge-on-read table of file listings and column statistics beside the data."""
