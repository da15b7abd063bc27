"""The error tree of the whole product.

::

    HudiError
    ├── TableNotFoundError      (FileNotFoundError)  no Hudi table at that place
    ├── TableExistsError        (FileExistsError)    create() on an existing table
    ├── UnsupportedTableError   (NotImplementedError) a version, type or feature that is not read or written
    ├── CorruptFileError        (ValueError)         bytes that break the format; names file and offset
    ├── OptionError             (ValueError)         an option or table property that cannot be used
    ├── ArgumentError           (TypeError)          an argument of a kind that a call does not take
    ├── MissingPackageError     (ImportError)        a Python package that is not installed
    ├── SchemaError             (ValueError)         columns or types that do not fit the table
    ├── RecordError             (ValueError)         a row that cannot be stored, e.g. an empty record key
    ├── StorageError            (OSError)            the storage failed or was not reachable
    │   ├── AlreadyExistsError  (FileExistsError)    an exclusive create found the name taken
    │   ├── MissingFileError    (FileNotFoundError)  a file that should be there is not
    │   └── NoSpaceError                             the disk is full, or a quota is used up
    ├── TransactionError        (RuntimeError)
    │   ├── ConflictError                            another writer changed the same file groups
    │   └── LockError                                the table lock could not be taken in time
    ├── PendingWriteError       (RuntimeError)       an incremental range that a pending write belongs to
    ├── AfterCommitError        (RuntimeError)       the commit is complete; what was to follow it failed
    ├── ServiceError            (RuntimeError)       an engine's service: a request that cannot be answered
    │   ├── SplitError          (ValueError)         a split id that is forged, expired, or not of this service
    │   ├── LateTableError                           a table whose storage does not answer
    │   └── MetastoreError                           the Hive Metastore refused, or was not reachable
    └── ExpressionError         (ValueError)         filters; see `pushdown.errors`

Each class also derives from the builtin that it resembles, so that generic handlers work. Every message says what
was found where, and what to do about it. `did_you_mean` has the words for names that are not known.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable


class HudiError(Exception):
    """Root of every error that this product raises on purpose."""


class TableNotFoundError(HudiError, FileNotFoundError):
    """There is no Hudi table at the given place."""


class TableExistsError(HudiError, FileExistsError):
    """A table was to be created where one stands already."""


class UnsupportedTableError(HudiError, NotImplementedError):
    """The table is of a version or uses a feature that this release refuses by name rather than half-read."""


class CorruptFileError(HudiError, ValueError):
    """Bytes that break the format.

    Attributes:
        path: the file, relative to the table, or as the caller named it.
        offset: byte offset at which the fault was seen.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path}: at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[CorruptFileError], tuple[str, int, str]]:
        return type(self), (self.path, self.offset, self.reason)


class OptionError(HudiError, ValueError):
    """An option or table property holds a value that cannot be used; the message names the key."""


class ArgumentError(HudiError, TypeError):
    """An argument of a kind that a call does not take, such as a pandas frame in place of Spark's."""


class MissingPackageError(HudiError, ImportError):
    """A Python package is not installed; the message has the command that installs it."""


class OptionWarning(UserWarning):
    """An option that has no effect; `warnings.simplefilter("ignore", OptionWarning)` silences it."""


class SchemaError(HudiError, ValueError):
    """Columns or types that do not fit the table."""


class RecordError(HudiError, ValueError):
    """A row that cannot be stored, such as one without a record key."""


class StorageError(HudiError, OSError):
    """The storage failed, or could not be reached."""


class AlreadyExistsError(StorageError, FileExistsError):
    """An exclusive create found the name taken."""


class MissingFileError(StorageError, FileNotFoundError):
    """A file that the table refers to is not there."""


class NoSpaceError(StorageError):
    """The file system has no space left for a file, or the user's quota is used up."""


class TransactionError(HudiError, RuntimeError):
    """A write could not be carried out; nothing of it is visible."""


class ConflictError(TransactionError):
    """Another writer changed the same file groups first."""


class RecordIndexError(HudiError, RuntimeError):
    """The record index cannot be used as asked: it is not there, is stale, or does not fit the request."""


class LockError(TransactionError):
    """The table lock could not be taken in time."""


class PendingWriteError(HudiError, RuntimeError):
    """A write that is still pending belongs to an incremental range, whose reader would miss its rows for good."""


class AfterCommitError(HudiError, RuntimeError):
    """A write is committed, and what was to follow, such as the sync to a metastore, failed.

    Attributes:
        instant: of the commit.
    """

    def __init__(self, instant: str, reason: str) -> None:
        super().__init__(f"the commit {instant} is complete, do not repeat it; what was to follow failed: {reason}")
        self.instant = instant
        self.reason = reason

    def __reduce__(self) -> tuple[type[AfterCommitError], tuple[str, str]]:
        return type(self), (self.instant, self.reason)


class ServiceError(HudiError, RuntimeError):
    """A service cannot answer a request, or a server that it needs does not answer."""


class SplitError(ServiceError, ValueError):
    """A split id or page token is not one that this service gave out, or is too old."""


class MetastoreError(ServiceError):
    """The Hive Metastore refused a request or was not reachable."""


class LateTableError(ServiceError):
    """The storage of a table does not answer; other tables are served meanwhile."""


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """The known names that look most like another one, upper and lower case being one; at most three, the best first.

    Args:
        name: that is not known.
        known: names that are.
        likeness: how much alike two names must be, 1 being equal; see `difflib.SequenceMatcher.ratio`.
    """
    spelt = {each.lower(): each for each in known}
    best = difflib.get_close_matches(name.strip().lower(), spelt, 3, likeness)
    ratios = [difflib.SequenceMatcher(None, each, name.strip().lower()).ratio() for each in best]
    # beside one that is almost equal those that are only alike say nothing
    return [spelt[each] for each, ratio in zip(best, ratios, strict=True) if 1 - ratio <= 2 * (1 - ratios[0])]


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """What to say behind a name that is not known: ` (did you mean a or b?)`, or nothing; see `nearest`."""
    near = nearest(name, known, likeness)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def require(what: str, extra: str, *packages: str, how: str | None = None) -> None:
    """Check that packages are installed.

    Args:
        what: needs them, such as a command.
        extra: of `hudi-catalog` that brings them along.
        packages: by the names under which they are imported.
        how: what to do, where it is something else than installing the extra.

    Raises:
        MissingPackageError: one of them is not.
    """
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        command = how or f"pip install 'hudi-catalog[{extra}]'"
        raise MissingPackageError(f"{what} needs {', '.join(missing)}: {command}", name=missing[0])


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # somebody keeps it out, by None in its place
        return False
