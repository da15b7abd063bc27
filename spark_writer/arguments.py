"""What the calls of the writer take for a session and for rows, and what to do with something else."""

from __future__ import annotations

from typing import Any, Final

from pyspark import __version__

from table_format.errors import ArgumentError

# PySpark takes Arrow tables since 4.0.
_FROM_ARROW: Final = "spark.createDataFrame({})" if int(__version__.split(".", 1)[0]) >= 4 else ""
_REMEDIES: Final = {
    "pyspark.pandas.frame.DataFrame": "rows.to_spark()",
    "pandas.DataFrame": "spark.createDataFrame(rows)",
    "pyarrow.Table": _FROM_ARROW.format("rows") or "spark.createDataFrame(rows.to_pandas())",
    "pyarrow.RecordBatch": "spark.createDataFrame(rows.to_pandas())",
    "pyarrow.RecordBatchReader": "spark.createDataFrame(rows.read_pandas())",
    "polars.DataFrame": _FROM_ARROW.format("rows.to_arrow()") or "spark.createDataFrame(rows.to_pandas())",
    "polars.LazyFrame": "spark.createDataFrame(rows.collect().to_pandas())",
    "pyspark.RDD": "spark.createDataFrame(rows, schema)",
    "list": "spark.createDataFrame(rows, schema)",
    "tuple": "spark.createDataFrame(rows, schema)",
    "dict": "spark.createDataFrame([rows])",
    "str": "spark.read.parquet(rows), or another reader for the files",
}


def is_frame(rows: object) -> bool:
    """Whether something is a DataFrame of Spark's, classic or of Spark Connect."""
    return hasattr(rows, "mapInArrow") and hasattr(rows, "sparkSession")


def is_condition(rows: object) -> bool:
    """Whether something chooses rows of a table: SQL text, or a Column of Spark's, classic or of Spark Connect."""
    return isinstance(rows, str) or (type(rows).__name__ == "Column" and type(rows).__module__.startswith("pyspark."))


def check_frame(rows: object, call: str) -> None:
    """Refuse rows that are no DataFrame of Spark's.

    Args:
        rows: what the user gave.
        call: to which function, for the message.

    Raises:
        ArgumentError: they are something else; the message says how they become a DataFrame.
    """
    if is_frame(rows):
        return
    name = _name(rows)
    remedy = _REMEDIES.get(name, "a DataFrame, such as that of spark.createDataFrame(…)")
    raise ArgumentError(f"{call} takes a Spark DataFrame, and this is a {name}: give {remedy}")


def check_session(session: Any, call: str) -> None:
    """Refuse what is no Spark session, such as a path in its place.

    Raises:
        ArgumentError: it is none.
    """
    if not (hasattr(session, "createDataFrame") and hasattr(session, "conf")):
        raise ArgumentError(f"{call} takes a Spark session first, and this is a {_name(session)}: give spark, then it")


def _name(value: object) -> str:
    """The name of a value's class, as users import it."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if package == "builtins":
        return kind.__qualname__
    if kind.__module__.startswith("pyspark.pandas"):
        return f"{kind.__module__}.{kind.__qualname__}"
    return f"{package}.{kind.__qualname__}"
