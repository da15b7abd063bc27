"""File slices as objects, made from their columns in a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, one_chunk

_LOGS = "logs"


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A file slice to read, or a part of its base file. Paths are relative to the table.

    Attributes:
        partition: path of the partition, "" in a table without partitions.
        file_id: the file group.
        base: the base file; None for log files alone.
        instant: of the slice; that which wrote the base file.
        logs: the log files in merge order, each with its bytes, None if the listing did not say.
        row_groups: ordinals of the base file's row groups to read; None for those that begin in the part's bytes.
        record_count: rows of the slice or the part; None when not known without opening it.
        base_size: bytes of the base file; 0 when not known.
        start: first byte of the part in the base file.
        length: bytes of the part.
        fully_matching: statistics of the row groups prove that every row makes the filter true.
    """

    partition: str
    file_id: str
    base: str | None
    instant: str
    logs: tuple[tuple[str, int | None], ...] = ()
    row_groups: tuple[int, ...] | None = None
    record_count: int | None = None
    base_size: int = 0
    start: int = 0
    length: int = 0
    fully_matching: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the part's bytes are those of the whole base file."""
        return self.start == 0 and self.length >= self.base_size

    @property
    def size(self) -> int:
        """Bytes of the base file and the log files."""
        return self.base_size + sum(size or 0 for _, size in self.logs)


def file_slices(files: pa.Table) -> list[FileSlice]:
    """The rows of a table of slices as objects.

    Args:
        files: of `table_format.slices.file_slices.SLICES_SCHEMA`.
    """
    names = ("partition", "file_id", "path", "instant", "size")
    columns: list[list[Any]] = [files.column(name).to_pylist() for name in names]
    logs: list[tuple[tuple[str, int | None], ...]] = [()] * files.num_rows
    if _LOGS in files.column_names and pc.any(pc.greater(pc.list_value_length(files.column(_LOGS)), 0)).as_py():
        paths: list[Any] = log_paths(files).to_pylist()
        listed: list[Any] = files.column(_LOGS).to_pylist()
        logs = [
            tuple((path, log["size"]) for path, log in zip(of_slice, entries or (), strict=True))
            for of_slice, entries in zip(paths, listed, strict=True)
        ]
    return [
        FileSlice(partition, file_id, base, str(instant), log_files, base_size=size or 0, length=size or 0)
        for partition, file_id, base, instant, size, log_files in zip(*columns, logs, strict=True)
    ]


def log_paths(files: pa.Table, root: str = "") -> pa.Array[Any]:
    """The log files of slices in merge order, one list a slice, below a root; relative to the table without one."""
    if _LOGS not in files.column_names:
        return _lists(pa.array([], pa.string()), np.zeros(files.num_rows + 1, np.int32))
    logs: Any = one_chunk(files.column(_LOGS))
    counts = pc.fill_null(pc.list_value_length(logs), 0)
    offsets = np.concatenate([[0], np.cumsum(np.from_dlpack(counts.cast(pa.int64())))]).astype(np.int32)
    names = pc.struct_field(logs.flatten(), "file_name")
    folders = one_chunk(files.column("partition")).take(pc.list_parent_indices(logs))
    inside = pc.utf8_ltrim(pc.binary_join_element_wise(folders, names, "/"), characters="/")
    return _lists(pc.binary_join_element_wise(root, inside, "/") if root else inside, offsets)


def _lists(values: Any, offsets: NDArray[np.int32]) -> pa.Array[Any]:
    lists: Any = pa.ListArray.from_arrays(from_numpy(offsets), values)
    return lists  # type: ignore[no-any-return]
