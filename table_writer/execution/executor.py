"""What runs the tasks of a write: Spark, or this process.

A write is a plan, tasks and a commit. The tasks are plain functions over Arrow data that pickle; an executor runs them
and moves rows between them. Stages that write files put `TaskIdentity.token` into their names, so that a task which
runs twice leaves two files, of which only the one in its returned result counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.errors import HudiError
from table_format.storage import Storage
from table_writer.execution.progress import WriteProgress
from table_writer.execution.slot_rows import SlotRows
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import TaskIdentity

T = TypeVar("T")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

Place = tuple[int, int]
"""Task and number of a block of rows: blocks in this order are the batch in its order."""
Stage = Callable[[Iterator[T], TaskIdentity], Iterator[R]]
"""A task's work: maps its share of the rows to results. It must pickle, as a `functools.partial` of a function does."""


@dataclass(frozen=True)
class SplitRows:
    """Keyed rows with the slot that each goes to.

    Attributes:
        place: in the batch; see `Place`.
        rows: the rows.
        slots: of each row.
    """

    place: Place
    rows: pa.Table
    slots: npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Block:
    """Rows kept for a second pass.

    Attributes:
        place: in the batch; see `Place`.
        head: small facts for the driver, which pickle. None when the block is handed to a stage again.
        rows: the rows.
        keys: columns for the driver to fetch without the rows; None for none.
    """

    place: Place
    head: Any
    rows: pa.Table
    keys: pa.Table | None = None


@dataclass(frozen=True)
class BlockHead:
    """Summary of a block for the driver.

    Attributes:
        place: see `Block`.
        rows: number of rows.
        head: see `Block`.
    """

    place: Place
    rows: int
    head: Any


class Rows(Generic[T_co]):
    """Rows divided among tasks, each of which iterates over its share; only their own executor can run them."""


class RowSource(Rows[pa.RecordBatch]):
    """The rows of a write, as the user gave them. They can be read repeatedly.

    Attributes:
        is_computed: whether they were computed from those of the table: they win whatever the ordering values are.
        new_keys: how many of the rows read so far have a record key that the table lacks; None if that is not known.
        gone_keys: likewise how many records they delete.
        is_selected: whether each row stands for one of the table that a condition selected, or for a new one: no other
            row may change.
        matched: of these, how many rows of the table were selected; None where that is not known.
    """

    is_computed: bool = False
    new_keys: int | None = None
    gone_keys: int | None = None
    is_selected: bool = False
    matched: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns in the types under which tables store them; top-level columns are nullable."""
        raise NotImplementedError

    def reads_table(self, storage: Storage, name: str) -> bool:  # noqa: ARG002 - a source whose values are fixed
        """Whether the rows are computed from a table as it was when the source was made.

        Writing such rows over a newer state of the table would undo other writers' changes.

        Args:
            storage: the table's.
            name: of the table.
        """
        return False

    def size(self) -> tuple[int, pa.Table] | None:
        """Number of rows, and a sample of them in the types that tables store; None if unknown."""
        return None


class Held(Rows[Block], AbstractContextManager["Held"]):
    """Blocks that are kept until the context ends."""

    @property
    def heads(self) -> Sequence[BlockHead]:
        """Summaries of the blocks."""
        raise NotImplementedError

    def keys(self) -> Mapping[Place, pa.Table]:
        """The driver's columns of blocks that have some."""
        raise NotImplementedError

    def release(self) -> None:
        """Free the blocks."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Mapper(Protocol):
    """`Executor.map`, for jobs that need nothing else of an executor.

    The function and the items must pickle, since another process may run them. A worker may run an item twice, so
    files that it writes need a unique name for each attempt; only the returned results count.
    """

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply the function to all items; results in the items' order; the first error is raised."""


class Executor(Protocol):
    """Runs the tasks of writes."""

    def with_options(self, options: WriteOptions) -> Self:
        """A copy of the executor with a write's options applied."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at a time."""

    @property
    def slots(self) -> int:
        """Slots over which the rows of a partitioned table are spread, if its buckets are fewer."""

    @property
    def task_memory(self) -> int | None:
        """Bytes of rows that a task should hold; None if the engine bounds its tasks' memory."""

    @property
    def footer_texts(self) -> Mapping[str, str]:
        """Keys of base files' footers, besides Hudi's."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items, a task each; see `Mapper`."""

    def dealt(self, items: Sequence[T]) -> Rows[T]:
        """Items, such as files to read, as rows of which each task has some: input of a stage of tasks.

        Args:
            items: they must pickle.
        """

    def collect(self, rows: Rows[T], stage: Stage[T, R]) -> list[R]:
        """Run a stage on rows, and return its results, which must be small, to the driver.

        Raises:
            HudiError: a task's error, with its class and fields.
        """

    def exchange(self, rows: Rows[T], split: Stage[T, SplitRows], slots: int) -> Rows[SlotRows]:
        """Bring rows to the task of their slot; lazy: runs when the result is collected or held.

        Args:
            rows: the rows.
            split: gives each row its slot.
            slots: number of slots. A task has one or several of them: a stage on the result iterates over a `SlotRows`
                for each of the task's slots that has rows.
        """

    def hold(self, rows: Rows[T], stage: Stage[T, Block]) -> Held:
        """Run a stage on rows, and keep its blocks for a second pass.

        Raises:
            HudiError: a task's error, with its class and fields.
        """

    def progress(self, mode: str) -> WriteProgress:
        """Progress of one write, for people; see `WriteProgress`."""

    def setting(self, key: str) -> str | None:
        """A setting of the engine's Hadoop configuration, such as `hive.metastore.uris`; None if unset."""


@dataclass(frozen=True)
class Failure:
    """A task's error as data: its class, arguments and fields.

    Exceptions whose constructors build their message from other arguments do not pickle.
    """

    data: bytes

    @classmethod
    def of(cls, error: HudiError) -> Failure:
        """Convert an error. If a field does not pickle, only the message is kept."""
        state = {
            **error.__dict__,
            **({"name": error.name, "path": error.path} if isinstance(error, ImportError) else {}),
        }
        try:
            return cls(pickle.dumps((type(error), error.args, state)))
        except Exception:  # noqa: BLE001  # a field may be anything
            return cls(pickle.dumps((HudiError, (f"{type(error).__name__}: {error}",), {})))

    def error(self) -> HudiError:
        """The error as it was raised."""
        # written by a task of this very process's
        kind, args, state = pickle.loads(self.data)  # noqa: S301
        # without the constructor, which would need its original arguments
        error: HudiError = kind.__new__(kind, *args)
        error.args = args
        error.__setstate__(state)
        return error
