"""Base files: the Parquet files of a table, with Hudi's keys in their footers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.bloom import (
    BloomFilter,
    dynamic_bloom,
    filter_size,
    fitting_size,
    parse_bloom,
    simple_bloom,
)
from table_format.base_file.options import BaseFileOptions
from table_format.codecs.arrow_numpy import DISORDERED_BYTE, has_bytes_from, pc
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.errors import CorruptFileError, StorageError
from table_format.meta_columns import RECORD_KEY
from table_format.schema.evolution import conform
from table_format.storage import Storage, stream_errors

parquet: Any = pq
AVRO_SCHEMA = "parquet.avro.schema"
MODEL_NAME = "writer.model.name"
BLOOM = "org.apache.hudi.bloomfilter"
BLOOM_TYPE = "hoodie_bloom_filter_type_code"
MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"
_OLD_BLOOM = "com.uber.hoodie.bloomfilter"


@dataclass(frozen=True, slots=True)
class BaseFileResult:
    """What was written.

    Attributes:
        size: bytes of the file.
        row_count: its rows.
        metadata: its Parquet footer.
    """

    size: int
    row_count: int
    metadata: pq.FileMetaData


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """What the footer of a base file tells.

    Attributes:
        schema: columns as the file has them, meta columns included.
        key_values: the footer's texts.
        metadata: the Parquet footer itself.
        size: bytes of the file.
        path: the file, for messages.
    """

    schema: pa.Schema
    key_values: Mapping[str, str]
    metadata: pq.FileMetaData
    size: int
    path: str

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return self.metadata.num_rows

    @property
    def min_key(self) -> str | None:
        """The first record key in Java's string order, where the writer left it."""
        return self.key_values.get(MIN_KEY)

    @property
    def max_key(self) -> str | None:
        """The last record key in Java's string order, where the writer left it."""
        return self.key_values.get(MAX_KEY)

    @property
    def bloom(self) -> BloomFilter | None:
        """The bloom filter of record keys, where the writer left one."""
        text = self.key_values.get(BLOOM) or self.key_values.get(_OLD_BLOOM)
        return parse_bloom(text, self.key_values.get(BLOOM_TYPE), self.path) if text else None


def write_base_file(
    storage: Storage,
    path: str,
    table: pa.Table,
    avro_schema_json: str,
    options: Mapping[str, str] | None = None,
    *,
    footer_texts: Mapping[str, str] | None = None,
) -> BaseFileResult:
    """Write a base file.

    Lists have three levels (`list`/`element`), decimals are fixed-length byte arrays, timestamps microseconds: the
    forms that Apache Hudi's readers take. All columns of a nullable Avro type are optional.

    Args:
        storage: the table's.
        path: of the new file; what stands there is replaced.
        table: rows with meta columns (unless the table has none), sorted by record key to make the file small and its
            row groups prunable. Dictionary columns are written as their values, faster than those.
        avro_schema_json: the Avro schema with meta fields; columns are brought to it.
        options: write options, see `BaseFileOptions`.
        footer_texts: further keys for the footer, such as the Spark version that tells Spark's readers the calendar.
    """
    settings = BaseFileOptions.of(options or {})
    table = as_schema(table, avro_to_arrow(avro_schema_json))
    texts = {**(footer_texts or {}), AVRO_SCHEMA: avro_schema_json, MODEL_NAME: "avro"}
    if RECORD_KEY in table.column_names:
        texts |= _key_texts(table.column(RECORD_KEY), settings)
    table = table.replace_schema_metadata(None)
    collected: list[pq.FileMetaData] = []
    with stream_errors(path), storage.open_output(path) as stream:
        writer = parquet.ParquetWriter(
            stream, table.schema, metadata_collector=collected, store_schema=False, **settings.writer_arguments(table)
        )
        with writer:
            if len(table):
                writer.write_table(table, row_group_size=settings.rows_per_group(table))
            writer.add_key_value_metadata(texts)
        size = stream.tell()
    return BaseFileResult(size, len(table), collected[0])


def read_base_file(
    storage: Storage,
    path: str,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    dictionary_columns: Sequence[str] = (),
    *,
    choose: Callable[[BaseFileFooter], Sequence[int]] | None = None,
) -> pa.Table:
    """The rows of a base file, in the file's order.

    Args:
        storage: the table's.
        path: the file.
        columns: names to read, in this order; all when None. With `schema` given they are names of it.
        schema: the table's columns, to which the file's are brought: older files may lack columns, or hold narrower
            types; any list layout is read. Columns that are not in it are left out.
        dictionary_columns: string columns of few values that come back as dictionary arrays.
        choose: tells by the footer of a file with several row groups which of them to read; all when None.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off or damaged.
        MissingFileError: there is no such file.
        SchemaError: a column cannot be brought to the schema's type.
    """
    if schema is not None and columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    wanted = schema.names if schema is not None else columns
    with storage.open_input(path) as stream, named_corruption(path, stream):
        file = parquet.ParquetFile(
            stream, read_dictionary=list(dictionary_columns), coerce_int96_timestamp_unit="us", pre_buffer=True
        )
        present = file.schema_arrow.names
        names = None if wanted is None else [name for name in wanted if name in present]
        groups: Sequence[int] = range(file.num_row_groups)
        if choose is not None and len(groups) > 1:
            groups = choose(footer_of(file, path, stream.size()))
        if schema is not None and not names:
            return only_nulls(schema, sum(file.metadata.row_group(group).num_rows for group in groups))
        table = file.read_row_groups(list(groups), columns=names)
    table = table.replace_schema_metadata(None)
    if schema is None:
        result: pa.Table = table if names is None else table.select(names)
        return result
    return as_schema(table, schema)


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


def key_range(keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> tuple[str, str] | None:
    """The least and greatest key in Java's string order (UTF-16 code units); None when there are no keys."""
    whole: Any = _in_one_piece(pa.chunked_array([keys]) if isinstance(keys, pa.Array) else keys)
    if whole.null_count:
        whole = whole.drop_null()
    if len(whole) == 0:
        return None
    # Surrogates sort below U+E000 in UTF-16, above it in UTF-8; only such keys need the slow comparison.
    if not has_bytes_from(whole, DISORDERED_BYTE):
        if pc.all(pc.less_equal(whole.slice(0, len(whole) - 1), whole.slice(1))).as_py():
            return whole[0].as_py(), whole[-1].as_py()
        bounds = pc.min_max(whole).as_py()
        return bounds["min"], bounds["max"]
    keys = whole
    units = {text.encode("utf-16-be", "surrogatepass"): text for text in keys.to_pylist() if text is not None}
    return units[min(units)], units[max(units)]


def _key_texts(keys: pa.ChunkedArray[Any], settings: BaseFileOptions) -> dict[str, str]:
    texts = {}
    bounds = key_range(keys)
    if bounds is not None:
        texts[MIN_KEY], texts[MAX_KEY] = bounds
    if settings.bloom_enabled:
        bloom = bloom_of(keys, settings)
        texts[BLOOM] = bloom.to_text()
        if bloom.records_per_vector:
            texts[BLOOM_TYPE] = bloom.type_code
    return texts


def bloom_of(column: pa.ChunkedArray[Any], settings: BaseFileOptions) -> BloomFilter:
    """The bloom filter of a file's record keys that the options ask for."""
    keys = _in_one_piece(column)
    if settings.bloom_entries is None:
        return simple_bloom(keys, *fitting_size(len(keys), settings.bloom_false_positives, settings.bloom_most_bits))
    bits, hashes = filter_size(settings.bloom_entries, settings.bloom_false_positives)
    if settings.bloom_dynamic:
        return dynamic_bloom(keys, bits, hashes, settings.bloom_entries, settings.bloom_dynamic_most)
    return simple_bloom(keys, bits, hashes)


def _in_one_piece(column: Any) -> pa.Array[Any]:
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    result: pa.Array[Any] = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    return result


def as_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the schema's columns; dictionary columns of the right values stay as they are."""
    if table.schema.equals(schema):
        return table
    kept = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        position = schema.get_field_index(name)
        if position >= 0 and isinstance(column.type, pa.DictionaryType):
            field: Any = schema.field(position)
            if field.type == column.type.value_type:
                kept[position] = (pa.field(name, column.type, nullable=field.nullable), column)
    plain = [field for position, field in enumerate(schema) if position not in kept]
    result = conform(table, pa.schema([field.remove_metadata() for field in plain]))
    for position in sorted(kept):
        result = result.add_column(position, *kept[position])
    return result


def only_nulls(schema: pa.Schema, rows: int) -> pa.Table:
    """So many rows of a file that holds none of the columns."""
    nulls: Any = pa.nulls  # its stubs take one type at a time
    return pa.Table.from_arrays([nulls(rows, field.type) for field in schema], schema=schema)


@contextlib.contextmanager
def named_corruption(path: str, stream: Any) -> Iterator[None]:
    """Errors of reading become those of this product, which name the file."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, StorageError):
            raise
        if isinstance(error, OSError) and (error.errno or "AWS Error" in str(error)):
            raise StorageError(f"{path}: {error}") from error
        # Readers find the end of a Parquet file first; most damage shows there.
        offset = max(0, stream.size() - 8)
        raise CorruptFileError(path, offset, f"not a whole Parquet file: {error}") from error
