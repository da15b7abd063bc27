"""PySpark writer for Apache Hudi tables, with no Hudi jar."""

from spark_writer.option_registry import REGISTRY, Option
from spark_writer.summary import WriteSummary
from spark_writer.table import HudiTable
from spark_writer.write_hudi import write_hudi

__all__ = ["REGISTRY", "HudiTable", "Option", "WriteSummary", "write_hudi"]
