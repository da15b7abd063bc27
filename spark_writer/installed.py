"""Imported before the rest of this package, which needs PySpark: without it, the error says what to install."""

from table_format.errors import require

require("spark_writer", "spark", "pyspark")
