"""What the metadata table records of a base file, read from the file: column statistics and the bloom filter."""

from __future__ import annotations

import logging
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.actions.commit import WriteStat
from table_format.base_file.bloom import SIMPLE
from table_format.base_file.footer import BLOOM_TYPE, BaseFileFooter, footer, named_corruption, parquet
from table_format.base_file.reader import as_schema, read_base_file
from table_format.codecs.arrow_numpy import binaries
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError, OptionError
from table_format.meta_columns import META_COLUMNS, META_FIELDS, PARTITION_PATH, RECORD_KEY
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_format.threads import in_threads
from table_writer.encoding.base_file import BaseFileOptions, bloom_of
from table_writer.encoding.bloom_records import FILTERS_SCHEMA
from table_writer.encoding.metadata_records import STATISTICS_SCHEMA
from table_writer.execution.executor import Mapper
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
        path = posixpath.join(*place)
        metadata = footer(self.storage, path).metadata
        return statistics_of_file(
            self.storage, path, metadata, self.schema, self.columns, file_name=place[1], partition=place[0]
        )


def statistics_of_file(
    storage: Storage,
    path: str,
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    indexed_columns: Sequence[str],
    *,
    file_name: str,
    partition: str,
) -> pa.Table:
    """Statistics of a file by its footer, equal to those that `collect_statistics` computes from its rows.

    Chunks are decoded only where the footer has no exact bounds: floating-point numbers, since a footer does not show
    NaN, chunks without statistics, texts of writers that truncate bounds, and fields of structs.

    Args:
        storage: the table's.
        path: the file.
        metadata: its footer.
        schema: the table's columns, meta columns included.
        indexed_columns: see `column_statistics.indexable_columns`; those that the schema or the file lacks are left
            out.
        file_name: name of the file, without its folder.
        partition: its partition path.

    Returns:
        A table of `STATISTICS_SCHEMA`; the sizes are those of the file's own chunks.
    """
    base = BaseFileFooter(metadata.schema.to_arrow_schema().remove_metadata(), {}, metadata, 0, path)
    kinds = {
        name: value_type(kind)
        for name in indexed_columns
        if (kind := leaf_type(schema, name)) is not None and leaf_type(base.schema, name) is not None
    }
    roots = {name: root_of(schema, name) for name in kinds}
    bounds = {name: GrowingBounds(name, kind) for name, kind in kinds.items()}

    def by_footer(name: str, groups: Sequence[int]) -> bool:
        exact = exact_statistics(base, name, kinds[name], groups) if name == roots[name] else None
        if exact is not None:
            bounds[name].add_exact(exact)
        return exact is not None

    everywhere = range(metadata.num_row_groups)
    undecided: dict[int, list[str]] = defaultdict(list)
    for name in bounds:
        if not by_footer(name, everywhere):
            for group in everywhere:
                if not by_footer(name, [group]):
                    undecided[group].append(name)
    if undecided:
        wanted = pa.schema([pa.field(root, schema.field(root).type) for root in dict.fromkeys(roots.values())])
        columns = {group: [*dict.fromkeys(roots[name] for name in names)] for group, names in undecided.items()}
        with storage.open_input(path) as stream, named_corruption(path, stream):
            for root, column in _decoded(stream, base, columns, wanted):
                for name in (name for name in roots if roots[name] == root):
                    bounds[name].add_rows(leaf_of(column, root, name))
    return statistics_of((column.values() for column in bounds.values()), file_name, partition, metadata)


def _decoded(
    stream: Any, footer: BaseFileFooter, names_by_group: Mapping[int, Sequence[str]], schema: pa.Schema
) -> Iterator[tuple[str, Any]]:
    """Columns of some row groups in the table's types, some thousand rows at a time, by name."""
    groups_by_names: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for group, names in names_by_group.items():
        groups_by_names[tuple(names)].append(group)
    # one text in all rows; the footer is not sure of it where it is the empty one
    few = [name for name in (PARTITION_PATH,) if name in footer.schema.names]
    file = parquet.ParquetFile(
        stream, metadata=footer.metadata, read_dictionary=few, coerce_int96_timestamp_unit="us", pre_buffer=True
    )
    for names, groups in groups_by_names.items():
        wanted = pa.schema([schema.field(name) for name in names])
        for batch in file.iter_batches(row_groups=groups, columns=list(names)):
            rows = as_schema(pa.Table.from_batches([batch]), wanted)
            yield from zip(names, rows.columns, strict=True)


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
