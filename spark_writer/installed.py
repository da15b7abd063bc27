"""Imported before the rest of this package, which cannot do without PySpark: an import without it says what to do."""

from table_format.errors import require

require("spark_writer", "spark", "pyspark")
