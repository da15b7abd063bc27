"""Apache Hudi tables: read, planned, written and served."""
