"""Conditions of Spark's merges, as texts whose equalities tell which files are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from pushdown.errors import ExpressionError
from spark_writer.filters import conjuncts
from spark_writer.in_place.changed_rows import ON
from table_writer.in_place.expressions import SOURCE, TARGET, Expressions

SPARK: Final = "spark"
_PLAIN: Final = ("EqualTo", "AttributeReference")


def spark_expressions(
    parameters: Mapping[str, Any] | None = None, names: Mapping[str, Sequence[str]] | None = None
) -> Any:
    """Makes expressions of Spark SQL, in whose places Columns may stand; see `Expressions`."""
    return partial(Expressions, parameters=dict(parameters or {}), dialect=SPARK, conditions=(Column,), names=names)


def join_of(on: Any, source: DataFrame, table: pa.Schema) -> tuple[str | Sequence[str], dict[str, Any]]:
    """The condition of a join for `Expressions`, and its parameters: `ON` is a Column that is the condition.

    Args:
        on: names or text, which stay as they are, or a Column.
        source: the rows.
        table: the table's columns.

    Raises:
        ExpressionError: a Column of Spark Connect, or one that Spark does not plan as a join's condition.
        AnalysisException: Spark refuses the Column.
    """
    if not isinstance(on, Column):
        return on, {}
    session = source.sparkSession
    if not hasattr(session, "_jsparkSession"):
        raise ExpressionError("over Spark Connect the condition of a merge is text: its equalities choose the files")
    target = session.createDataFrame([], from_arrow_schema(table)).alias(TARGET)
    joined: Any = target.join(source.alias(SOURCE), on)
    plan = joined._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to the condition
    if plan.getClass().getSimpleName() != "Join" or not plan.condition().isDefined():
        raise ExpressionError("Spark does not plan this Column as a join's condition; give it as text")
    texts = [str(part.sql()) for part in conjuncts(plan.condition().get()) if _is_plain(part)]
    return " AND ".join([*texts, "TRUE"]), {ON: on}


def _is_plain(condition: Any) -> bool:
    """Whether a condition is that two columns are equal."""
    nodes = json.loads(condition.toJSON())
    return all(str(node["class"]).rpartition(".")[2] in _PLAIN for node in nodes)
