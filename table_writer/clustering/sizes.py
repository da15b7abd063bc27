"""How large clustered rows become: some are sorted and encoded, since rows in another order compress otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from table_format.base_file.bloom import fitting_size
from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy
from table_format.codecs.avro_schema import avro_to_arrow
from table_writer.clustering.order import RowOrder
from table_writer.clustering.tasks import CODE_COLUMN, InputFile, SampleTask, ordered
from table_writer.encoding.base_file import BaseFileOptions, encode_parts
from table_writer.files.ordered_merge import file_batches, rows_size
from table_writer.files.rewrite import current_schema
from table_writer.plan.plan import FilePlan
from table_writer.rows.merge import with_constants

SAMPLED_A_FILE: Final = 4096
"""Rows that are sampled for each new file, so that files are of equal numbers of rows but for some per cent."""

#: Rows that are encoded at most; a row group, the unit of compression, seldom has more.
_MOST_ROWS: Final = 1 << 17
_FEW_ROWS: Final = 1 << 10
_RUNS: Final = 8
#: How much larger rows may become, as when another codec had compressed them better.
_WORST: Final = 4
#: How much more a row takes in a file than among the measured rows: dictionaries are of fewer rows there, and some rows
#: compress less than others.
_FEWER_TOGETHER: Final = 1.04
#: Of computing how large the filters of files are that are as many as the filters' size allows.
_ROUNDS: Final = 4
_FILE_NAME: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class GroupSize:
    """Rows of the files of a group.

    Attributes:
        rows: their number.
        decoded: bytes in memory, estimated.
        stored: bytes of the column chunks.
    """

    rows: int = 0
    decoded: int = 0
    stored: int = 0

    @classmethod
    def of_groups(cls, groups: Iterable[int], sizes: Iterable[GroupSize]) -> dict[int, Self]:
        """Sums of the sizes of files, by the number of each file's group."""
        sums: dict[int, Self] = {}
        for group, size in zip(groups, sizes, strict=True):
            known = sums.get(group, cls())
            sums[group] = cls(known.rows + size.rows, known.decoded + size.decoded, known.stored + size.stored)
        return sums

    def may_exceed(self, target: int) -> bool:
        """Whether one file might be larger than so many bytes."""
        return self.rows > 0 and self.stored * _WORST > target


def file_size(task: SampleTask) -> GroupSize:
    """The size of a file, by its footer."""
    storage, path = task.files.storage, task.input.file.path
    foot = footer(storage, path)
    groups = [foot.metadata.row_group(number) for number in range(foot.metadata.num_row_groups)]
    stored = sum(group.column(index).total_compressed_size for group in groups for index in range(group.num_columns))
    return GroupSize(foot.row_count, rows_size(task.files, path), stored)


@dataclass(frozen=True, slots=True)
class EncodedSize:
    """A part of a group's rows, encoded in their new order.

    Attributes:
        rows: their number.
        data: bytes of the column chunks.
        bloom: bytes of a bloom filter that grows with the rows, up to `most_bloom`.
        most_bloom: bytes of the largest one.
        around: bytes of the file besides, which do not grow with it.
    """

    rows: int
    data: int
    bloom: int
    most_bloom: int
    around: int

    def around_of(self, rows: float) -> float:
        """Bytes besides the column chunks in a file of so many rows."""
        return self.around + min(self.bloom * rows / max(1, self.rows), self.most_bloom)


@dataclass(frozen=True)
class MeasureTask:
    """Measuring of one group.

    Attributes:
        files: how files are read and written.
        inputs: the group's files.
        order: its new order.
        size: of all its rows.
    """

    files: FilePlan
    inputs: Sequence[InputFile]
    order: RowOrder
    size: GroupSize


def measured(task: MeasureTask) -> EncodedSize:
    """Encode about a row group of rows, the first of some files.

    Their neighbours in the new order lie further apart than among all rows, so that they compress no better.
    """
    files = task.files
    settings = BaseFileOptions.of(files.file_options)
    width = max(1, task.size.decoded // max(1, task.size.rows))
    wanted = min(_MOST_ROWS, max(_FEW_ROWS, settings.block_size // width))
    chosen = task.inputs[:: -(-len(task.inputs) // _RUNS)]
    parts = [part for file in chosen for part in _first_rows(files, file, -(-wanted // len(chosen)))]
    if not parts:
        return EncodedSize(0, 0, 0, 0, 0)
    rows = pa.concat_tables(parts).combine_chunks()
    coded = rows.append_column(CODE_COLUMN, from_numpy(task.order.codes(rows)))
    table = with_constants(ordered(files, task.order, coded), "", _FILE_NAME)
    stream = pa.BufferOutputStream()
    schema = avro_to_arrow(files.footer_schema)
    result = encode_parts(
        stream, iter((table,)), files.footer_schema, schema, settings, several=False, footer_texts=files.footer_texts
    )
    groups = [result.metadata.row_group(number) for number in range(result.metadata.num_row_groups)]
    data = sum(group.column(index).total_compressed_size for group in groups for index in range(group.num_columns))
    fitted = settings.bloom_enabled and settings.bloom_entries is None
    bits, _ = fitting_size(result.row_count, settings.bloom_false_positives, settings.bloom_most_bits)
    bloom, most = (_text_bytes(count) if fitted else 0 for count in (bits, settings.bloom_most_bits))
    return EncodedSize(result.row_count, data, bloom, most, result.size - data - bloom)


def _text_bytes(bits: int) -> int:
    """Bytes of a filter in a footer, as text in base 64."""
    return -(-bits // 6)


def _first_rows(files: FilePlan, file: InputFile, count: int) -> Iterable[pa.Table]:
    for rows in file_batches(files, file.file, current_schema(files), count):
        yield rows.slice(0, count)
        count -= rows.num_rows
        if count <= 0:
            return


def parts_of(task: MeasureTask, encoded: EncodedSize, target: int) -> int:
    """Into how many files the rows of a group are divided evenly so that none is larger than the target.

    Args:
        task: of the group.
        encoded: some of its rows.
        target: bytes of a file.
    """
    if not encoded.rows:
        return 1
    rows, step = task.size.rows, task.inputs[0].step
    parts = 1.0
    for _ in range(_ROUNDS):
        room = target - encoded.around_of(rows / parts)
        parts = _FEWER_TOGETHER * rows * encoded.data / encoded.rows / max(room, target / 4)
    if step > 1:
        # numbers of sampled rows that fall into a file vary by their square root
        parts *= 1 + 2 * math.sqrt(max(1.0, parts) * step / rows)
    return max(1, math.ceil(parts))
