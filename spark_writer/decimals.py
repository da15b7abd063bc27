"""Decimals on their way from Spark to the workers as the whole numbers behind them.

Spark hands each decimal to Arrow through a Java BigDecimal, which costs more than everything else about it. A long goes
through as it is, and a worker makes the decimals again by whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import __version__
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as spark

from spark_writer.spark_types import arrow_schema
from table_format.codecs.arrow_numpy import to_numpy

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


def restored_batches(batches: Iterable[pa.RecordBatch], decimals: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Put decimals in the place of longs; see `restored`."""
    for batch in batches:
        yield from restored(pa.Table.from_batches([batch]), decimals).to_batches()


def restored(table: pa.Table, decimals: pa.Schema) -> pa.Table:
    """Put decimals in the place of longs.

    Args:
        table: rows.
        decimals: the columns that are unscaled longs, with their decimal types.
    """
    for name, kind in zip(decimals.names, decimals.types, strict=True):
        index = table.schema.get_field_index(name)
        chunks: Any = [_decimals(chunk, kind) for chunk in table.column(index).chunks]
        column: Any = pa.chunked_array(chunks)
        table = table.set_column(index, pa.field(name, kind), column)
    return table


def _decimals(numbers: Any, kind: pa.DataType) -> Any:
    values = np.empty((len(numbers), 2), np.int64)
    whole = numbers.fill_null(0) if numbers.null_count else numbers
    values[:, 0] = to_numpy(whole)
    # the upper half repeats the sign
    np.right_shift(values[:, 0], 63, out=values[:, 1])
    buffer: Any = values
    validity = None
    if numbers.null_count:
        mask = np.packbits(to_numpy(numbers.is_valid()), bitorder="little")
        validity = pa.py_buffer(mask.tobytes())
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(buffer)], numbers.null_count)
