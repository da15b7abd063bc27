"""Errors of Spark's workers: a `HudiError` reaches the driver with its class and fields, as it was raised.

Spark gives the driver a worker's error as the text of a report, next to the JVM's stack. A worker therefore pickles its
error into that text, between marks with a token of the driver: nothing else in a report is mistaken for our error,
whatever a row, a file name or a user's function puts there.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from table_format.errors import HudiError
from table_format.threads import use_one_core
from table_writer.execution.executor import Failure
from table_writer.execution.task_memory import keeping_pool

Batches = Iterable[pa.RecordBatch]
Worker = Callable[[Batches], Iterator[pa.RecordBatch]]

# The driver's token, one per process; workers get it with their function.
_TOKEN: Final = secrets.token_hex(8)
_NOTE: Final = (
    "hudi-catalog: one of its Spark jobs failed with an error of another origin; Spark's report is "
    "above. A write that fails leaves the table as it was."
)


class WorkerFailure(Exception):  # noqa: N818  # users never see this error
    """A `HudiError` on its way through Spark: its message for the log, and the whole error for the driver."""


def in_worker(work: Worker, *, lazy: bool = False) -> Worker:
    """A function for `mapInArrow` that first sets its process up.

    Args:
        work: the function's work.
        lazy: the user collects the rows, outside of `workers_errors`: errors stay as they are.
    """
    token = None if lazy else _TOKEN

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        _prepare()
        try:
            yield from work(batches)
        except HudiError as error:
            if token is None:
                raise
            raise WorkerFailure(_sealed(error, token)) from None

    return run


@contextlib.contextmanager
def workers_errors() -> Iterator[None]:
    """Raise a `HudiError` of a worker as itself, without Spark's report of it and the JVM's stack.

    Other errors, such as one of a user's function or a worker that was killed, stay as Spark reports them, with a note.
    """
    try:
        yield
    except HudiError:
        raise
    except Exception as error:
        original = _unsealed(error, _TOKEN)
        if original is None:
            if type(error).__module__.startswith(("pyspark.", "py4j.")):
                error.add_note(_NOTE)
            raise
        raise original from None


def _sealed(error: HudiError, token: str) -> str:
    """An error as text that `_unsealed` reads."""
    data = base64.b64encode(Failure.of(error).data).decode()
    return f"{type(error).__name__}: {error} [hudi-catalog:{token}:{data}]"


def _unsealed(report: Exception, token: str) -> HudiError | None:
    """The error that a worker of this driver put into Spark's report; None if it is about something else."""
    seal = re.search(rf"\[hudi-catalog:{token}:([A-Za-z0-9+/=]+)\]", str(report))
    return None if seal is None else Failure(base64.b64decode(seal[1])).error()


def _prepare() -> None:
    """Set a worker's process up: Arrow keeps freed memory for the next column, and one thread computes.

    Arrow's usual pool hands it back to the system, and getting it again took a sixth of the workers' time. A task has
    one core; more threads would take those of other tasks. PySpark collects garbage after each task; the modules, which
    stay, are set aside once.
    """
    _set_modules_aside()
    pa.set_memory_pool(keeping_pool() or pa.system_memory_pool())
    use_one_core()


@functools.cache
def _set_modules_aside() -> None:
    """Once a process, since to count what is set aside already takes milliseconds."""
    if not gc.get_freeze_count():
        gc.freeze()
