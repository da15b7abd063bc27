"""PySpark writer for Apache Hudi tables, with no Hudi jar; `HudiTable` is in `hudi_catalog`."""

from typing import TYPE_CHECKING

import spark_writer.installed  # noqa: F401  # first of all
from spark_writer.write_hudi import write_hudi
from table_format.errors import OptionWarning
from table_format.lazy import lazy_names
from table_writer.plan.option import Option
from table_writer.plan.option_registry import REGISTRY
from table_writer.summary import WriteSummary

if TYPE_CHECKING:
    from hudi_catalog.spark_table import HudiTable

__all__ = ["REGISTRY", "HudiTable", "Option", "OptionWarning", "WriteSummary", "write_hudi"]
__getattr__, __dir__ = lazy_names(__name__, {"hudi_catalog.spark_table": ("HudiTable",)})
