"""The values of the partition columns, as far as partition paths tell them.

A path tells its values when making the path of those values gives the same path again. Where it does not, as with
timestamp-based key generators, slashes inside values, or text that is no value of the column's type, the partition is
unknown, and every filter keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pushdown.columns import resolve_column
from pushdown.errors import UnknownColumnError
from pushdown.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.arrow_numpy import from_numpy, to_numpy
from table_format.key_text import key_texts
from table_format.partition_values import DEFAULT_PARTITION, escape_path_name, parse_partition_paths
from table_format.table_config import KeyGeneratorType, TableConfig

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_TIMEBASED = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_PATH_IS_VALUE = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX})


@dataclass(frozen=True, eq=False)
class PathValues:
    """Partition columns' values, one row a partition.

    Attributes:
        statistics: by column name, bounds that equal each other where the path tells the value.
        values: by column name, the values themselves; null where they are null or not known.
        known: for each partition, whether its path tells all values.
    """

    statistics: Mapping[str, ColumnStatistics]
    values: Mapping[str, pa.Array[Any]]
    known: np.ndarray[Any, np.dtype[np.bool_]]


def path_values(config: TableConfig, schema: pa.Schema, partitions: Sequence[str]) -> PathValues | CannotPrune:
    """What the paths of some partitions tell of the partition columns.

    Args:
        config: of the table.
        schema: its columns.
        partitions: partition paths, each once.

    Returns:
        The values, or why no path tells any.
    """
    if not config.partition_fields:
        return CannotPrune("the table is not partitioned")
    timebased = any(key.startswith(_TIMEBASED) for key in config.raw)
    if timebased or config.key_generator not in _PATH_IS_VALUE:
        name = "timestamp" if timebased else config.key_generator.name.lower()
        return CannotPrune(f"with the {name} key generator a partition's path is not the value of its column")
    if "record_index" in config.metadata_partitions:
        return CannotPrune("the record index is global: a row may stay in the partition of an older value")
    try:
        columns = [resolve_column(field, schema) for field in config.partition_fields]
    except UnknownColumnError as error:
        return CannotPrune(f"partition columns are not in the schema: {error}")
    untold = [column for column in columns if not _path_tells(column.type)]
    if len(untold) == len(columns):
        return CannotPrune(f"paths do not tell values of type {untold[0].type}")
    return _parse(config, [column.name for column in columns], [column.type for column in columns], partitions)


def _path_tells(kind: pa.DataType) -> bool:
    """Whether equal text means equal value.

    Not so for floating point: a column that was promoted from float to double keeps old paths. Timestamps and binary
    have several texts.
    """
    types = pa.types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_date(kind) or types.is_boolean(kind)) or (
        types.is_decimal(kind)
    )


def _parse(
    config: TableConfig, names: list[str], kinds: list[pa.DataType], partitions: Sequence[str]
) -> PathValues | CannotPrune:
    fields = config.partition_fields
    # A type that paths do not tell is read as text, so that it does not hide the other fields.
    read_as = [kind if _path_tells(kind) else pa.string() for kind in kinds]
    encode = config.url_encode
    table = parse_partition_paths(partitions, fields, read_as, hive_style=config.hive_style, url_encode=encode)
    columns: list[Any] = [table.column(i).combine_chunks() for i in range(len(fields))]
    parsed = to_numpy(table.column(len(fields)).combine_chunks())
    again = _paths_of(config, columns)
    known = parsed & to_numpy(pc.fill_null(pc.equal(again, pa.array(partitions, pa.string())), False))
    known &= np.array([path.count("/") == len(fields) - 1 for path in partitions], np.bool_)
    if not known.any() and len(known):
        return CannotPrune("no partition path has the form that its columns' values give")
    statistics = {
        name: _statistics(column, known, in_file=not config.drop_partition_columns)
        for name, kind, column in zip(names, kinds, columns, strict=True)
        if _path_tells(kind)
    }
    mask = from_numpy(known)
    values = {
        name: pc.if_else(mask, column, pa.scalar(None, column.type))
        for name, column in zip(names, columns, strict=True)
    }
    return PathValues(statistics, values, known)


def _paths_of(config: TableConfig, columns: list[Any]) -> Any:
    """The path that each row of values gives."""
    segments: list[Any] = []
    for field, column in zip(config.partition_fields, columns, strict=True):
        texts = key_texts(column, field)
        if config.url_encode:
            texts = pa.array(
                [text if text is None else escape_path_name(text) for text in texts.to_pylist()], pa.string()
            )
        texts = pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), DEFAULT_PARTITION, texts)
        segments.append(pc.binary_join_element_wise(f"{field}=", texts, "") if config.hive_style else texts)
    return pc.binary_join_element_wise(*segments, "/")


def _statistics(column: Any, known: np.ndarray[Any, np.dtype[np.bool_]], *, in_file: bool) -> ColumnStatistics:
    rows = len(column)
    mask = from_numpy(known)
    null = pa.scalar(None, column.type)
    default = column.is_null()
    nulls = pc.if_else(default, pa.scalar(1, pa.int64()), pa.scalar(0, pa.int64()))
    lower = upper = column
    if in_file and pa.types.is_string(column.type):
        # The default partition holds nulls, empty strings, and the text of its own name.
        lower, upper = pc.if_else(default, "", column), pc.if_else(default, DEFAULT_PARTITION, column)
        nulls = pc.if_else(default, pa.scalar(None, pa.int64()), nulls)
    return ColumnStatistics(
        lower=pc.if_else(mask, lower, null),
        upper=pc.if_else(mask, upper, null),
        null_count=pc.if_else(mask, nulls, pa.scalar(None, pa.int64())),
        row_count=from_numpy(np.ones(rows, np.int64)),
    )
