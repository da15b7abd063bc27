"""First pass of a write that looks keys up: rows get their keys, and the driver gets a summary of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, spans_of, to_numpy
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.execution.executor import Block
from table_writer.plan.plan import HOME_COLUMN, KeyPlan, TaskIdentity
from table_writer.rows.slot_rows import flushes, keyed_rows, user_rows
from table_writer.tagging.placement import Home, Homes, Sample
from table_writer.tagging.tagging import NEW, Tags, slim_rows

_SAMPLE_KEYS = 1024
_SAMPLE_ROWS = 4096


@dataclass(frozen=True)
class RowPlan:
    """How rows are keyed.

    Attributes:
        keys: see `KeyPlan`; with buckets where new records find a file group by them.
        schema: user columns of the batch, in the types of the table.
        payload: names of the columns that are written.
        ordering: fields that order versions of a record.
        flush_bytes: approximate bytes of rows in a block.
        tagged: whether the rows will be tagged.
        thin_rows: blocks also carry the columns for tagging separately, unless a task has more rows than this.
        measured: whether to measure the bytes of a row in a base file.
        file_options: of base files.
        shared: see `FilePlan`.
    """

    keys: KeyPlan
    schema: pa.Schema
    payload: tuple[str, ...]
    ordering: tuple[str, ...]
    flush_bytes: int
    tagged: bool
    thin_rows: int
    measured: bool
    file_options: BaseFileOptions
    shared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """Totals of what a write is about to do.

    Attributes:
        updates: rows by the file group that has their key, see `Tags.groups`.
        inserts: rows to insert, by home.
        relied: see `Tags`.
        elsewhere: see `Tags`.
    """

    updates: dict[str, int] = field(default_factory=dict)
    inserts: dict[Home, Sample] = field(default_factory=dict)
    relied: frozenset[str] = frozenset()
    elsewhere: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def partitions(self) -> set[str]:
        """Paths of the partitions into which rows are inserted."""
        return {home.partition for home in self.inserts}

    @classmethod
    def of(cls, rows: pa.Table, tags: Tags | None, most: int = _SAMPLE_KEYS) -> Profile:
        """Profile of keyed rows, or of their slim form.

        Args:
            rows: the rows.
            tags: of the rows; None if all are inserted.
            most: approximate number of keys in the sample.
        """
        updates: dict[str, int] = {}
        positions = np.arange(rows.num_rows)
        if tags is not None:
            located = tags.numbers[tags.numbers != NEW]
            numbers, counts = np.unique(located, return_counts=True)
            names: list[Any] = tags.groups.take(from_numpy(numbers)).to_pylist()
            updates = dict(zip(names, counts.tolist(), strict=True))
            positions = tags.rows[tags.numbers == NEW]
        inserts = _samples(rows, positions, most)
        if tags is None:
            return cls(updates, inserts)
        return cls(updates, inserts, tags.relied, tags.elsewhere)

    @classmethod
    def total(cls, profiles: Iterable[Profile]) -> Profile:
        """Several profiles as one."""
        updates: dict[str, int] = {}
        samples: dict[Home, list[Sample]] = {}
        relied: set[str] = set()
        elsewhere: dict[str, tuple[int, str]] = {}
        for profile in profiles:
            relied |= profile.relied
            for group, rows in profile.updates.items():
                updates[group] = updates.get(group, 0) + rows
            for home, sample in profile.inserts.items():
                samples.setdefault(home, []).append(sample)
            for partition, (count, key) in profile.elsewhere.items():
                elsewhere[partition] = (elsewhere.get(partition, (0, key))[0] + count, key)
        inserts = {
            home: Sample(
                sum(part.rows for part in parts),
                pa.concat_arrays([part.keys for part in parts]),
                np.concatenate([part.weights for part in parts]),
            )
            for home, parts in samples.items()
        }
        return cls(updates, inserts, frozenset(relied), elsewhere)


@dataclass(frozen=True)
class BlockSummary:
    """Facts about a block for the driver.

    Attributes:
        check: checksum of its keys, to detect a block that differs when it is computed again.
        size: its bytes.
        record: approximate bytes of a row in a base file; None if it was not measured.
        profile: as if all its rows were inserted; empty when they are tagged.
    """

    check: int
    size: int
    record: float | None
    profile: Profile


def key_batches(plan: RowPlan, batches: Iterator[pa.RecordBatch], task: TaskIdentity) -> Iterator[Block]:
    """Key a task's rows.

    Yields:
        Blocks with a `BlockSummary` as their head, and the columns that tagging needs for the driver.
    """
    seen = 0
    record = None
    for number, pending in enumerate(flushes(batches, plan.flush_bytes)):
        rows = keyed_rows(plan.keys, user_rows(pending, plan.schema), plan.payload)
        if plan.keys.buckets:
            rows = rows.rename_columns([*rows.column_names[:-1], HOME_COLUMN])
        if plan.measured and record is None:
            record = encoded_width(rows, plan.file_options)
        seen += rows.num_rows
        profile = Profile() if plan.tagged else Profile.of(rows, None)
        summary = BlockSummary(key_check(rows), rows.nbytes, record, profile)
        slim = slim_rows(rows, plan.ordering, plan.shared) if plan.tagged and seen <= plan.thin_rows else None
        yield Block((task.number, number), summary, rows, slim)


def encoded_width(rows: pa.Table, options: BaseFileOptions) -> float:
    """Bytes of a row in a base file, measured by encoding a sample."""
    some = rows.slice(0, _SAMPLE_ROWS)
    columns = [one_chunk(column) for column in some.columns]
    kept = [index for index, column in enumerate(columns) if not pa.types.is_dictionary(column.type)]
    table = some.select(kept)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **options.writer_arguments(table)) as writer:
        writer.write_table(table)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    return sum(chunk.total_compressed_size for chunk in chunks) / max(1, some.num_rows)


def key_check(rows: pa.Table) -> int:
    """A checksum of the keys of some rows, in their order."""
    data, starts, lengths = spans_of(one_chunk(rows[RECORD_KEY]))
    if not len(starts):
        return 0
    first, last = int(starts[0]), int(starts[-1] + lengths[-1])
    return zlib.crc32(lengths.tobytes(), zlib.crc32(data[first:last].tobytes()))


def homes_of(rows: pa.Table, positions: Any = None) -> Homes:
    """The homes of keyed rows, of all or of those at some positions."""
    placed = rows.select([name for name in (PARTITION_PATH, HOME_COLUMN) if name in rows.column_names])
    if positions is not None:
        placed = placed.take(from_numpy(positions))
    paths = one_chunk(placed[PARTITION_PATH]) if PARTITION_PATH in placed.column_names else None
    buckets = to_numpy(one_chunk(placed[HOME_COLUMN])) if HOME_COLUMN in placed.column_names else None
    return Homes.of(rows.num_rows if positions is None else len(positions), paths, buckets)


def _samples(rows: pa.Table, positions: Any, most: int) -> dict[Home, Sample]:
    if len(positions) == 0:
        return {}
    keys, samples = one_chunk(rows[RECORD_KEY]), {}
    for home, chosen in homes_of(rows, positions).each():
        share = max(1, most * len(chosen) // len(positions))
        samples[home] = _sample(keys, positions[chosen], share)
    return samples


def _sample(keys: Any, positions: Any, most: int) -> Sample:
    chosen = positions
    if len(positions) > most:
        # random, since rows may come in a pattern; the seed makes runs repeatable
        chosen = positions[np.random.default_rng(len(positions)).integers(0, len(positions), most)]
    weights = np.full(len(chosen), len(positions) / len(chosen))
    return Sample(len(positions), keys.take(from_numpy(chosen)), weights)
