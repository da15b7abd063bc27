"""PySpark writer for Apache Hudi tables, with no Hudi jar."""

import spark_writer.installed  # noqa: F401  # first of all
from spark_writer.table import HudiTable
from spark_writer.write_hudi import write_hudi
from table_format.errors import OptionWarning
from table_writer.plan.option import Option
from table_writer.plan.option_registry import REGISTRY
from table_writer.summary import WriteSummary

__all__ = ["REGISTRY", "HudiTable", "Option", "OptionWarning", "WriteSummary", "write_hudi"]
