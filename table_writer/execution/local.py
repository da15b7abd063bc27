"""Runs a write's tasks in this process's threads or in child processes, within a memory limit."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from table_format.errors import ArgumentError, HudiError, TransactionError
from table_format.threads import within_threads
from table_writer.execution.exchange import Segments, SlotStore, SpillFile
from table_writer.execution.executor import Block, BlockHead, Failure, Held, Place, Rows, SplitRows, Stage
from table_writer.execution.progress import WriteProgress
from table_writer.execution.slot_rows import InMemory, SlotRows, TableSource
from table_writer.execution.sources import ArrowRows
from table_writer.execution.spill_folder import SpillFolder
from table_writer.execution.task_memory import pages_kept
from table_writer.plan import executor_options
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import TaskIdentity

T = TypeVar("T")
R = TypeVar("R")
Share = Callable[[], Iterator[Any]]

#: In files that do not name Spark 3 or later, Spark's readers rebase dates before 1582.
_CALENDAR_OF_TODAY: Final = {"org.apache.spark.version": "4.0.0"}
_LARGEST_CHUNK: Final = 32 << 20
_LEAST_MEMORY: Final = 16 << 20
# Buffers of the files that a task reads and writes take this much, however few its rows.
_TASK_MEMORY: Final = 12 << 20
# Divisors of the limit: for rows that wait for their slot, rows that tasks key, sort and encode in several copies, and
# batches on their way to tasks.
_WAITING: Final = 5
_WORKED_ON: Final = 12
_IN_FLIGHT: Final = 16


class LocalExecutor:
    """Runs a write's tasks in this process.

    Args:
        threads: tasks at a time, fewer where the memory limit has less than 12 MiB for each; None for one per core.
        processes: processes for the tasks that write files; 0 for threads. They are started anew for each write, and
            import the program's main module, which needs the usual `if __name__ == "__main__":`.
        memory: approximate bytes of Arrow data that a write holds; rows beyond it are spilled to temporary files. None
            for a quarter of the machine's memory.
        folder: for temporary files; None for the system's own.

    Raises:
        ArgumentError: a number that is too small.
    """

    footer_texts: Mapping[str, str] = _CALENDAR_OF_TODAY

    def __init__(
        self,
        threads: int | None = None,
        *,
        processes: int = 0,
        memory: int | None = None,
        folder: str | None = None,
    ) -> None:
        if (threads is not None and threads < 1) or processes < 0:
            raise ArgumentError(
                f"threads={threads}, processes={processes}: give 1 or more threads, 0 or more processes"
            )
        if memory is not None and memory < _LEAST_MEMORY:
            raise ArgumentError(
                f"memory={memory}, or hoodie.catalog.executor.memory: give {_LEAST_MEMORY} bytes or more"
            )
        self.memory = memory or max(_LEAST_MEMORY, _machine_memory() // 4)
        most = self.memory // _TASK_MEMORY
        self.threads = min(threads or _cores(), most)
        self.processes = min(processes, most)
        self.folder = folder

    @classmethod
    def of(cls, options: WriteOptions) -> LocalExecutor:
        """An executor with the options `hoodie.catalog.executor.*`."""
        return cls(
            options.number(executor_options.THREADS),
            processes=options.number(executor_options.PROCESSES) or 0,
            memory=options.number(executor_options.MEMORY),
            folder=options.text(executor_options.TEMPORARY_FOLDER),
        )

    def with_options(self, options: WriteOptions) -> Self:  # noqa: ARG002 - the protocol's
        """This executor: its limits were given when it was made."""
        return self

    @property
    def parallelism(self) -> int:
        """Tasks at a time."""
        return self.processes or self.threads

    @property
    def slots(self) -> int:
        """Two per task, so that the tasks end together."""
        return 2 * self.parallelism

    @property
    def task_memory(self) -> int:
        """Bytes of rows that a task should hold."""
        return max(1 << 20, self.memory // (_WORKED_ON * self.parallelism))

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply a function to items; see `Executor`."""
        shares = [_one(item) for item in items]
        return [result for results in self._run(shares, _Applied(function), self.processes) for result in results]

    def dealt(self, items: Sequence[T]) -> Rows[T]:
        """Items as rows, a task each; see `Executor`."""
        return SharesInMemory([(item,) for item in items])

    def collect(self, rows: Rows[T], stage: Stage[T, R]) -> list[R]:
        """Run a stage on rows; see `Executor`."""
        with contextlib.ExitStack() as stack:
            results = self._results(rows, stage, stack)
            return [result for part in results for result in part]

    def exchange(self, rows: Rows[T], split: Stage[T, SplitRows], slots: int) -> Rows[SlotRows]:
        """Bring rows to their slots; see `Executor`."""
        return _Exchange(rows, split, slots)

    def hold(self, rows: Rows[T], stage: Stage[T, Block]) -> Held:
        """Keep the blocks of a stage; see `Executor`."""
        apart = isinstance(rows, SharesInMemory)
        held = LocalHeld(self.memory // _WAITING, SpillFolder(self.folder), apart=apart)
        try:
            with contextlib.ExitStack() as stack:
                for blocks in self._results(rows, stage, stack, in_threads=True):
                    for block in blocks:
                        held.add(block)
        except BaseException:
            held.release()
            raise
        return held

    def progress(self, mode: str) -> WriteProgress:
        """Progress of one write."""
        return WriteProgress(mode)

    def setting(self, key: str) -> str | None:  # noqa: ARG002 - the protocol's
        """None: there is no Hadoop configuration."""
        return None

    def _results(
        self, rows: Rows[T], stage: Stage[T, R], stack: contextlib.ExitStack, *, in_threads: bool = False
    ) -> Iterator[list[R]]:
        """A stage's results, task by task; closing the stack releases the tasks' input."""
        if isinstance(rows, _Exchange):
            slots = self._exchanged(rows, stack)
            return self._run([_one(slot) for slot in slots], stage, 0 if in_threads else self.processes)
        if isinstance(rows, SharesInMemory):
            return self._run([_Listed(share) for share in rows.shares], stage, 0)
        if isinstance(rows, LocalHeld):
            return self._run([_Loaded(run) for run in rows.runs(self.task_memory)], stage, 0)
        if isinstance(rows, ArrowRows):
            most = min(_LARGEST_CHUNK, max(1 << 20, self.memory // (_IN_FLIGHT * self.threads)))
            return self._run((_Listed(chunk) for chunk in rows.chunks(most)), stage, 0)
        raise ArgumentError(f"a LocalExecutor takes Arrow data, not {type(rows).__name__}")

    def _exchanged(self, exchange: _Exchange, stack: contextlib.ExitStack) -> list[SlotRows]:
        folder = stack.enter_context(SpillFolder(self.folder))
        # another process gets rows in files only
        store = SlotStore(exchange.slots, 0 if self.processes else self.memory // _WAITING, folder)
        with contextlib.ExitStack() as inner:
            for parts in self._results(exchange.rows, exchange.split, inner, in_threads=True):
                for part in parts:
                    store.add(part.rows, part.slots)
        return store.finished(self.task_memory, self.threads)

    def _run(self, shares: Iterable[Share], stage: Stage[Any, R], processes: int) -> Iterator[list[R]]:
        """Run a stage on each share, in tasks; the results come in the order of the shares."""
        workers = processes or self.threads
        # a task that is alone has all cores
        side_by_side = min(workers, len(shares)) if isinstance(shares, Sized) else workers
        task = partial(_sealed if processes else _task, stage, max(1, _cores() // max(1, side_by_side)))
        if processes:
            # threads of this process may hold locks that a fork would copy
            context = multiprocessing.get_context("spawn")
            pool: Pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent)
        else:
            pool = ThreadPoolExecutor(self.threads, thread_name_prefix="hudi-write")
        pending: deque[Future[list[R] | Failure]] = deque()
        with pages_kept():
            try:
                for number, share in enumerate(shares):
                    pending.append(pool.submit(task, share, number))
                    # shares are large: only as many are queued as keep the tasks busy
                    if len(pending) > 2 * self.parallelism:
                        yield _result(pending.popleft())
                while pending:
                    yield _result(pending.popleft())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True)
class SharesInMemory(Rows[T]):
    """Rows in memory, in shares for tasks; no task gets rows of two shares."""

    shares: Sequence[Sequence[T]]


@dataclass(frozen=True)
class _Exchange(Rows[SlotRows]):
    rows: Rows[Any]
    split: Stage[Any, SplitRows]
    slots: int


@dataclass(frozen=True)
class _HeldBlock:
    head: BlockHead
    nbytes: int
    rows: TableSource
    keys: TableSource | None


class LocalHeld(Held):
    """Blocks in memory up to a limit, spilled to files beyond it.

    Args:
        limit: bytes of rows in memory.
        folder: for the files.
        apart: keep blocks of different tasks separate.
    """

    def __init__(self, limit: int, folder: SpillFolder, *, apart: bool = False) -> None:
        self._limit = limit
        self._folder = folder
        self._apart = apart
        self._size = 0
        self._blocks: list[_HeldBlock] = []

    def add(self, block: Block) -> None:
        """Keep a block."""
        head = BlockHead(block.place, block.rows.num_rows, block.head)
        size = block.rows.nbytes
        rows: TableSource
        keys: TableSource | None
        if self._size + size <= self._limit:
            self._size += size
            rows, keys = InMemory((block.rows,)), None if block.keys is None else InMemory((block.keys,))
        else:
            with SpillFile(self._folder.path) as file:
                rows = Segments((file.write(block.rows),))
                keys = None if block.keys is None else Segments((file.write(block.keys),))
        self._blocks.append(_HeldBlock(head, size, rows, keys))

    @property
    def heads(self) -> Sequence[BlockHead]:
        """What the driver knows of each block."""
        return [block.head for block in self._blocks]

    def keys(self) -> Mapping[Place, pa.Table]:
        """The columns for the driver."""
        return {block.head.place: next(block.keys.tables()) for block in self._blocks if block.keys is not None}

    def runs(self, most: int) -> Iterator[list[_HeldBlock]]:
        """Consecutive blocks, as many at a time as fit into `most` bytes."""
        run: list[_HeldBlock] = []
        size = 0
        for block in self._blocks:
            other = self._apart and bool(run) and block.head.place[0] != run[-1].head.place[0]
            if run and (other or size + block.nbytes > most):
                yield run
                run, size = [], 0
            run.append(block)
            size += block.nbytes
        if run:
            yield run

    def release(self) -> None:
        """Free the blocks."""
        self._blocks = []
        self._folder.remove()


@dataclass(frozen=True)
class _Loaded:
    """The blocks of a run, each read when the task comes to it."""

    blocks: Sequence[_HeldBlock]

    def __call__(self) -> Iterator[Block]:
        for block in self.blocks:
            yield Block(block.head.place, None, next(iter(block.rows.tables())))


@dataclass(frozen=True)
class _Listed:
    content: Sequence[Any]

    def __call__(self) -> Iterator[Any]:
        return iter(self.content)


@dataclass(frozen=True)
class _Applied:
    function: Callable[[Any], Any]

    def __call__(self, items: Iterator[Any], _: TaskIdentity) -> Iterator[Any]:
        return map(self.function, items)


def _end_with_parent() -> None:
    """End this worker process when the process that started it is gone: a killed one cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="hudi-parent", daemon=True).start()


def _one(item: object) -> _Listed:
    return _Listed((item,))


def _task(stage: Stage[Any, R], threads: int, share: Share, number: int) -> list[R]:
    # threads do not retry, so the instant and the number identify a task
    with within_threads(threads):
        return list(stage(share(), TaskIdentity(number, f"{number}-0-0")))


def _sealed(stage: Stage[Any, R], threads: int, share: Share, number: int) -> list[R] | Failure:
    try:
        return _task(stage, threads, share, number)
    except HudiError as error:
        return Failure.of(error)


def _result(future: Future[list[R] | Failure]) -> list[R]:
    try:
        result = future.result()
    except BrokenProcessPool as error:
        raise TransactionError(
            "a worker process ended unexpectedly, perhaps killed by the system for the memory it used; nothing was "
            "written. Lower hoodie.catalog.executor.memory or hoodie.catalog.executor.processes"
        ) from error
    if isinstance(result, Failure):
        raise result.error()
    return result


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _machine_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return 4 << 30
