"""Reading the record keys of file slices: of base files, merged with log files where there are some."""

from __future__ import annotations

import functools
import itertools
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.footer import footer
from table_format.base_file.reader import base_file_batches
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import CorruptFileError, MissingFileError, RecordIndexError
from table_format.merge.file_slice import read_file_slice
from table_format.merge.rules import MergeRules
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.metadata_table.reader import data_files
from table_format.slices.file_slices import latest_file_slices
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.table.schema_history import internal_schemas
from table_format.timeline.timeline import Timeline
from table_writer.encoding.record_index_entries import refuse_long_keys
from table_writer.execution.executor import Mapper

_BATCH_ROWS: Final = 262_144
_RUN_BYTES: Final = 512 << 20
_RUN_SOURCES: Final = 256
_FEWEST_RUNS: Final = 16
_KEY_SCHEMA: Final = pa.schema({RECORD_KEY: pa.string()})


@dataclass(frozen=True, slots=True)
class KeySource:
    """A file slice whose record keys are read.

    Attributes:
        partition: path of the data partition.
        file_id: of the file group.
        instant: of the base file, or of the slice.
        base: path of the base file; None for a slice of logs alone.
        logs: paths of the log files, in the order in which they are merged.
        size: bytes of all these files; with the paths it identifies the state of the slice.
    """

    partition: str
    file_id: str
    instant: str
    base: str | None
    logs: tuple[str, ...]
    size: int

    @property
    def identity(self) -> str:
        """Text that is the same as long as the slice has the same keys."""
        return self.base if self.base and not self.logs else "\n".join([self.base or "", *self.logs, str(self.size)])


def current_sources(client: TableClient, timeline: Timeline) -> list[KeySource]:
    """The latest file slices of a table.

    Raises:
        UnsupportedTableError: base files of another format than Parquet.
    """
    return sources_of(latest_file_slices(data_files(client, timeline), timeline))


def sources_of(slices: pa.Table) -> list[KeySource]:
    """File slices as sources of keys; columns as `latest_file_slices` or `latest_base_files` returns them."""
    sources = []
    for row in slices.to_pylist():
        logs = row.get("logs") or []
        size = row["size"] + sum(log["size"] or 0 for log in logs)
        base = row["path"] if row["file_name"] else None
        names = tuple(posixpath.join(row["partition"], log["file_name"]) for log in logs)
        sources.append(KeySource(row["partition"], row["file_id"], row["instant"], base, names, size))
    return sources


def require_keys(client: TableClient) -> None:
    """Refuse a table whose files do not hold record keys.

    Raises:
        RecordIndexError: `hoodie.populate.meta.fields` is false; Apache Hudi builds no record index there either.
    """
    if not client.config.populate_meta_fields:
        raise RecordIndexError(
            f"{client.storage.uri}: hoodie.populate.meta.fields=false, so that files hold no record keys; a record "
            "index needs a table with meta columns"
        )


class KeyReader:
    """Reads the keys of file slices; can be pickled for tasks.

    Args:
        client: the table.
        timeline: of the state that is read; log blocks of instants that it has not completed are skipped.
    """

    def __init__(self, client: TableClient, timeline: Timeline) -> None:
        self._client = client
        self._timeline = timeline

    @property
    def storage(self) -> Storage:
        """The table's."""
        return self._client.storage

    def count(self, source: KeySource) -> int:
        """Estimate of a slice's keys: rows of its base file, from the footer."""
        try:
            return 0 if source.base is None else footer(self.storage, source.base).row_count
        except MissingFileError:
            return 0  # cleaned meanwhile

    def batches(self, source: KeySource) -> Iterator[pa.BinaryArray]:
        """The keys of a slice, in batches.

        Raises:
            CorruptFileError: a file cannot be read, or has rows without a key.
            RecordError: a key is longer than an index takes.
            UnsupportedTableError: log files that are not supported.
        """
        if source.base is None or source.logs:
            yield self._checked(source, self._merged(source))
            return
        pieces = base_file_batches(self.storage, source.base, [RECORD_KEY], _KEY_SCHEMA, batch_rows=_BATCH_ROWS)
        for _, piece in pieces:
            yield self._checked(source, piece)

    def _merged(self, source: KeySource) -> pa.Table:
        schema = pa.schema([*META_FIELDS, *self._client.table_schema(self._timeline)])
        return read_file_slice(
            self.storage,
            source.base,
            source.logs,
            schema=schema,
            columns=[RECORD_KEY],
            rules=MergeRules.of(self._client.config),
            timeline=self._timeline,
            history=internal_schemas(self._timeline),
        )

    @staticmethod
    def _checked(source: KeySource, rows: pa.Table) -> pa.BinaryArray:
        keys: Any = one_chunk(rows[RECORD_KEY])
        if keys.null_count:
            place = source.base or source.logs[0]
            raise CorruptFileError(place, 0, f"{keys.null_count} rows without {RECORD_KEY}; write them again")
        refuse_long_keys(keys, source.base or source.logs[0])
        binary: pa.BinaryArray = keys.cast(pa.binary())
        return binary


def keys_of_slices(
    reader: KeyReader, wanted: pa.Array[Any] | None, sources: Sequence[KeySource], mapper: Mapper
) -> Iterator[tuple[str, pa.Array[Any]]]:
    """The keys of some slices: pairs of a slice's identity and some of its keys.

    Args:
        reader: of the table.
        wanted: the keys in question; files whose bloom filter rules them out are not read. None for all.
        sources: the slices.
        mapper: runs the tasks.

    Raises:
        MissingFileError: a file was cleaned meanwhile.
    """
    job = functools.partial(_read, reader, wanted)
    return itertools.chain.from_iterable(mapper(job, portions_by_bytes(sources)) if sources else ())


def _read(
    reader: KeyReader, wanted: pa.Array[Any] | None, sources: Sequence[KeySource]
) -> list[tuple[str, pa.Array[Any]]]:
    read: list[tuple[str, Any]] = []
    for source in sources:
        if wanted is not None and not _may_hold(reader, source, wanted):
            continue
        for batch in reader.batches(source):
            keys: Any = batch.cast(pa.string())
            read.append((source.identity, keys if wanted is None else keys.filter(pc.is_in(keys, value_set=wanted))))
    return read


def _may_hold(reader: KeyReader, source: KeySource, wanted: pa.Array[Any]) -> bool:
    """Whether a slice may hold one of the keys, by its bloom filter."""
    if source.base is None or source.logs:
        return True
    try:
        bloom = footer(reader.storage, source.base).bloom
    except CorruptFileError:  # of a filter; the file itself is read next
        return True
    return bloom is None or bool(bloom.may_contain(wanted).any())


def portions_by_bytes(sources: Sequence[KeySource]) -> list[list[KeySource]]:
    """The slices that each task reads, about the same bytes for each."""
    most = min(_RUN_BYTES, sum(source.size for source in sources) // _FEWEST_RUNS)
    tasks: list[list[KeySource]] = []
    size = 0
    for source in sources:
        if not tasks or size >= most or len(tasks[-1]) >= _RUN_SOURCES:
            tasks.append([])
            size = 0
        tasks[-1].append(source)
        size += source.size
    return tasks
