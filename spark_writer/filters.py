"""Spark's filters, as SQL text or as a Column, into `HudiExpression`.

A Column is analysed by Spark itself against the table's schema, so that names, types and implicit casts are Spark's;
the data source's ``pushFilters`` is not used, since it loses rows.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown import ExpressionError, HudiExpression, Predicate, Unknown, parse_sql
from pushdown.temporal import zone_of
from pushdown.walk import fold, rebuilt


def from_spark_sql(text: str) -> HudiExpression:
    """Read a condition of Spark SQL, as after WHERE; see `pushdown.parse_sql`."""
    return parse_sql(text, "spark")


def from_spark_column(column: Column, table: DataFrame | StructType) -> HudiExpression:
    """Translate a Column that selects rows, such as ``F.col("a") > 3``.

    Bind the filter with the session's time zone: clock times in it are of that zone.

    Args:
        column: the condition; of a classic session, not of Spark Connect.
        table: the table's schema, or a DataFrame that has it.

    Raises:
        ExpressionError: the Column is of Spark Connect, or there is no classic session.
        AnalysisException: Spark refuses the condition.
    """
    schema = table if isinstance(table, StructType) else table.schema
    session = SparkSession.getActiveSession()
    if session is None or not hasattr(column, "_jc") or not hasattr(session, "_jsparkSession"):
        raise ExpressionError("a Column can be translated in a classic Spark session only; give the filter as SQL text")
    selected: Any = session.createDataFrame([], schema).where(column)
    plan = selected._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to the condition
    if plan.getClass().getSimpleName() != "Filter":
        return Unknown("Spark does not plan this Column as one filter")
    zone = session.conf.get("spark.sql.session.timeZone") or "UTC"
    return _without_ambiguous_times(parse_sql(plan.condition().sql(), "spark"), zone)


def _without_ambiguous_times(expression: HudiExpression, time_zone: str) -> HudiExpression:
    """Spark's text shows instants on the session's clock, where two may look alike."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, Predicate) and any(is_ambiguous(value, time_zone) for value in node.values):
            return Unknown(f"{node.column} is compared with a time that the clock in {time_zone} shows twice")
        return rebuilt(node, children) if children else node

    return fold(expression, visit)


def is_ambiguous(value: object, time_zone: str) -> bool:
    """Whether a value is a time without a zone that clocks in the zone show twice, or never."""
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        return False
    zone = zone_of(time_zone)
    return value.replace(tzinfo=zone, fold=0).utcoffset() != value.replace(tzinfo=zone, fold=1).utcoffset()
