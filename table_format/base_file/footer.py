"""Footers of base files: schema, Hudi's key-value texts, and bounds of a column where the metadata table has none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from table_format.base_file.bloom import BloomFilter, parse_bloom
from table_format.errors import CorruptFileError, StorageError
from table_format.meta_columns import RECORD_KEY
from table_format.storage import Storage, storage_errors

parquet: Any = pq  # the stubs lag behind the functions
AVRO_SCHEMA = "parquet.avro.schema"
MODEL_NAME = "writer.model.name"
BLOOM = "org.apache.hudi.bloomfilter"
BLOOM_TYPE = "hoodie_bloom_filter_type_code"
MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"
_OLD_BLOOM = "com.uber.hoodie.bloomfilter"


@dataclass(frozen=True)
class BaseFileFooter:
    """Footer of a base file.

    Attributes:
        schema: the file's columns, meta columns included.
        key_values: the footer's key-value metadata.
        metadata: the Parquet footer itself.
        size: bytes of the file.
        path: the file, for messages.
    """

    schema: pa.Schema
    key_values: Mapping[str, str]
    metadata: pq.FileMetaData
    size: int
    path: str

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.schema.names)

    @cached_property
    def leaf_ordinals(self) -> Mapping[str, int]:
        """The ordinal of each leaf column by its path; the first of two with one path."""
        leaves = self.metadata.schema
        return {leaves.column(ordinal).path: ordinal for ordinal in reversed(range(len(leaves)))}

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return self.metadata.num_rows

    @property
    def min_key(self) -> str | None:
        """Least record key in Java's string order, if the writer recorded it."""
        return self.key_values.get(MIN_KEY)

    @property
    def max_key(self) -> str | None:
        """Greatest record key in Java's string order, if the writer recorded it."""
        return self.key_values.get(MAX_KEY)

    @property
    def bloom(self) -> BloomFilter | None:
        """Bloom filter of the record keys, if the writer added one of all keys.

        A writer that notes no least and greatest key may not have told the filter of any.
        """
        text = self.key_values.get(BLOOM) or self.key_values.get(_OLD_BLOOM)
        is_of_all_keys = {MIN_KEY, MAX_KEY} <= self.key_values.keys() and RECORD_KEY in self.names
        return parse_bloom(text, self.key_values.get(BLOOM_TYPE), self.path) if text and is_of_all_keys else None


def footer(storage: Storage, path: str) -> BaseFileFooter:
    """The footer of a base file, without its data.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off.
        MissingFileError: there is no such file.
    """
    with storage.open_input(path) as stream, named_corruption(path, stream):
        return footer_of(parquet.ParquetFile(stream), path, stream.size())


def footer_of(file: Any, path: str, size: int) -> BaseFileFooter:
    """The footer of an open `pyarrow.parquet.ParquetFile`."""
    texts = {key.decode(): value.decode("utf-8", "replace") for key, value in (file.metadata.metadata or {}).items()}
    return BaseFileFooter(file.schema_arrow.remove_metadata(), texts, file.metadata, size, path)


@contextlib.contextmanager
def named_corruption(path: str, stream: Any) -> Iterator[None]:
    """Convert read errors of pyarrow and the storage into ours, which name the file."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, StorageError):
            raise
        if isinstance(error, OSError) and (error.errno or "AWS Error" in str(error)):
            with storage_errors(path):
                raise
        # Readers find the end of a Parquet file first; most damage shows there.
        offset = max(0, stream.size() - 8)
        raise CorruptFileError(path, offset, f"not a whole Parquet file: {error}") from error


types = pa.types
_EXACT = Context(prec=80)
_FOUR_DIGITS = range(-719_528, 2_932_897)
"""The days from 0000-01-01 to 9999-12-31, by their number since 1970."""


@dataclass(frozen=True, slots=True)
class FooterStatistics:
    """Trustworthy statistics of a column in a Parquet footer.

    Attributes:
        lower: lower bound, an Arrow scalar of the column's type; None if unknown or if there are no values.
        upper: upper bound; None likewise.
        null_count: number of nulls; None if unknown. Equal to `row_count` when there are no values.
        row_count: rows of the file, or of the row groups asked for.
    """

    lower: Any
    upper: Any
    null_count: int | None
    row_count: int


def footer_statistics(
    footer: BaseFileFooter, column: str, kind: pa.DataType, row_groups: Sequence[int] | None = None
) -> FooterStatistics:
    """The statistics of one column of a base file, or of some row groups of it.

    Bounds of floating-point columns are not used: writers leave NaN out of them, or write 0 .. 0 in its place.

    Args:
        footer: see `base_file.footer`.
        column: name of a top-level column. A file that lacks it counts as holding nulls only.
        kind: the column's type in the table, to which the file's narrower one is brought.
        row_groups: their ordinals; None for all.
    """
    groups = range(footer.metadata.num_row_groups) if row_groups is None else row_groups
    rows = sum(footer.metadata.row_group(group).num_rows for group in groups)
    unknown = FooterStatistics(None, None, None, rows)
    if column not in footer.names:
        other_case = any(name.lower() == column.lower() for name in footer.names)
        return unknown if other_case else FooterStatistics(None, None, rows, rows)  # some readers ignore the case
    if types.is_nested(footer.schema.field(column).type):
        return unknown
    chunks = _chunks(footer, column, groups)
    if chunks is None:
        return unknown
    counts = [chunk.statistics.null_count if chunk.statistics.has_null_count else None for chunk in chunks]
    nulls = None if None in counts else sum(count or 0 for count in counts)
    if nulls == rows:
        return FooterStatistics(None, None, nulls, rows)
    bounds = _bounds(chunks, counts, footer.schema.field(column).type, kind)
    return FooterStatistics(*bounds, nulls, rows)


def _chunks(footer: BaseFileFooter, column: str, groups: Sequence[int]) -> list[Any] | None:
    """The column's chunks, one per row group with rows; None when one has no statistics."""
    index = footer.leaf_ordinals.get(column)
    result = []
    for group in groups:
        row_group = footer.metadata.row_group(group)
        if row_group.num_rows == 0:
            continue
        chunk = None if index is None else row_group.column(index)
        if chunk is None or not chunk.is_stats_set or chunk.statistics is None:
            return None
        result.append(chunk)
    return result


def _bounds(chunks: list[Any], counts: list[int | None], stored: pa.DataType, kind: pa.DataType) -> tuple[Any, Any]:
    if types.is_floating(stored) or types.is_floating(kind):
        return None, None
    as_integers = types.is_integer(stored) and types.is_integer(kind)
    if (types.is_integer(stored) or types.is_decimal(stored)) and not (as_integers or types.is_decimal(kind)):
        return None, None  # numbers that are read as text have another order
    stored_bounds: list[Any] = []
    for chunk, nulls in zip(chunks, counts, strict=True):
        if nulls == chunk.num_values:
            continue
        if not chunk.statistics.has_min_max:
            return None, None
        stored_bounds += _stored_bounds(chunk.statistics, stored)
    bounds = None if None in stored_bounds else _converted(stored_bounds, stored, kind)
    if not bounds:
        return None, None
    extremes = pc.min_max(bounds)
    return extremes["min"], extremes["max"]


def _stored_bounds(statistics: Any, stored: pa.DataType) -> tuple[Any, Any]:
    """Stored bounds of a column chunk; None for a missing bound.

    Dates and timestamps as numbers, since Python has no dates beyond the year 9999; decimals as unscaled numbers,
    since pyarrow before 20 does not read decimals stored as integers.
    """
    if types.is_date(stored) or types.is_timestamp(stored) or isinstance(stored, pa.Decimal128Type):
        return statistics.min_raw, statistics.max_raw
    try:
        least, greatest = statistics.min, statistics.max
    except UnicodeDecodeError:
        return None, None  # not in UTF-8, or cut within a character
    # pyarrow before 20 gives an empty text where a chunk has one of the two bounds only.
    return least, (None if greatest in ("", b"") else greatest)


def _converted(values: list[Any], stored: pa.DataType, kind: pa.DataType) -> Any:
    """A footer's bounds as an array of the table's type; None if one cannot be converted exactly."""
    if isinstance(stored, pa.Decimal128Type):
        numbers = [int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value for value in values]
        values = [Decimal(number).scaleb(-stored.scale, _EXACT) for number in numbers]
    try:
        if types.is_date(stored):
            if types.is_string(kind) and not all(day in _FOUR_DIGITS for day in values):
                return None  # texts of other years have another order than their dates
            return pa.array(values, pa.int32()).cast(stored).cast(kind)
        if types.is_timestamp(stored):
            return pa.array(values, pa.int64()).cast(stored).cast(kind)
        if types.is_binary(kind):
            values = [value.encode() if isinstance(value, str) else value for value in values]
        return pa.array(values).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        return None
