"""Decimals on their way from Spark to the workers as the whole numbers behind them.

Spark hands each decimal to Arrow through a Java BigDecimal, which costs more than everything else about it. A long goes
through as it is, and a worker makes the decimals again by whole columns.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark import __version__
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as spark

from spark_writer.spark_types import arrow_schema

#: Digits that fit a long.
_LONG_DIGITS = 18
#: From Spark 4 on, columns and expressions are made of each other by a class of their own.
_FIRST_WITH_BRIDGE = 4


def unscaled(df: DataFrame) -> tuple[DataFrame, pa.Schema | None]:
    """Put the unscaled value in the place of top-level decimals that fit a long.

    The expression is one of Spark's own that has no SQL name; where it cannot be had (Spark Connect, a release that
    moved it) the decimals stay.

    Returns:
        The rows, and the decimal types of the columns that are longs now; None where all is as it was.
    """
    names = [
        field.name
        for field in df.schema.fields
        if isinstance(field.dataType, spark.DecimalType) and field.dataType.precision <= _LONG_DIGITS
    ]
    if not names:
        return df, None
    try:
        session = df.sparkSession
        changed = df.withColumns({name: _unscaled(session, name) for name in names})
        if any(not isinstance(changed.schema[name].dataType, spark.LongType) for name in names):
            return df, None
    except Exception:  # noqa: BLE001 - whatever the session's internals raise, the plain way is there
        return df, None
    whole = arrow_schema(df.schema)
    return changed, pa.schema([whole.field(name) for name in names])


def _unscaled(session: Any, name: str) -> Column:
    column: Any = F.col(_quoted(name))
    wrapped: Any = Column
    catalyst = session._jvm.org.apache.spark.sql  # noqa: SLF001 - Spark has no public way to it
    expression = catalyst.catalyst.expressions.UnscaledValue
    result: Column
    if int(__version__.split(".", 1)[0]) < _FIRST_WITH_BRIDGE:
        result = wrapped(catalyst.Column(expression(column._jc.expr())))  # noqa: SLF001
    else:
        bridge = catalyst.classic.ExpressionUtils
        result = wrapped(bridge.column(expression(bridge.expression(column._jc))))  # noqa: SLF001
    return result


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
