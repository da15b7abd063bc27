"""Values of partition columns, parsed from partition paths.

The values parsed from a path are used only if they give the same path when it is built from them. A field that a
timestamp-based key generator writes gives a range of the column. Otherwise, as for text that is not a value of the
column's type, the partition's values are unknown and every filter keeps it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import memoize
from pushdown.columns import resolve_column
from pushdown.errors import UnknownColumnError
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, strings, to_numpy, valid_mask
from table_format.config.table_config import KeyGeneratorType, TableConfig
from table_format.errors import OptionError
from table_format.keys.bucket_index import METADATA_FOLDER
from table_format.keys.key_text import key_texts
from table_format.keys.partition_values import (
    DEFAULT_PARTITION,
    escape_path_names,
    parse_partition_paths,
    unescape_path_name,
)
from table_format.keys.timestamp_keys import TimestampFormat, bounds_of_paths, output_pattern
from table_format.table.client import TableClient

MISPLACED = "Apache's bulk inserts may put rows without meta columns into files of other partitions and buckets"

_Mask = np.ndarray[Any, np.dtype[np.bool_]]
_TIMEBASED = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_SLASH_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
_PLAIN = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX})


@dataclass(frozen=True, eq=False)
class WrittenTimes:
    """A column of times as text, which partition paths hold in another pattern.

    Attributes:
        segments: for each partition, the segment of its path that the column's text gave; None if the path cannot
            be cut into segments.
        form: how a segment is made of the column's text.
    """

    segments: tuple[str | None, ...]
    form: TimestampFormat


@dataclass(frozen=True, eq=False)
class PathValues:
    """Partition columns' values, one row a partition.

    Attributes:
        statistics: by column name, sound bounds, equal where the path gives a value, wider where it gives a range.
        values: by column name, the values themselves, for columns whose paths give values; null where they are null
            or not known.
        known: for each partition, whether its path gives a value or range for each column for which other paths do.
        times: the segments of columns that hold times as text, by column name.
    """

    statistics: Mapping[str, ColumnStatistics]
    values: Mapping[str, pa.Array[Any]]
    known: _Mask
    times: Mapping[str, WrittenTimes] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PartitionPaths:
    """Partition paths of a snapshot; their values are parsed once, and shared by snapshots with the same partitions.

    Attributes:
        config: of the table.
        schema: its columns, without Hudi's meta columns.
        partitions: the paths, each once.
        misplaced: see `misplaces_rows`.
    """

    config: TableConfig
    schema: pa.Schema
    partitions: Sequence[str] | pa.Array[Any]
    misplaced: bool = False

    def values(self) -> PathValues | CannotPrune:
        """The values of the partition columns, or why the paths give none."""
        if self.misplaced:
            return CannotPrune(MISPLACED)
        parse = functools.partial(path_values, self.config, self.schema, self.partitions)
        return memoize(self, "values", parse)


@dataclass(frozen=True)
class _Column:
    """A partition field and its column."""

    field: PathField
    name: str
    kind: pa.DataType


def path_values(
    config: TableConfig, schema: pa.Schema, partitions: Sequence[str] | pa.Array[Any]
) -> PathValues | CannotPrune:
    """Parse the values of the partition columns from partition paths.

    Args:
        config: of the table.
        schema: its columns.
        partitions: partition paths, each once.

    Returns:
        The values, or why paths give none.
    """
    if not config.partition_fields:
        return CannotPrune("the table is not partitioned")
    if "record_index" in config.metadata_partitions and not config.drop_partition_columns:
        return CannotPrune("the record index is global: a row may stay in the partition of an older value")
    fields = path_fields(config)
    if isinstance(fields, CannotPrune):
        return fields
    try:
        resolved = [resolve_column(field.name, schema) for field in fields]
    except UnknownColumnError as error:
        return CannotPrune(f"partition columns are not in the schema: {error}")
    columns = [_Column(field, column.name, column.type) for field, column in zip(fields, resolved, strict=True)]
    timed = [column for column in columns if column.field.timed]
    if not timed:
        return _exact(config, columns, partitions if isinstance(partitions, pa.Array) else strings(partitions))
    paths: Any = partitions.to_pylist() if isinstance(partitions, pa.Array) else partitions
    return _with_times(config, columns, paths)


def misplaces_rows(client: TableClient) -> bool:
    """Whether rows may lie in files of other partitions and buckets than theirs.

    Apache 1.0.2's bulk inserts put them there in tables with consistent hashing and without meta columns.
    """
    config = client.config
    may = not config.populate_meta_fields and not config.drop_partition_columns
    return may and bool(client.storage.list(METADATA_FOLDER))


def _with_times(config: TableConfig, columns: list[_Column], partitions: Sequence[str]) -> PathValues | CannotPrune:
    """Values and ranges from paths some of whose fields are times in a pattern, field by field.

    Where files leave the columns out, a text column has the texts of the paths, as in Spark.
    """
    try:
        segments = split_paths(partitions, [column.field for column in columns], hive_style=config.hive_style)
        statistics: dict[str, ColumnStatistics] = {}
        values: dict[str, pa.Array[Any]] = {}
        times: dict[str, WrittenTimes] = {}
        known = np.ones(len(partitions), np.bool_)
        for column, texts in zip(columns, segments, strict=True):
            if column.field.timed:
                plain = [_unescaped(config, column.field.name, text) for text in texts]
                is_text = pa.types.is_string(column.kind)
                of_form = np.array([not is_text or text is not None for text in plain], np.bool_)
                known &= of_form
                if is_text and config.drop_partition_columns:
                    values[column.name] = _texts_of_paths(plain)
                    statistics[column.name] = _statistics(values[column.name], of_form, in_file=False)
                    continue
                time_format = TimestampFormat.from_options(config.raw)
                if is_text:
                    times[column.name] = WrittenTimes(tuple(plain), time_format)
                bounds = bounds_of_paths(plain, time_format, column.kind)
                if bounds is not None:
                    statistics[column.name] = _ranges(*bounds)
                    known &= valid_mask(bounds[0])
    except OptionError as error:
        return CannotPrune(f"partition paths cannot be parsed by the key generator's settings: {error}")
    exact = _exact_beside_times(config, columns, segments)
    if exact is not None:
        statistics |= exact.statistics
        values |= exact.values
        known &= exact.known
    if not statistics and not times:
        kinds = ", ".join(str(column.kind) for column in columns)
        return CannotPrune(f"the key generator's pattern does not give ranges of {kinds}")
    return PathValues(statistics, values, known, times)


def _exact_beside_times(
    config: TableConfig, columns: list[_Column], segments: list[list[str | None]]
) -> PathValues | None:
    """Values of the fields that are no times in a pattern; None if there are none."""
    exact = [position for position, column in enumerate(columns) if not column.field.timed]
    if not exact:
        return None
    rest = ["/".join(segments[i][row] or "" for i in exact) for row in range(len(segments[0]))]
    values = _exact(config, [columns[i] for i in exact], strings(rest))
    return None if isinstance(values, CannotPrune) else values


def _texts_of_paths(segments: Sequence[str | None]) -> Any:
    """Texts of paths as a column; null for the default partition, and where there is none."""
    texts = strings([text or DEFAULT_PARTITION for text in segments])
    return pc.if_else(pc.equal(texts, DEFAULT_PARTITION), pa.scalar(None, pa.string()), texts)


def _unescaped(config: TableConfig, field: str, segment: str | None) -> str | None:
    if segment is None:
        return None
    text = segment.removeprefix(f"{field}=") if config.hive_style else segment
    return unescape_path_name(text) if config.url_encode else text


def _ranges(lower: pa.Array[Any], upper: pa.Array[Any]) -> ColumnStatistics:
    # Some releases write null as the epoch plus one, so no null count is known.
    unknown = pa.nulls(len(lower), pa.int64())
    return ColumnStatistics(lower=lower, upper=upper, null_count=unknown, row_count=unknown)


def _has_one_text(kind: pa.DataType) -> bool:
    """Whether equal text in paths means an equal value.

    Not so for floating point: a column that was promoted from float to double keeps old paths. Timestamps and binary
    have several texts.
    """
    types = pa.types
    return bool(types.is_integer(kind) or types.is_string(kind) or types.is_date(kind) or types.is_boolean(kind)) or (
        types.is_decimal(kind)
    )


def _exact(config: TableConfig, columns: list[_Column], partitions: Any) -> PathValues | CannotPrune:
    fields = [column.field.name for column in columns]
    unread = [column for column in columns if not _has_one_text(column.kind)]
    if len(unread) == len(columns):
        return CannotPrune(f"partition paths do not give values of type {unread[0].kind}")
    with_dashes = _writes_slashes(columns)
    paths = pc.replace_substring(partitions, "/", "-") if with_dashes else partitions
    # A type whose values paths do not give is read as text, so that the other fields can be parsed.
    read_as = [column.kind if _has_one_text(column.kind) else pa.string() for column in columns]
    table = parse_partition_paths(paths, fields, read_as, hive_style=config.hive_style, url_encode=config.url_encode)
    arrays: list[Any] = [one_chunk(table.column(i)) for i in range(len(fields))]
    parsed = to_numpy(one_chunk(table.column(len(fields))))
    again = _paths_of(config, fields, arrays)
    known = parsed & to_numpy(pc.fill_null(pc.equal(again, paths), False))
    # of texts only, and names of fields, can a part hold a slash
    if any("/" in field for field in fields) or any(pa.types.is_string(kind) for kind in read_as):
        known &= to_numpy(pc.count_substring(paths, "/")) == len(fields) - 1
    if with_dashes:  # a path that still has dashes was not written by this setting
        known &= ~to_numpy(pc.match_substring(partitions, "-"))
    for column, array in zip(columns, arrays, strict=True):
        if column.field.slashes and pa.types.is_string(array.type):  # they may have been dashes, escaped or not
            known &= ~to_numpy(pc.fill_null(pc.match_substring(array, "/"), False))
    statistics = {
        column.name: _statistics(array, known, in_file=not config.drop_partition_columns)
        for column, array in zip(columns, arrays, strict=True)
        if _has_one_text(column.kind)
    }
    unknown = parsed & ~known
    one_text = len(columns) == 1 and pa.types.is_string(columns[0].kind) and not config.url_encode
    slashes = unknown & to_numpy(pc.match_substring(paths, "/")) if one_text and unknown.any() else unknown
    if one_text and slashes.any():
        statistics = {columns[0].name: _with_slashes(statistics[columns[0].name], arrays[0], slashes)}
    elif not known.any() and len(known):
        return CannotPrune("no partition path has the form that its columns' values give")
    mask = from_numpy(known)
    values = {
        column.name: pc.if_else(mask, array, pa.scalar(None, array.type))
        for column, array in zip(columns, arrays, strict=True)
    }
    return PathValues(statistics, values, known)


def _writes_slashes(columns: list[_Column]) -> bool:
    """Whether paths are of one date field whose dashes are written as slashes."""
    return len(columns) == 1 and columns[0].field.slashes and pa.types.is_date(columns[0].kind)


def _with_slashes(statistics: ColumnStatistics, texts: Any, slashes: _Mask) -> ColumnStatistics:
    """Text whose slashes may have been dashes: a setting of newer releases writes `2024-01-02` as `2024/01/02`."""
    mask = from_numpy(slashes)
    return ColumnStatistics(
        lower=pc.if_else(mask, pc.replace_substring(texts, "/", "-"), statistics.lower),
        upper=pc.if_else(mask, texts, statistics.upper),
        null_count=pc.if_else(mask, pa.scalar(0, pa.int64()), statistics.null_count),
        row_count=statistics.row_count,
    )


def _paths_of(config: TableConfig, fields: Sequence[str], columns: list[Any]) -> Any:
    """The path built from each row of values."""
    segments: list[Any] = []
    for name, column in zip(fields, columns, strict=True):
        texts = key_texts(column, name)
        if config.url_encode:
            texts = escape_path_names(texts)
        texts = pc.if_else(pc.equal(pc.fill_null(texts, ""), ""), DEFAULT_PARTITION, texts)
        segments.append(pc.binary_join_element_wise(f"{name}=", texts, "") if config.hive_style else texts)
    return segments[0] if len(segments) == 1 else pc.binary_join_element_wise(*segments, "/")


def _statistics(column: Any, known: _Mask, *, in_file: bool) -> ColumnStatistics:
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


@dataclass(frozen=True)
class PathField:
    """One field of partition paths.

    Attributes:
        name: as `hoodie.table.partition.fields` spells it.
        timed: whether it is written in the timestamp-based key generator's pattern.
        levels: folders that it takes where it is not escaped.
        slashes: whether dashes of its value are written as slashes (a setting of releases from 1.2 on).
    """

    name: str
    timed: bool = False
    levels: int = 1
    slashes: bool = False


def path_fields(config: TableConfig) -> tuple[PathField, ...] | CannotPrune:
    """The fields of a table's partition paths, by its key generator; or why they are not known."""
    generator = config.key_generator
    slashes = config.raw.get(_SLASH_DATES, "").strip().lower() == "true"
    if generator in _PLAIN:
        if any(key.startswith(_TIMEBASED) for key in config.raw):
            return CannotPrune(
                f"the {generator.name.lower()} key generator has settings of the timestamp key generator"
            )
        return tuple(PathField(name, slashes=slashes) for name in config.partition_fields)
    kinds = _kinds(config)
    if isinstance(kinds, CannotPrune):
        return kinds
    if "TIMESTAMP" in kinds:
        return _with_time_formats(config, kinds)
    return tuple(PathField(name, slashes=slashes) for name in config.partition_fields)


def _with_time_formats(config: TableConfig, kinds: list[str]) -> tuple[PathField, ...] | CannotPrune:
    # Where files leave the columns out, texts are those of the paths, whatever they were made of.
    try:
        pattern = output_pattern(config.raw)
        if not config.drop_partition_columns:
            TimestampFormat.from_options(config.raw)
    except OptionError as error:
        return CannotPrune(f"the timestamp key generator's settings are not in hoodie.properties: {error}")
    levels = 1 if config.url_encode else 1 + pattern.count("/")
    return tuple(
        PathField(name, timed=True, levels=levels) if kind == "TIMESTAMP" else PathField(name)
        for name, kind in zip(config.partition_fields, kinds, strict=True)
    )


def _kinds(config: TableConfig) -> list[str] | CannotPrune:
    """`SIMPLE` or `TIMESTAMP` for each partition field."""
    generator = config.key_generator
    if generator is KeyGeneratorType.TIMESTAMP:
        if len(config.partition_fields) != 1:
            return CannotPrune("a timestamp key generator has one partition field")
        return ["TIMESTAMP"]
    if generator is not KeyGeneratorType.CUSTOM:
        return CannotPrune(f"with the {generator.name.lower()} key generator a partition's path is not known")
    entries = [part.strip() for part in config.raw.get("hoodie.table.partition.fields", "").split(",") if part.strip()]
    kinds = [entry.partition(":")[2].upper() for entry in entries]
    stray = [entry for entry, kind in zip(entries, kinds, strict=True) if kind not in ("SIMPLE", "TIMESTAMP")]
    if stray:
        return CannotPrune(f"the custom key generator does not say what partition field {stray[0]} is")
    return kinds


def split_paths(paths: Sequence[str], fields: Sequence[PathField], *, hive_style: bool) -> list[list[str | None]]:
    """The segments of each path, by field; None for all fields of a path that does not fit.

    Args:
        paths: partition paths.
        fields: in the order of the paths.
        hive_style: whether segments begin with `field=`; they keep it.
    """
    rows = [_hive_segments(path, fields) if hive_style else _segments(path, fields) for path in paths]
    return [[None if row is None else row[position] for row in rows] for position in range(len(fields))]


def _segments(path: str, fields: Sequence[PathField]) -> list[str] | None:
    parts = path.split("/")
    if len(parts) != sum(field.levels for field in fields):
        return None
    segments, start = [], 0
    for one in fields:
        segments.append("/".join(parts[start : start + one.levels]))
        start += one.levels
    return segments


def _hive_segments(path: str, fields: Sequence[PathField]) -> list[str] | None:
    pattern = "/".join(f"({re.escape(field.name)}=" + "/".join(["[^/]*"] * field.levels) + ")" for field in fields)
    match = re.fullmatch(pattern, path)
    return None if match is None else list(match.groups())
