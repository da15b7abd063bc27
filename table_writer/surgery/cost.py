"""Estimates of processor time: an edit of a base file by surgery beside a rewrite of the whole file.

Both cost something for the file, for each column chunk (its description in the footer, its statistics, a call of the
encoder), and for the bytes that they decode and encode. Surgery handles few bytes but many descriptions, so that it
loses on small and on wide files. The figures were measured; see ADR 36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow.parquet as pq

# Microseconds of surgery: a file, a chunk of the file, a chunk that is decoded and one that is encoded; nanoseconds for
# a byte of those two, and of a chunk that is copied.
_SPLICE, _SPLICE_CHUNK, _READ_CHUNK, _ENCODED_CHUNK = 9_700, 110, 120, 400
_READ_BYTE, _ENCODED_BYTE, _COPIED_BYTE = 1.0, 5.0, 0.8
# The same of a whole rewrite: a file, a column, a chunk, a byte.
_REWRITE, _REWRITE_COLUMN, _REWRITE_CHUNK, _REWRITE_BYTE = 3_000, 330, 90, 6.1
# Bytes of a text that is stored as its difference from the one before it: encoding costs what whole texts cost.
_DIFFERENCE, _DIFFERENCES = 24, "DELTA_BYTE_ARRAY"


@dataclass(frozen=True, slots=True)
class Chunks:
    """Some column chunks.

    Attributes:
        count: how many.
        compressed: their bytes in the file.
        load: bytes of their pages before compression, and one for each value; of texts in full.
    """

    count: int = 0
    compressed: int = 0
    load: int = 0

    def __add__(self, other: Chunks) -> Chunks:
        return Chunks(self.count + other.count, self.compressed + other.compressed, self.load + other.load)

    @classmethod
    def total(cls, several: Iterable[Chunks]) -> Chunks:
        """The sum."""
        count = compressed = load = 0
        for chunks in several:
            count += chunks.count
            compressed += chunks.compressed
            load += chunks.load
        return cls(count, compressed, load)


@dataclass(frozen=True, slots=True)
class EditSize:
    """What an edit of a file handles.

    Attributes:
        columns: of the file.
        file: all chunks of the file.
        read: chunks that are decoded to be compared, or for their statistics.
        encoded: chunks that are encoded.
    """

    columns: int
    file: Chunks
    read: Chunks
    encoded: Chunks

    @property
    def share(self) -> float:
        """Estimated processor time of surgery, divided by that of a whole rewrite."""
        return self.surgery / self.rewrite

    @property
    def surgery(self) -> float:
        """Estimated microseconds of surgery."""
        chunks = self.file.count * _SPLICE_CHUNK + self.read.count * _READ_CHUNK + self.encoded.count * _ENCODED_CHUNK
        copied = max(0, self.file.load - self.encoded.load) * _COPIED_BYTE
        nbytes = self.read.load * _READ_BYTE + self.encoded.load * _ENCODED_BYTE + copied
        return _SPLICE + chunks + nbytes / 1000

    @property
    def rewrite(self) -> float:
        """Estimated microseconds of a whole rewrite."""
        chunks = self.columns * _REWRITE_COLUMN + self.file.count * _REWRITE_CHUNK
        return _REWRITE + chunks + self.file.load * _REWRITE_BYTE / 1000


class FileChunks:
    """The column chunks of a file, by row group and top-level column.

    Args:
        metadata: the file's footer.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.rows = metadata.num_rows
        self.groups: list[dict[str, Chunks]] = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns: dict[str, Chunks] = {}
            for index in range(group.num_columns):
                chunk = group.column(index)
                name = chunk.path_in_schema.split(".", 1)[0]
                width = 1 + _DIFFERENCE if _DIFFERENCES in chunk.encodings else 1
                load = chunk.total_uncompressed_size + width * chunk.num_values
                size = Chunks(1, chunk.total_compressed_size, load)
                columns[name] = columns[name] + size if name in columns else size
            self.groups.append(columns)

    @cached_property
    def total(self) -> Chunks:
        """All of them."""
        return Chunks.total(chunks for group in self.groups for chunks in group.values())

    def edit(
        self,
        *,
        updated: Sequence[int],
        compared: Iterable[str],
        changed: Iterable[str],
        statistics: Iterable[str],
        rebuilt: Sequence[int] = (),
        appended: int = 0,
        decoded: int = 0,
    ) -> EditSize:
        """What an edit handles.

        Args:
            updated: row groups of which some columns change.
            compared: the columns of them that are decoded.
            changed: the columns of them that are encoded.
            statistics: columns that are decoded in all row groups, since the footer does not have their bounds.
            rebuilt: row groups that are decoded and encoded whole.
            appended: new rows.
            decoded: how many of the updated row groups are decoded already, which a rewrite would not save.
        """
        whole = [Chunks.total(self.groups[number].values()) for number in rebuilt]
        read = Chunks.total(
            [*whole, *self._some(updated[decoded:], compared), *self._some(range(len(self.groups)), statistics)]
        )
        # each row group has a chunk with the name of the file
        encoded = Chunks.total([*whole, *self._some(updated, changed), Chunks(len(self.groups))])
        if appended:
            share = appended / max(1, self.rows)
            new = Chunks(self._columns, int(self.total.compressed * share), int(self.total.load * share))
            encoded += new
        return EditSize(self._columns, self.total, read, encoded)

    @property
    def _columns(self) -> int:
        return len(self.groups[0]) if self.groups else 0

    def _some(self, groups: Iterable[int], names: Iterable[str]) -> list[Chunks]:
        names = list(dict.fromkeys(names))
        return [self.groups[number][name] for number in groups for name in names if name in self.groups[number]]
