"""Values in the types of a table's columns, computed by Spark; one that its type does not hold is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import AtomicType, DataType, NullType

from spark_writer.read.generations import converted, is_converted
from spark_writer.spark_types import nested_names
from table_format.errors import RecordError, SchemaError, did_you_mean
from table_format.meta_columns import META_COLUMNS
from table_format.schema.evolution import refuse_unknown_fields

_UNHELD: Final = "hudi-catalog: "
#: What Spark 4 adds to a message.
_SQL_STATE: Final = re.compile(r"\.? SQLSTATE: \w+$")
#: The name of a value whose column has a place.
PLACE: Final = "_hudi_catalog_value_{}"


def bare(name: str) -> Column:
    """A column by its bare name, which may have dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def held(name: str, value_type: DataType, wanted: DataType, column: str) -> Column:
    """A value in its column's type; a row whose value the type does not hold is an error, as nulls are not written."""
    if value_type.simpleString() == wanted.simpleString():
        return bare(name)
    if isinstance(wanted, AtomicType) and isinstance(value_type, (AtomicType, NullType)):
        kind = wanted.simpleString()
        reason = f"{_UNHELD}column {column} is {kind}, which does not hold the value ".replace("'", "")
        return F.expr(
            f"CASE WHEN {name} IS NOT NULL AND try_cast({name} AS {kind}) IS NULL THEN raise_error(concat('{reason}', "
            f"CAST({name} AS STRING))) ELSE try_cast({name} AS {kind}) END"
        )
    refuse_unknown_fields(column, nested_names(value_type), nested_names(wanted))
    if not is_converted(value_type, wanted):
        raise SchemaError(
            f"column {column!r} is {wanted.simpleString()}, and its new value is {value_type.simpleString()}"
        )
    return converted(bare(name), value_type, wanted)


@contextmanager
def values_held() -> Iterator[None]:
    """Raise what `held` refused while Spark computed rows as an error of ours."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        _, marker, reason = str(error).partition(_UNHELD)
        if not marker:
            raise
        raise RecordError(_SQL_STATE.sub("", reason.splitlines()[0]).removesuffix("'")) from None


def inserted_rows(
    rows: DataFrame,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    partition: Mapping[str, str],
    *,
    by_name: bool = False,
) -> DataFrame:
    """The rows with the table's columns, in its types; columns without values are null.

    Columns of the rows that have the names of Hudi's meta columns are left out, so that the rows of another table can
    be inserted. A value that its column's type does not hold is an error when the rows are computed, inside
    `values_held`.

    Args:
        rows: of a query.
        schema: the table's columns.
        columns: those of the table that the rows' columns are, in this order; None for all of them.
        partition: texts of constants, by column; the rows lack these columns.
        by_name: the rows' columns are those of the same names, and others of the table may be missing.

    Raises:
        SchemaError: an unknown column, or another number of columns.
        AnalysisException: Spark refuses a constant.
    """
    places = [place for place, name in enumerate(rows.columns) if name not in META_COLUMNS]
    constants = {_table_column(schema, name): text for name, text in partition.items()}
    if by_name:
        wanted = [_table_column(schema, rows.columns[place]) for place in places]
    else:
        wanted = [_table_column(schema, name) for name in columns or schema.names]
        wanted = [name for name in wanted if columns is not None or name not in constants]
    repeated = [name for place, name in enumerate(wanted) if name in wanted[:place] or name in constants]
    if repeated:
        raise SchemaError(f"column {repeated[0]!r} is given twice")
    if len(wanted) != len(places):
        raise SchemaError(f"the rows have {len(places)} columns, and {len(wanted)} are written: {', '.join(wanted)}")
    plain = rows.toDF(*(PLACE.format(place) for place in range(len(rows.columns))))
    for number, text in enumerate(constants.values(), len(rows.columns)):
        plain = plain.withColumn(PLACE.format(number), F.expr(text))
    values = dict(zip(wanted, places, strict=True))
    values |= {name: number for number, name in enumerate(constants, len(rows.columns))}
    kinds = {field.name: field.dataType for field in from_arrow_schema(schema).fields}
    plain_types = [field.dataType for field in plain.schema.fields]
    return plain.select(
        *(
            held(PLACE.format(values[name]), plain_types[values[name]], kind, name).alias(name)
            if name in values
            else F.lit(None).cast(kind).alias(name)
            for name, kind in kinds.items()
        )
    )


def _table_column(schema: pa.Schema, name: str) -> str:
    alike = [name] if name in schema.names else [one for one in schema.names if one.casefold() == name.casefold()]
    if len(alike) != 1:
        hint = did_you_mean(name, schema.names)
        raise SchemaError(f"the table has no column {name!r}{hint}; columns are {schema.names}")
    return alike[0]
