"""What runs the tasks of a write: Spark, or this process.

A write is a plan, tasks and a commit. The tasks are plain functions over Arrow data that pickle; an executor runs them,
and moves rows between them. Stages that write files name them after `TaskIdentity.token`, so that a task which runs
twice leaves two files, of which only the one that comes back counts.
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
from table_writer.plan.plan import TaskIdentity

T = TypeVar("T")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

Place = tuple[int, int]
"""Task and number of a block of rows: blocks in this order are the batch in its order."""
Stage = Callable[[Iterator[T], TaskIdentity], Iterator[R]]
"""What a task does: from its share of some rows to results. It pickles, as `functools.partial` of a function does."""


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
    """Rows that are held for a second pass.

    Attributes:
        place: in the batch; see `Place`.
        head: what the driver is to know of them: small, and pickles. None when the block comes back to a stage.
        rows: the rows.
        keys: columns that the driver may ask for without the rows; None where it won't.
    """

    place: Place
    head: Any
    rows: pa.Table
    keys: pa.Table | None = None


@dataclass(frozen=True)
class BlockHead:
    """What the driver knows of a block.

    Attributes:
        place: see `Block`.
        rows: how many.
        head: see `Block`.
    """

    place: Place
    rows: int
    head: Any


class Rows(Generic[T_co]):
    """Rows dealt out to tasks, each of which iterates over its share; only the executor that made them can run them."""


class RowSource(Rows[pa.RecordBatch]):
    """The rows of a write, as the user gave them. They can be read several times."""

    @property
    def schema(self) -> pa.Schema:
        """Columns in the types under which tables store them; top-level columns are nullable."""
        raise NotImplementedError

    def reads_table(self, storage: Storage, name: str) -> bool:  # noqa: ARG002 - a source whose values are fixed
        """Whether the rows are computed from a table as it was when the source was made.

        Such rows written over a newer state of the table would undo what another writer did in between.

        Args:
            storage: the table's.
            name: of the table.
        """
        return False

    def size(self) -> tuple[int, pa.Table] | None:
        """How many rows there are, and some of them in the types that tables store; None where that is not known."""
        return None


class Held(Rows[Block], AbstractContextManager["Held"]):
    """Blocks that are kept until the context ends."""

    @property
    def heads(self) -> Sequence[BlockHead]:
        """What the driver knows of each block."""
        raise NotImplementedError

    def keys(self) -> Mapping[Place, pa.Table]:
        """The columns for the driver, of the blocks that have some."""
        raise NotImplementedError

    def release(self) -> None:
        """Let the blocks go."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Executor(Protocol):
    """Runs the tasks of writes."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at a time."""

    @property
    def task_memory(self) -> int | None:
        """Bytes of rows that a task should hold; None where the engine bounds its tasks' memory."""

    @property
    def footer_texts(self) -> Mapping[str, str]:
        """Keys of base files' footers, besides Hudi's."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items, a task each; see `table_format.mapping.Mapper`."""

    def collect(self, rows: Rows[T], stage: Stage[T, R]) -> list[R]:
        """Run a stage on rows, and bring its results, which are small, to the driver.

        Raises:
            HudiError: a task's error, with its class and fields.
        """

    def exchange(self, rows: Rows[T], split: Stage[T, SplitRows], slots: int) -> Rows[SlotRows]:
        """Bring rows to the task of their slot; it runs when the result is collected or held.

        Args:
            rows: the rows.
            split: tells the slot of each row.
            slots: how many there are; each is one task. A stage on the result iterates over one `SlotRows`, or none
                where no row has the slot.
        """

    def hold(self, rows: Rows[T], stage: Stage[T, Block]) -> Held:
        """Run a stage on rows, and keep its blocks for a second pass.

        Raises:
            HudiError: a task's error, with its class and fields.
        """

    def progress(self, mode: str) -> WriteProgress:
        """Progress of one write, for people; see `WriteProgress`."""

    def setting(self, key: str) -> str | None:
        """A setting of the engine's Hadoop configuration, such as `hive.metastore.uris`; None where it has none."""


@dataclass(frozen=True)
class Failure:
    """A task's error as data: its class, arguments and fields.

    Exceptions whose constructors build their message out of other arguments do not pickle by themselves.
    """

    data: bytes

    @classmethod
    def of(cls, error: HudiError) -> Failure:
        """Take an error apart. A field that does not pickle leaves its message only."""
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
        # not made anew: constructors build messages out of arguments that are gone
        error: HudiError = kind.__new__(kind, *args)
        error.args = args
        error.__setstate__(state)
        return error
