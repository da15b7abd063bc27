"""DataFrames that only scan Parquet files, recognised by Spark's plans: the files, their parts, and the columns.

The parts are those that Spark planned for its own tasks, so that the rows keep their tasks and their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as spark

from spark_writer.session import CRYPTO_FACTORY, hadoop_setting

_CATALYST: Final = "org.apache.spark.sql.catalyst"
_EXECUTION: Final = "org.apache.spark.sql.execution"
_PROJECT: Final = f"{_CATALYST}.plans.logical.Project"
_ALIAS: Final = f"{_CATALYST}.expressions.Alias"
_ATTRIBUTE: Final = f"{_CATALYST}.expressions.AttributeReference"
_LOGICAL_SCAN: Final = f"{_EXECUTION}.datasources.LogicalRelation"
_SCAN: Final = f"{_EXECUTION}.FileSourceScanExec"
# Plan nodes over a scan that do not change its rows.
_OVER_SCAN: Final = (
    f"{_EXECUTION}.WholeStageCodegenExec",
    f"{_EXECUTION}.InputAdapter",
    f"{_EXECUTION}.ColumnarToRowExec",
    f"{_EXECUTION}.ProjectExec",
)
# Exact classes: those of table formats are subclasses, and read less than the files hold.
_RELATION: Final = f"{_EXECUTION}.datasources.HadoopFsRelation"
_FORMAT: Final = f"{_EXECUTION}.datasources.parquet.ParquetFileFormat"
_LOCATION: Final = f"{_EXECUTION}.datasources.InMemoryFileIndex"
# These choose files, which are in the plan, or calendars, which are checked in the files.
_HARMLESS: Final = frozenset(
    {
        "path",
        "paths",
        "basepath",
        "mergeschema",
        "pathglobfilter",
        "recursivefilelookup",
        "modifiedbefore",
        "modifiedafter",
        "datetimerebasemode",
        "int96rebasemode",
        "ignorecorruptfiles",
        "ignoremissingfiles",
    }
)
_LENIENT: Final = ("ignoreCorruptFiles", "ignoreMissingFiles")
_FIELD_IDS: Final = "spark.sql.parquet.fieldId.read.enabled"
# Listing and checking this many in the driver takes some seconds.
_MOST_FILES: Final = 4096


class CannotScan(Exception):  # noqa: N818  # a reason, not an error: Spark then reads the rows
    """The reason why Spark has to read a DataFrame's rows."""


@dataclass(frozen=True)
class FileRange:
    """A byte range of a file: a task reads the row groups whose middle is in it, as Spark's tasks do.

    Attributes:
        path: of the file, on the local file system.
        start: first byte.
        length: in bytes.
        size: of the file, in bytes, when Spark listed it.
        mtime_ms: its modification time then, milliseconds since the epoch.
    """

    path: str
    start: int
    length: int
    size: int
    mtime_ms: int


@dataclass(frozen=True)
class ScannedColumn:
    """A column of a DataFrame that is an unchanged column of files.

    Attributes:
        name: in the DataFrame.
        stored: name of the files' top-level column.
        kind: its type, in both.
    """

    name: str
    stored: str
    kind: spark.DataType


@dataclass(frozen=True)
class BareScan:
    """A DataFrame whose rows are those of Parquet files.

    Attributes:
        columns: of the DataFrame.
        parts: the part of each of Spark's tasks, in order.
    """

    columns: tuple[ScannedColumn, ...]
    parts: tuple[tuple[FileRange, ...], ...]


def bare_scan(df: DataFrame) -> BareScan:
    """Recognise a DataFrame that is only a scan.

    Raises:
        CannotScan: it is more than a scan of local Parquet files, or this is unknown, as over Spark Connect.
    """
    try:
        execution: Any = df._jdf.queryExecution()  # noqa: SLF001 - PySpark has no other way
        columns = _columns(df, execution.optimizedPlan())
        scan = _scan(execution.executedPlan())
        _refuse_settings(df, scan.relation().options())
        return BareScan(columns, tuple(_parts(scan)))
    except (PySparkException, Py4JError, AttributeError, TypeError) as error:
        # over Spark Connect, in releases that moved something, and where Spark itself cannot plan the rows
        raise CannotScan(f"Spark's plan cannot be read: {error}") from error


def _columns(df: DataFrame, plan: Any) -> tuple[ScannedColumn, ...]:
    """The columns of a DataFrame, and their columns in the files."""
    relation, projected = plan, None
    if class_name(plan) == _PROJECT:
        relation, projected = plan.child(), list(items(plan.projectList()))
    if class_name(relation) != _LOGICAL_SCAN or relation.isStreaming():
        raise CannotScan(f"the plan has {class_name(relation)}")
    stored = {attribute.exprId().id(): str(attribute.name()) for attribute in items(relation.output())}
    places = list(stored) if projected is None else [_place(expression) for expression in projected]
    fields = df.schema.fields
    if len(places) != len(fields) or not stored.keys() >= set(places):
        raise CannotScan("the plan has other columns than the DataFrame")
    return tuple(
        ScannedColumn(field.name, stored[place], field.dataType) for field, place in zip(fields, places, strict=True)
    )


def _place(expression: Any) -> int:
    """The index of the scan's attribute that an expression refers to."""
    if class_name(expression) == _ALIAS:
        expression = expression.child()
    if class_name(expression) != _ATTRIBUTE:
        raise CannotScan(f"a column is computed: {expression.toString()}")
    return int(expression.exprId().id())


def _scan(node: Any) -> Any:
    """The scan of a physical plan without other nodes."""
    while (name := class_name(node)) in _OVER_SCAN:
        node = node.child()
    if name != _SCAN:
        raise CannotScan(f"Spark executes the plan by {name}")
    relation = node.relation()
    classes = (class_name(relation), class_name(relation.fileFormat()), class_name(relation.location()))
    if classes != (_RELATION, _FORMAT, _LOCATION):
        raise CannotScan(f"the files are read by {', '.join(classes)}")
    if node.dataFilters().size() or node.partitionFilters().size():
        raise CannotScan("rows are filtered")
    if relation.partitionSchema().size() or relation.bucketSpec().isDefined():
        raise CannotScan("folders hold columns or buckets")
    return node


def _refuse_settings(df: DataFrame, options: Any) -> None:
    """Refuse settings of the session and options of the scan that change how files are read."""
    session = df.sparkSession
    scan_options = {str(name).lower(): str(value) for name, value in _pairs(options)}
    unknown = scan_options.keys() - _HARMLESS
    if unknown:
        raise CannotScan(f"the scan has the option {min(unknown)!r}")
    for name in _LENIENT:
        chosen = scan_options.get(name.lower()) or session.conf.get(f"spark.sql.files.{name}", "false") or ""
        if chosen.lower() != "false":
            raise CannotScan(f"{name} is set")
    if session.conf.get(_FIELD_IDS, "false") != "false":
        raise CannotScan("columns are found by field ids")
    if hadoop_setting(session, CRYPTO_FACTORY) is not None:
        raise CannotScan("files may be encrypted")


def _parts(scan: Any) -> Iterator[tuple[FileRange, ...]]:
    """The part that each task of a scan reads."""
    files = 0
    for part in items(scan.inputRDD().filePartitions()):
        ranges = [_range(file) for file in part.files()]
        files += len(ranges)
        if files > _MOST_FILES:
            raise CannotScan(f"there are more than {_MOST_FILES} files")
        yield tuple(ranges)


def _range(file: Any) -> FileRange:
    uri = urlsplit(str(file.urlEncodedPath()))
    if uri.scheme != "file" or uri.netloc:
        raise CannotScan(f"a file is of {uri.scheme or 'no scheme'}")
    return FileRange(
        unquote(uri.path), int(file.start()), int(file.length()), int(file.fileSize()), int(file.modificationTime())
    )


def class_name(node: Any) -> str:
    """The class of an object of the JVM."""
    return str(node.getClass().getName())


def items(sequence: Any) -> Iterator[Any]:
    """The items of one of Scala's sequences."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _pairs(options: Any) -> Iterator[tuple[Any, Any]]:
    """The entries of one of Scala's maps."""
    entries = options.toSeq()
    return ((entry._1(), entry._2()) for entry in items(entries))  # noqa: SLF001 - a tuple's fields
