"""The rows that a task gets from the shuffle, slot by slot, within a memory limit.

Blocks are kept compressed, as they arrived; those of one slot are decompressed when its files are written or, if they
exceed the task's memory, divided into temporary files by ranges of their keys.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_writer.blocks import payloads
from table_format.storage import stream_errors
from table_writer.execution.exchange import FileDivider, read_stream
from table_writer.execution.slot_rows import MemoryShare, Positions, SlotRows, TableSource
from table_writer.execution.spill_folder import SpillFolder
from table_writer.execution.task_memory import TaskMemory, release_free_memory

_MOST_WAITING: Final = 256 << 20


def slot_rows(
    batches: Iterable[pa.RecordBatch], memory: int | None = None, waiting: int | None = _MOST_WAITING
) -> Iterator[SlotRows]:
    """The rows of a task's slots, slot by slot, each in the order of the batch.

    Args:
        batches: of `SPLIT_SCHEMA`.
        memory: bytes that the task may take; None for no limit. See `TaskMemory`.
        waiting: bytes of compressed blocks to keep in memory, at most the share of `memory`; further ones go to a
            temporary file, which lasts as long as the iteration. None for no limit.
    """
    budget = TaskMemory.of(memory)
    bounds = [most for most in (waiting, None if budget is None else budget.waiting) if most is not None]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(SpillFolder(_local_folder()))
        share = None if budget is None else MemoryShare(budget.rows, _Divider(folder, budget.collected))
        slots = _by_slot(batches, min(bounds, default=None), stack)
        for slot in sorted(slots):
            blocks = slots.pop(slot)
            # The shuffle mixes blocks; their own order decides which of two equal versions is the later.
            blocks.sort(key=lambda block: (block.task, block.number))
            yield SlotRows(_Blocks(blocks), sum(block.nbytes for block in blocks), None, share)
            del blocks  # before the next ones are decompressed
            if budget is not None:
                release_free_memory()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A block of a slot.

    Attributes:
        task: of the first stage.
        number: of the block in it.
        nbytes: of its rows.
        payload: its compressed rows, or their position in `file`.
        file: a file of blocks; None for one in memory.
    """

    task: int
    number: int
    nbytes: int
    payload: Any
    file: Any = None

    def moved(self, file: Any) -> _Waiting:
        """Append this block to a file."""
        if self.file is not None:
            return self
        with stream_errors(tempfile.gettempdir()):
            place = (file.tell(), file.write(self.payload))
        return _Waiting(self.task, self.number, self.nbytes, place, file)

    @property
    def data(self) -> Any:
        """Its rows as an Arrow stream."""
        if self.file is None:
            return self.payload
        offset, length = self.payload
        self.file.seek(offset)
        return self.file.read(length)


@dataclass(frozen=True)
class _Blocks:
    """The blocks of a slot; each is decompressed lazily."""

    content: Sequence[_Waiting]

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, block by block."""
        return (read_stream(block.data, columns) for block in self.content)


@dataclass(frozen=True)
class _Divider:
    """Divides rows into parts in files of a folder that is created on demand; see `Divider`."""

    folder: SpillFolder
    flush_bytes: int

    def __call__(self, tables: Iterator[tuple[pa.Table, Positions]], parts: int) -> list[TableSource]:
        return FileDivider(self.folder.path, self.flush_bytes)(tables, parts)


def _by_slot(
    batches: Iterable[pa.RecordBatch], most: int | None, stack: contextlib.ExitStack
) -> dict[Any, list[_Waiting]]:
    """The blocks of each slot, `waiting` bytes of them in memory; the stack closes the file of the others."""
    slots: dict[Any, list[_Waiting]] = {}
    file: Any = None
    size = 0
    for batch in batches:
        columns: Any = [batch.column(name).to_pylist() for name in ("slot", "nbytes")]
        for slot, nbytes, (task, number, payload) in zip(*columns, payloads(batch), strict=True):
            slots.setdefault(slot, []).append(_Waiting(task, number, nbytes, payload))
            size += payload.size
            del payload
        # before the next one is read; blocks in memory keep what they need of it
        del batch, columns
        if most is not None and size > most:
            if file is None:
                file = stack.enter_context(tempfile.TemporaryFile(dir=_local_folder()))  # noqa: SIM115 - it does
            slots = {slot: [block.moved(file) for block in blocks] for slot, blocks in slots.items()}
            size = 0
    return slots


def _local_folder() -> str | None:
    """Folder for temporary files of Spark's workers; None for the system's own."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
