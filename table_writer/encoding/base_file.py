"""Base files: Parquet with Hudi's footer keys, encoded as Apache Hudi's option keys say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from table_format.base_file.bloom import (
    BloomFilter,
    FittingBloom,
    dynamic_bloom,
    filter_size,
    fitting_size,
    simple_bloom,
)
from table_format.base_file.footer import (
    AVRO_SCHEMA,
    BLOOM,
    BLOOM_TYPE,
    MAX_KEY,
    MIN_KEY,
    MODEL_NAME,
    BaseFileFooter,
    parquet,
)
from table_format.base_file.reader import as_schema
from table_format.codecs.arrow_numpy import DISORDERED_BYTE, from_numpy, has_bytes_from, one_chunk
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.config.option_values import flag, fraction, whole_number
from table_format.errors import CorruptFileError, OptionError
from table_format.meta_columns import COMMIT_SEQNO, RECORD_KEY
from table_format.storage import Storage, stream_errors
from table_writer.encoding.float_chunks import FloatChunks
from table_writer.encoding.row_order import WrittenOrder

_CODECS = {
    "ZSTD": "zstd",
    "GZIP": "gzip",
    "SNAPPY": "snappy",
    "UNCOMPRESSED": "none",
    "NONE": "none",
    "BROTLI": "brotli",
}

# pyarrow's own level 9 costs five times as much for one per cent less.
_GZIP_LEVEL = 6
_MOST_ZSTD_LEVEL = 22
_SAMPLE = 8192
_DISTINCT_SHARE = 0.5
_UNIQUE_COLUMNS = (COMMIT_SEQNO, RECORD_KEY)
# Values that are handed to the encoder together. Statistics of a dictionary column take the values in use of each such
# batch, so that Arrow's own 1024 cost a tenth of the encoding; a page may be larger than its bound by one batch.
_BATCH = 4096
_LEAST_BATCH = 1024
_MOST_SMALL = 128  # entries of a dictionary whose indices are signed bytes


@dataclass(frozen=True, slots=True)
class BaseFileOptions:
    """How base files are encoded.

    Attributes:
        codec: `hoodie.parquet.compression.codec`; zstd unless set.
        zstd_level: `hoodie.catalog.write.zstd.level`. Level 3 makes files 3 per cent smaller than level 1 (TPC-H's
            lineitem), and writes cost a tenth more.
        block_size: `hoodie.parquet.block.size`: bytes of a row group before compression. The default of 16 MiB is
            far below Apache's 120 MB: files are sorted by record key, so that small groups prune well.
        page_size: `hoodie.parquet.page.size`, bytes.
        dictionary_enabled: `hoodie.parquet.dictionary.enabled`.
        bloom_enabled: `hoodie.parquet.bloom.filter.enabled`.
        bloom_entries: `hoodie.index.bloom.num_entries`; None sizes the filter to the file, at most to
            `bloom_most_bits`.
        bloom_false_positives: `hoodie.index.bloom.fpp`; 0.01 for filters sized to their file, else Apache's default.
        bloom_dynamic: `hoodie.bloom.index.filter.type` is DYNAMIC_V0; only with `bloom_entries` set.
        bloom_dynamic_most: `hoodie.bloom.index.filter.dynamic.max.entries`.
        bloom_most_bits: upper bound on the size of filters that are sized to their file.
    """

    codec: str = "zstd"
    zstd_level: int = 1
    block_size: int = 16 << 20
    page_size: int = 1 << 20
    dictionary_enabled: bool = True
    bloom_enabled: bool = True
    bloom_entries: int | None = None
    bloom_false_positives: float = 0.01
    bloom_dynamic: bool = False
    bloom_dynamic_most: int = 100_000
    bloom_most_bits: int = 1 << 20

    @classmethod
    def of(cls, options: Mapping[str, str]) -> BaseFileOptions:
        """Read the settings from write options.

        Raises:
            OptionError: a value that cannot be used.
        """
        codec = options.get("hoodie.parquet.compression.codec", "zstd").upper()
        if codec not in _CODECS:
            raise OptionError(f"hoodie.parquet.compression.codec={codec!r}: use one of {', '.join(_CODECS)}")
        level = whole_number(options, "hoodie.catalog.write.zstd.level", 1, 1)
        if level > _MOST_ZSTD_LEVEL:
            raise OptionError(f"hoodie.catalog.write.zstd.level={level}: the highest level is {_MOST_ZSTD_LEVEL}")
        entries = whole_number(options, "hoodie.index.bloom.num_entries", None, 1)
        return cls(
            codec=_CODECS[codec],
            zstd_level=level,
            block_size=whole_number(options, "hoodie.parquet.block.size", 16 << 20, 1),
            page_size=whole_number(options, "hoodie.parquet.page.size", 1 << 20, 1),
            dictionary_enabled=flag(options, "hoodie.parquet.dictionary.enabled", default=True),
            bloom_enabled=flag(options, "hoodie.parquet.bloom.filter.enabled", default=True),
            bloom_entries=entries,
            bloom_false_positives=_share(options, "hoodie.index.bloom.fpp", 0.01 if entries is None else 1e-9),
            bloom_dynamic=options.get("hoodie.bloom.index.filter.type", "DYNAMIC_V0").upper().startswith("DYNAMIC"),
            bloom_dynamic_most=whole_number(options, "hoodie.bloom.index.filter.dynamic.max.entries", 100_000, 1),
        )

    def writer_arguments(self, table: pa.Table) -> dict[str, Any]:
        """Arguments of `pyarrow.parquet.ParquetWriter` for these rows.

        A column with few distinct values in a sample is dictionary-encoded. Sorted keys share prefixes
        (DELTA_BYTE_ARRAY). Other strings are plain: DELTA_LENGTH_BYTE_ARRAY would save another 4 per cent, but Spark
        3.5's vectorised reader fails on it ("Failed to read … bytes"). So are sequence numbers: as DELTA_BYTE_ARRAY
        they take a fifth of the bytes, a per cent of the file, and a third longer to write.
        """
        dictionary, encodings = [], {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if self.dictionary_enabled and _has_few_values(column, name):
                dictionary.extend(_leaf_paths(name, column.type))
            elif name == RECORD_KEY and pa.types.is_string(column.type):
                encodings[name] = "DELTA_BYTE_ARRAY"
        return {
            "compression": self.codec,
            "compression_level": {"zstd": self.zstd_level, "gzip": _GZIP_LEVEL}.get(self.codec),
            "data_page_size": self.page_size,
            "write_batch_size": self._batch_size(table),
            "use_dictionary": dictionary or False,
            "column_encoding": encodings or None,
            "use_compliant_nested_type": True,
            "write_page_index": True,
            "write_statistics": True,
        }

    def _batch_size(self, table: pa.Table) -> int:
        """Rows that are encoded at a time: no more than a page holds of the widest column."""
        widest = max((column.nbytes for column in table.columns), default=0)
        rows = self.page_size * len(table) // max(1, widest)
        return max(_LEAST_BATCH, min(_BATCH, rows))

    def rows_per_group(self, table: pa.Table) -> int:
        """Rows of a row group for rows of this width."""
        width = max(1, table.nbytes // max(1, len(table)))
        return max(1024, self.block_size // width)


def _has_few_values(column: pa.ChunkedArray[Any], name: str) -> bool:
    if isinstance(column.type, pa.DictionaryType) or pa.types.is_nested(column.type):
        return True
    if name in _UNIQUE_COLUMNS or pa.types.is_boolean(column.type):
        return False
    step = max(1, len(column) // _SAMPLE)
    sample = column if step == 1 else pc.take(column, from_numpy(np.arange(0, len(column), step)))
    # `count_distinct` takes twice as long
    distinct = len(pc.unique(sample)) - bool(sample.null_count)
    return distinct <= _DISTINCT_SHARE * len(sample)


def with_small_indices(table: pa.Table) -> pa.Table:
    """The same rows, indices of small dictionaries in bytes, which the Parquet writer takes faster."""
    columns = [_narrowed(column) if pa.types.is_dictionary(column.type) else column for column in table.columns]
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _narrowed(column: Any) -> Any:
    kind: Any = pa.dictionary(pa.int8(), column.type.value_type)
    if any(len(chunk.dictionary) > _MOST_SMALL for chunk in column.chunks):
        return column
    pairs = [(pc.cast(chunk.indices, pa.int8()), chunk.dictionary) for chunk in column.chunks]
    return pa.chunked_array([pa.DictionaryArray.from_arrays(*pair) for pair in pairs], kind)


def _leaf_paths(name: str, kind: pa.DataType) -> list[str]:
    """Dotted Parquet paths of a column's leaves."""
    if isinstance(kind, pa.StructType):
        members = [kind.field(index) for index in range(kind.num_fields)]
        return [path for member in members for path in _leaf_paths(f"{name}.{member.name}", member.type)]
    if isinstance(kind, pa.MapType):
        return [f"{name}.key_value.key", *_leaf_paths(f"{name}.key_value.value", kind.item_type)]
    if isinstance(kind, pa.ListType):
        return _leaf_paths(f"{name}.list.element", kind.value_type)
    return [] if pa.types.is_boolean(kind) else [name]


def _share(options: Mapping[str, str], key: str, default: float) -> float:
    share = fraction(options, key, default)
    if share in (0, 1):
        raise OptionError(f"{key}={options[key]!r}: give a number between 0 and 1")
    return share


@dataclass(frozen=True, slots=True)
class BaseFileResult:
    """A base file as it was written.

    Attributes:
        size: bytes of the file.
        row_count: its rows.
        metadata: its Parquet footer.
    """

    size: int
    row_count: int
    metadata: pq.FileMetaData


def write_base_file(
    storage: Storage,
    path: str,
    table: pa.Table,
    avro_schema_json: str,
    options: Mapping[str, str] | None = None,
    *,
    footer_texts: Mapping[str, str] | None = None,
    key_texts: Mapping[str, str] | None = None,
) -> BaseFileResult:
    """Write a base file.

    Lists have three levels (`list`/`element`), decimals are fixed-length byte arrays, timestamps are microseconds:
    the encodings that Apache Hudi's readers accept. A column whose Avro type is nullable is optional.

    Args:
        storage: the table's.
        path: of the new file; an existing file is replaced.
        table: rows with meta columns (unless the table has none), sorted by record key to make the file small and its
            row groups prunable. Dictionary columns are written as plain strings would be, but faster.
        avro_schema_json: the Avro schema with meta fields, to which columns are cast.
        options: write options, see `BaseFileOptions`.
        footer_texts: further footer keys, such as the Spark version, by which Spark's readers choose the calendar.
        key_texts: those about the record keys where they are known, see `same_key_texts`.
    """
    texts = {"footer_texts": footer_texts, "key_texts": key_texts}
    parts = iter((with_small_indices(table),))
    return write_base_file_parts(storage, path, parts, avro_schema_json, options, several=False, **texts)


def write_base_file_parts(
    storage: Storage,
    path: str,
    parts: Iterator[pa.Table],
    avro_schema_json: str,
    options: Mapping[str, str] | None = None,
    *,
    several: bool = True,
    footer_texts: Mapping[str, str] | None = None,
    key_texts: Mapping[str, str] | None = None,
) -> BaseFileResult:
    """Write a base file from several tables, one in memory at a time; see `write_base_file`.

    Args:
        storage: the table's.
        path: of the new file; an existing file is replaced.
        parts: one table or more, in record key order; the footer says so if they are. The first one's columns decide
            how all are encoded.
        avro_schema_json: the Avro schema with meta fields, to which columns are cast.
        options: write options, see `BaseFileOptions`.
        several: whether there may be more parts than one.
        footer_texts: further keys for the footer.
        key_texts: see `write_base_file`.
    """
    settings = BaseFileOptions.of(options or {})
    schema = avro_to_arrow(avro_schema_json)
    texts = {"footer_texts": footer_texts, "key_texts": key_texts}
    with stream_errors(path), storage.open_output(path) as stream:
        return encode_parts(stream, parts, avro_schema_json, schema, settings, several=several, **texts)


def encode_parts(
    stream: Any,
    parts: Iterator[pa.Table],
    avro_schema_json: str,
    schema: pa.Schema,
    settings: BaseFileOptions,
    *,
    several: bool = True,
    footer_texts: Mapping[str, str] | None = None,
    key_texts: Mapping[str, str] | None = None,
) -> BaseFileResult:
    """The content of a base file into a stream, which stays open; see `write_base_file_parts`.

    Args:
        stream: takes the bytes.
        parts: rows with meta columns.
        avro_schema_json: for the footer.
        schema: the columns of it.
        settings: how columns are encoded.
        several: whether there may be more parts than one.
        footer_texts: further keys for the footer.
        key_texts: see `write_base_file`.
    """
    conformed = (as_schema(part, schema).replace_schema_metadata(None) for part in parts)
    collected: list[pq.FileMetaData] = []
    floats = FloatChunks(several=several)
    order = WrittenOrder()
    keys = _FooterKeys(settings)
    rows = 0
    writer: Any = None
    with contextlib.ExitStack() as stack:
        for part in conformed:
            size = settings.rows_per_group(part)
            floats.add(part, size)
            order.add(part)
            if writer is None:
                arguments = {**settings.writer_arguments(part), "sorting_columns": order.sorting_columns(part.schema)}
                writer = parquet.ParquetWriter(
                    floats.sink(stream), part.schema, metadata_collector=collected, store_schema=False, **arguments
                )
                # one that could not be closed, as on a full disk, would be closed once more when it is deleted
                stack.callback(setattr, writer, "is_open", False)
                stack.enter_context(writer)
            rows += len(part)
            if key_texts is None and RECORD_KEY in part.column_names:
                keys.add(part.column(RECORD_KEY))
            if len(part):
                writer.write_table(part, row_group_size=size)
            del part  # before the next one is made
        known = {**(footer_texts or {}), AVRO_SCHEMA: avro_schema_json, MODEL_NAME: "avro"}
        writer.add_key_value_metadata({**known, **(key_texts or keys.texts())})
        floats.hold()
    metadata = floats.finish(unsorted=order.claimed and order.broken) or collected[0]
    return BaseFileResult(stream.tell(), rows, metadata)


def same_key_texts(footer: BaseFileFooter, options: Mapping[str, str]) -> dict[str, str] | None:
    """The footer texts about the record keys of a file, for another file with the same keys.

    Args:
        footer: of the file.
        options: write options, see `BaseFileOptions`.

    Returns:
        None if a new file may have other texts, and they have to be made from the keys.
    """
    settings = BaseFileOptions.of(options)
    texts = {key: footer.key_values[key] for key in (MIN_KEY, MAX_KEY) if key in footer.key_values}
    if len(texts) < 2 or not settings.bloom_enabled or settings.bloom_entries is not None:
        return None
    try:
        bloom = footer.bloom
    except CorruptFileError:
        return None
    rows = footer.metadata.num_rows
    fitting = fitting_size(rows, settings.bloom_false_positives, settings.bloom_most_bits)
    if bloom is None or bloom.records_per_vector or (bloom.bits, bloom.hashes) != fitting:
        return None
    return {**texts, BLOOM: bloom.to_text()}


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
    texts = whole.unique().to_pylist()
    return min(texts, key=java_order), max(texts, key=java_order)


class _FooterKeys:
    """Collects the footer's key range and bloom filter of a file whose rows come part by part."""

    def __init__(self, settings: BaseFileOptions) -> None:
        self._settings = settings
        self._ranges: list[tuple[str, str]] = []
        self._fitting = FittingBloom(settings.bloom_false_positives, settings.bloom_most_bits)
        self._held: list[Any] = []
        self._none = True

    def add(self, keys: pa.ChunkedArray[Any]) -> None:
        """Add the keys of some rows."""
        for chunk in keys.chunks:
            self._none = False
            bounds = key_range(chunk)
            if bounds is not None:
                self._ranges.append(bounds)
            if self._settings.bloom_enabled and self._settings.bloom_entries is None:
                self._fitting.add(_in_one_piece(pa.chunked_array([chunk])))
            elif self._settings.bloom_enabled:
                # a filter of a fixed number of entries is built from all keys at once
                self._held.append(chunk)

    def texts(self) -> dict[str, str]:
        """Footer keys and their values; none for rows without record keys."""
        if self._none:
            return {}
        texts = {}
        if self._ranges:
            texts[MIN_KEY] = min((least for least, _ in self._ranges), key=java_order)
            texts[MAX_KEY] = max((greatest for _, greatest in self._ranges), key=java_order)
        if self._settings.bloom_enabled:
            bloom = bloom_of(pa.chunked_array(self._held), self._settings) if self._held else self._fitting.filter()
            texts[BLOOM] = bloom.to_text()
            if bloom.records_per_vector:
                texts[BLOOM_TYPE] = bloom.type_code
        return texts


def java_order(text: str) -> bytes:
    """Sort key of Java's string order, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def bloom_of(column: pa.ChunkedArray[Any], settings: BaseFileOptions) -> BloomFilter:
    """Bloom filter of a file's record keys, sized by the options."""
    if settings.bloom_entries is None:
        fitting = FittingBloom(settings.bloom_false_positives, settings.bloom_most_bits)
        for chunk in column.chunks:
            fitting.add(_in_one_piece(pa.chunked_array([chunk])))
        return fitting.filter()
    keys = _in_one_piece(column)
    bits, hashes = filter_size(settings.bloom_entries, settings.bloom_false_positives)
    if settings.bloom_dynamic:
        return dynamic_bloom(keys, bits, hashes, settings.bloom_entries, settings.bloom_dynamic_most)
    return simple_bloom(keys, bits, hashes)


def _in_one_piece(column: Any) -> pa.Array[Any]:
    column = one_chunk(column)
    result: pa.Array[Any] = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    return result
