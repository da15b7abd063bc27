"""Creates, writes, plans and reads Apache Hudi tables, without a Hudi jar.

`create_table` and `open_table` return a `Table`, and `Catalog` has the tables under a folder. `HudiTable` is a table
bound to a Spark session, `connect` replaces Trino's. Names are imported on first use: only `HudiTable` needs PySpark.
"""

from typing import TYPE_CHECKING

import hudi_catalog.packages  # noqa: F401  # first of all
from table_format.errors import (
    AfterCommitError,
    ArgumentError,
    ConflictError,
    CorruptFileError,
    HudiError,
    LockError,
    MissingFileError,
    MissingPackageError,
    NoSpaceError,
    OptionError,
    OptionWarning,
    PendingWriteError,
    RecordError,
    RecordIndexError,
    SchemaError,
    ServiceError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TransactionError,
    UndoneWriteError,
    UnsupportedTableError,
    UnusablePathError,
)
from table_format.lazy import lazy_names

if TYPE_CHECKING:
    from catalog.planner import Plan
    from catalog.scan import Scan
    from hudi_catalog.joins import Join, join
    from hudi_catalog.spark_sql import sql
    from hudi_catalog.spark_table import HudiTable
    from hudi_catalog.table import Catalog, Table, create_table, open_table
    from hudi_catalog.trino.connecting import connect
    from pushdown import col
    from pushdown.errors import ExpressionError
    from spark_writer.read.explain import explain_scan
    from spark_writer.read.names import register
    from spark_writer.read.shuffle_free import without_shuffle
    from spark_writer.write_hudi import write
    from table_writer.summary import WriteSummary

__version__: str
__all__ = [
    "AfterCommitError",
    "ArgumentError",
    "Catalog",
    "ConflictError",
    "CorruptFileError",
    "ExpressionError",
    "HudiError",
    "HudiTable",
    "Join",
    "LockError",
    "MissingFileError",
    "MissingPackageError",
    "NoSpaceError",
    "OptionError",
    "OptionWarning",
    "PendingWriteError",
    "Plan",
    "RecordError",
    "RecordIndexError",
    "Scan",
    "SchemaError",
    "ServiceError",
    "StorageError",
    "Table",
    "TableExistsError",
    "TableNotFoundError",
    "TransactionError",
    "UndoneWriteError",
    "UnsupportedTableError",
    "UnusablePathError",
    "WriteSummary",
    "__version__",
    "col",
    "connect",
    "create_table",
    "explain_scan",
    "join",
    "open_table",
    "register",
    "sql",
    "without_shuffle",
    "write",
]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "catalog.planner": ("Plan",),
        "catalog.scan": ("Scan",),
        "hudi_catalog.joins": ("Join", "join"),
        "hudi_catalog.spark_sql": ("sql",),
        "hudi_catalog.spark_table": ("HudiTable",),
        "hudi_catalog.table": ("Catalog", "Table", "create_table", "open_table"),
        "hudi_catalog.trino.connecting": ("connect",),
        "pushdown": ("col",),
        "pushdown.errors": ("ExpressionError",),
        "spark_writer.read.explain": ("explain_scan",),
        "spark_writer.read.names": ("register",),
        "spark_writer.read.shuffle_free": ("without_shuffle",),
        "spark_writer.write_hudi": ("write",),
        "table_writer.summary": ("WriteSummary",),
    },
)
