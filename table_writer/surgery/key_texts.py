"""Hudi's footer texts about a file's record keys after surgery: the bloom filter, the first and the last key."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pyarrow as pa

from table_format.base_file.bloom import BloomFilter, filter_size, fitting_size, simple_bloom
from table_format.base_file.footer import BLOOM, BLOOM_TYPE, MAX_KEY, MIN_KEY, BaseFileFooter, named_corruption, parquet
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.errors import CorruptFileError
from table_format.meta_columns import RECORD_KEY
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions, bloom_of, java_order, key_range
from table_writer.metadata.column_statistics import has_whole_bounds, may_be_made_up
from table_writer.surgery.splice import FileEdit, NewColumns

_OLD_BLOOM = "com.uber.hoodie.bloomfilter"
# A filter with added keys may have this many times the false positives of a new one.
_WORSE = 2.0
_PRIVATE_USE, _SUPPLEMENTARY = 0xE000, 0x10000


def key_texts(
    storage: Storage,
    source: str,
    footer: BaseFileFooter,
    edit: FileEdit,
    options: BaseFileOptions,
    *,
    inserted: pa.Array[Any] | None = None,
) -> dict[str, str | None]:
    """The texts to set in `FileEdit.texts` so that look-ups by key find all rows of the new file.

    Keys are added to the bloom filter, and deleted ones stay in it. It is rebuilt from all keys when there is none,
    when its false positives would be too many, and when the last vector of a dynamic filter is full.

    Args:
        storage: the table's.
        source: the file before the edit.
        footer: its footer.
        edit: what changes.
        options: as for a new file.
        inserted: the keys that were not in the file; by default all keys of the edit's rows.

    Returns:
        Texts to set; None for one to remove. Empty for a file without record keys.
    """
    if RECORD_KEY not in footer.schema.names:
        return {}
    keys = _Keys(storage, source, footer, edit)
    return keys.bounds() | _bloom_texts(keys, footer, options, inserted)


class _Keys:
    """The record keys of the new file: of row groups whose keys do not change, and of the edit's rows."""

    def __init__(self, storage: Storage, source: str, footer: BaseFileFooter, edit: FileEdit) -> None:
        self.storage = storage
        self.source = source
        self.footer = footer
        tables = [group.table for group in edit.groups.values() if isinstance(group, NewColumns)]
        self.new = [t.column(RECORD_KEY) for t in (*tables, *edit.appended) if RECORD_KEY in t.column_names]
        self.unchanged = [
            ordinal
            for ordinal in range(footer.metadata.num_row_groups)
            if ordinal not in edit.groups or _keeps_keys(edit.groups[ordinal])
        ]

    @property
    def count(self) -> int:
        """Rows of the new file."""
        rows = sum(self.footer.metadata.row_group(ordinal).num_rows for ordinal in self.unchanged)
        return rows + sum(len(column) for column in self.new)

    def bounds(self) -> dict[str, str | None]:
        """The first and last key, in the order of Java's strings."""
        bounds: list[str] = []
        unknown = []
        for ordinal in self.unchanged:
            group_bounds = self._footer_bounds(ordinal)
            if group_bounds is None:
                unknown.append(ordinal)
            else:
                bounds += group_bounds
        columns = [*self.new, *([self._read(unknown)] if unknown else ())]
        for column in columns:
            bounds += key_range(column) or ()
        if not bounds:
            return {MIN_KEY: None, MAX_KEY: None}
        ordered = sorted(bounds, key=java_order)
        return {MIN_KEY: ordered[0], MAX_KEY: ordered[-1]}

    def all(self) -> pa.ChunkedArray[Any]:
        """All keys of the new file."""
        columns = [*([self._read(self.unchanged)] if self.unchanged else ()), *self.new]
        return pa.chunked_array([_plain(chunk) for column in columns for chunk in column.chunks], pa.string())

    def added(self) -> pa.Array[Any]:
        """The keys of the edit's rows."""
        chunks = [_plain(chunk) for column in self.new for chunk in column.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())

    def _footer_bounds(self, ordinal: int) -> tuple[str, str] | None:
        """Bounds of a row group in the footer, if they are exact and the same in Java's order of strings.

        Java orders strings by UTF-16 units, Parquet by UTF-8 bytes. They differ between characters from U+E000 to
        U+FFFF and those above.
        """
        group = self.footer.metadata.row_group(ordinal)
        chunks = map(group.column, range(group.num_columns))
        chunk = next((chunk for chunk in chunks if chunk.path_in_schema == RECORD_KEY), None)
        if chunk is None or not chunk.is_stats_set or not has_whole_bounds(self.footer.metadata):
            return None
        statistics = chunk.statistics
        if statistics is None or not statistics.has_min_max:
            return None
        try:
            least, greatest = _text(statistics.min), _text(statistics.max)
        except UnicodeDecodeError:
            return None
        if may_be_made_up(least) or may_be_made_up(greatest):
            return None
        private = any(_PRIVATE_USE <= ord(character) < _SUPPLEMENTARY for character in least)
        if private or any(ord(character) >= _SUPPLEMENTARY for character in greatest):
            return None
        return least, greatest

    def _read(self, groups: list[int]) -> pa.ChunkedArray[Any]:
        with self.storage.open_input(self.source) as stream, named_corruption(self.source, stream):
            table = parquet.ParquetFile(stream).read_row_groups(groups, columns=[RECORD_KEY])
        column: pa.ChunkedArray[Any] = table.column(RECORD_KEY)
        return column.cast(pa.string())


def _keeps_keys(edit: object) -> bool:
    return isinstance(edit, NewColumns) and RECORD_KEY not in edit.table.column_names


def _text(bound: Any) -> str:
    return bound.decode() if isinstance(bound, bytes) else str(bound)


def _plain(chunk: Any) -> Any:
    return chunk.dictionary_decode() if isinstance(chunk, pa.DictionaryArray) else chunk


def _bloom_texts(
    keys: _Keys, footer: BaseFileFooter, options: BaseFileOptions, inserted: pa.Array[Any] | None
) -> dict[str, str | None]:
    if not options.bloom_enabled:
        return dict.fromkeys((BLOOM, BLOOM_TYPE, _OLD_BLOOM))
    try:
        bloom = footer.bloom
    except CorruptFileError:
        bloom = None
    if bloom is not None:
        candidates: Any = keys.added() if inserted is None else one_chunk(inserted)
        new = candidates.take(from_numpy(np.flatnonzero(~bloom.may_contain(candidates))))
        if len(new) == 0:
            return {}
        bloom = _with_keys(bloom, new)
    if bloom is None or _rate(bloom) > _WORSE * _rate_of_new(keys.count, options):
        bloom = bloom_of(keys.all(), options)
    return {
        BLOOM: bloom.to_text(),
        BLOOM_TYPE: bloom.type_code if bloom.records_per_vector else None,
        _OLD_BLOOM: None,
    }


def _with_keys(bloom: BloomFilter, keys: pa.Array[Any]) -> BloomFilter | None:
    """The filter with more keys; None when the last vector of a dynamic one is too full for them."""
    count = bloom.records_in_last + len(keys)
    if bloom.records_per_vector and count > bloom.records_per_vector:
        return None
    last = bloom.vectors[-1] | simple_bloom(keys, bloom.bits, bloom.hashes).vectors[0]
    in_last = count if bloom.records_per_vector else 0
    return dataclasses.replace(bloom, vectors=[*bloom.vectors[:-1], last], records_in_last=in_last)


def _rate(bloom: BloomFilter) -> float:
    """Rate of false positives, from the share of bits that are set."""
    shares = [int(np.unpackbits(vector).sum()) / bloom.bits for vector in bloom.vectors]
    return float(sum(share**bloom.hashes for share in shares))


def _rate_of_new(keys: int, options: BaseFileOptions) -> float:
    if options.bloom_entries is None:
        bits, hashes = fitting_size(keys, options.bloom_false_positives, options.bloom_most_bits)
    else:
        bits, hashes = filter_size(options.bloom_entries, options.bloom_false_positives)
    return (1 - math.exp(-hashes * keys / bits)) ** hashes
