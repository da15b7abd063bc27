"""PySpark writer for Apache Hudi tables, with no Hudi jar."""
