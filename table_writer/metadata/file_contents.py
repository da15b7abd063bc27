"""What the metadata table records of a base file, read from the file: column statistics and the bloom filter."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from table_format.actions.commit import WriteStat
from table_format.base_file.bloom import SIMPLE
from table_format.base_file.footer import BLOOM_TYPE, footer
from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import binaries
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError, OptionError
from table_format.meta_columns import META_COLUMNS, META_FIELDS, RECORD_KEY
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions, bloom_of
from table_writer.encoding.bloom_records import FILTERS_SCHEMA
from table_writer.encoding.metadata_records import STATISTICS_SCHEMA
from table_writer.execution.executor import Mapper, in_threads
from table_writer.metadata.column_statistics import (
    COLUMN_LIST,
    GrowingBounds,
    concat_statistics,
    exact_statistics,
    indexable_columns,
    statistics_of,
    value_type,
)
from table_writer.metadata.indexed_leaves import leaf_of, leaf_type, root_of
from table_writer.timeline.options import BLOOM_COLUMNS

_log = logging.getLogger(__name__)
_FILES_A_TASK = 64

Statistics = Callable[[TableConfig], pa.Table]
"""Gives column statistics of a write's files by the table's properties, which name the columns."""

Place = tuple[str, str]
"""Partition path and file name of a base file."""


@dataclass(frozen=True, slots=True)
class StatisticsReader:
    """Reads the column statistics of files of one table; can be pickled for tasks.

    Attributes:
        storage: of the table.
        schema: its columns, meta columns included.
        columns: names of those with statistics.
    """

    storage: Storage
    schema: pa.Schema
    columns: Sequence[str]

    def __call__(self, places: Sequence[Place]) -> pa.Table:
        """Statistics of some files, schema `STATISTICS_SCHEMA`.

        Raises:
            CorruptFileError: a file cannot be read.
            MissingFileError: a file is gone.
        """
        return concat_statistics([self._of_file(place) for place in places])

    def _of_file(self, place: Place) -> pa.Table:
        """By the footer where that has exact bounds, else of the values, column by column."""
        path = posixpath.join(*place)
        base = footer(self.storage, path)
        bounds = []
        for name in self.columns:
            kind = leaf_type(self.schema, name)
            if kind is None or leaf_type(base.schema, name) is None:
                continue
            root = root_of(self.schema, name)
            column = GrowingBounds(name, value_type(kind))
            exact = exact_statistics(base, name, column.kind, None) if name == root else None
            if exact is None:
                rows = read_base_file(self.storage, path, [root], pa.schema([self.schema.field(root)]))
                column.add_rows(leaf_of(rows[root], root, name))
            else:
                column.add_exact(exact)
            bounds.append(column.values())
        return statistics_of(bounds, place[1], place[0], base.metadata)


@dataclass(frozen=True, slots=True)
class FilterReader:
    """Reads the bloom filters of record keys of files of one table; can be pickled for tasks.

    Attributes:
        storage: of the table.
        options: how a filter is made of a file whose footer has none; see `BaseFileOptions`.
    """

    storage: Storage
    options: BaseFileOptions = field(default_factory=BaseFileOptions)

    def __call__(self, places: Sequence[Place]) -> pa.Table:
        """Filters of some files, schema `FILTERS_SCHEMA`: every file has one.

        Raises:
            CorruptFileError: a file cannot be read.
            MissingFileError: a file is gone.
        """
        kinds, texts = [], []
        for place in places:
            kind, text = self._of_file(posixpath.join(*place))
            kinds.append(kind)
            texts.append(text)
        columns: list[Any] = [
            pa.array([partition for partition, _ in places], pa.string()),
            pa.array([name for _, name in places], pa.string()),
            pa.array(kinds, pa.string()),
            binaries(texts),
        ]
        return pa.table(columns, schema=FILTERS_SCHEMA)

    def _of_file(self, path: str) -> tuple[str, bytes]:
        """Type and text: by the footer, or of the record keys where it has no filter or a damaged one."""
        base = footer(self.storage, path)
        try:
            bloom = base.bloom
        except CorruptFileError:
            bloom = None
        if bloom is None:
            keys = read_base_file(self.storage, path, [RECORD_KEY], pa.schema([(RECORD_KEY, pa.string())]))
            bloom = bloom_of(pa.chunked_array(keys[RECORD_KEY]), self.options)
            return bloom.type_code, bloom.to_text().encode()
        return base.key_values.get(BLOOM_TYPE, SIMPLE), bloom.to_text().encode()


def check_filter_columns(columns: Sequence[str], key_fields: Sequence[str]) -> None:
    """Refuse bloom filters of other columns than record keys, for which the metadata table has no place.

    Args:
        columns: that options name.
        key_fields: of the table.

    Raises:
        OptionError: one of the columns is no record key.
    """
    others = [name for name in columns if name not in (RECORD_KEY, *key_fields)]
    if others:
        raise OptionError(
            f"{BLOOM_COLUMNS} names {others}: the metadata table has one bloom filter a file, of its record keys "
            f"({', '.join(key_fields)})"
        )


def places_of(files: pa.Table) -> list[Place]:
    """Partition and file name of each file (columns `partition`, `file_name`)."""
    partitions: list[Any] = files["partition"].to_pylist()
    names: list[Any] = files["file_name"].to_pylist()
    return list(zip(partitions, names, strict=True))


def statistics_of_files(
    storage: Storage, files: pa.Table, schema: pa.Schema, columns: Sequence[str], mapper: Mapper = in_threads
) -> pa.Table:
    """Column statistics of some files, schema `STATISTICS_SCHEMA`.

    Args:
        storage: of the table.
        files: columns `partition` and `file_name`.
        schema: of the table, meta columns included.
        columns: names of those with statistics.
        mapper: runs the tasks.
    """
    reader = StatisticsReader(storage, schema, tuple(columns))
    return concat_statistics(mapper(reader, portions(places_of(files))))


def filters_of_files(storage: Storage, files: pa.Table, options: Mapping[str, str]) -> pa.Table:
    """Bloom filters of some files, schema `FILTERS_SCHEMA`; see `FilterReader`."""
    reader = FilterReader(storage, BaseFileOptions.of(options))
    return pa.concat_tables([FILTERS_SCHEMA.empty_table(), *in_threads(reader, portions(places_of(files), 8))])


def portions(places: Sequence[Place], size: int = _FILES_A_TASK) -> list[Sequence[Place]]:
    """The files that each task reads."""
    return [places[start : start + size] for start in range(0, len(places), size)]


def statistics_at_commit(
    storage: Storage,
    stats: Sequence[WriteStat],
    collected: pa.Table | None,
    schema_json: str,
    *,
    begun: Mapping[str, str],
    options: Mapping[str, str],
    mapper: Mapper,
) -> Statistics:
    """The statistics that a commit records, given the table's properties at that moment.

    Those that the write's tasks collected, unless the index was built or rebuilt since: then they are read from the
    new files, as a file with statistics of other columns than the rest loses rows in Apache's data skipping.

    Args:
        storage: of the table.
        stats: of the new files.
        collected: by the write's tasks.
        schema_json: the table's Avro schema after the write.
        begun: the table's properties when the write began.
        options: of the write.
        mapper: runs the reading of files.
    """

    def known(properties: Mapping[str, str]) -> tuple[bool, str]:
        config = TableConfig(dict(properties))
        return layout.COLUMN_STATS in config.metadata_partitions, properties.get(COLUMN_LIST, "")

    def statistics(config: TableConfig) -> pa.Table:
        if collected is not None and known(begun) == known(config.raw):
            return collected
        rows = [(stat.partition_path, stat.file_name) for stat in stats if stat.path]
        if not rows:
            return STATISTICS_SCHEMA.empty_table()
        schema = [field for field in avro_to_arrow(schema_json) if field.name not in META_COLUMNS]
        whole = pa.schema([*META_FIELDS, *schema])
        columns = indexable_columns(whole, {**options, **config.raw})
        files = pa.table(
            {
                "partition": pa.array([partition for partition, _ in rows], pa.string()),
                "file_name": pa.array([name for _, name in rows], pa.string()),
            }
        )
        _log.info("%s: column statistics of %d files are read at their commit", storage.uri, len(rows))
        return statistics_of_files(storage, files, whole, columns, mapper)

    return statistics
