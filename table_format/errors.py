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
    │   ├── NoSpaceError                             the disk is full, or a quota is used up
    │   └── UnusablePathError                        a path without rights, of another kind, or out of bounds
    ├── TransactionError        (RuntimeError)
    │   ├── ConflictError                            another writer changed the same file groups
    │   └── LockError                                the table lock could not be taken in time
    ├── RecordIndexError        (RuntimeError)       the record index is missing, stale or does not fit the request
    ├── PendingWriteError       (RuntimeError)       a pending write lies in an incremental range
    ├── UndoneWriteError        (RuntimeError)       an incremental range begins at a write that was taken back
    ├── AfterCommitError        (RuntimeError)       the commit is complete; a step after it failed
    ├── ServiceError            (RuntimeError)       a service of an engine cannot answer a request
    │   ├── SplitError          (ValueError)         a split id that is forged, expired, or another service's
    │   ├── LateTableError                           a table whose storage does not respond
    │   └── MetastoreError                           the Hive Metastore refused, or was not reachable
    └── ExpressionError         (ValueError)         filters; see `pushdown.errors`

Each class also derives from the matching builtin, so that generic handlers work. Every message says what was wrong,
where, and what to do about it. `did_you_mean` makes hints for unknown names.
"""

from __future__ import annotations

import copy
import difflib
import importlib.util
import re
from collections.abc import Iterable
from typing import Self


def error_text(error: BaseException) -> str:
    """What an error says, and its notes, which say what to do, on one line.

    >>> error = HudiError("the writes conflict")
    >>> error.add_note("given up after 4 attempts")
    >>> error_text(error)
    'the writes conflict given up after 4 attempts'
    """
    return " ".join(" ".join([str(error), *getattr(error, "__notes__", ())]).split())


class HudiError(Exception):
    """Root of every error that this product raises deliberately."""

    def about(self, name: str) -> Self:
        """The error with a name before its text, as of a table among several; itself where the text has the name."""
        text = str(self)
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text):
            return self
        named = copy.copy(self)  # threads may share this one
        named.args = (f"{name}: {text}", *self.args[1:])
        return named


class TableNotFoundError(HudiError, FileNotFoundError):
    """There is no Hudi table at this location."""


class TableExistsError(HudiError, FileExistsError):
    """A table exists already at this location."""


class UnsupportedTableError(HudiError, NotImplementedError):
    """The table has a version or feature that this release does not support, and refuses rather than half-read it."""


class CorruptFileError(HudiError, ValueError):
    """Bytes that break the format.

    Attributes:
        path: the file, relative to the table, or the caller's name for it.
        offset: byte offset at which the fault was detected.
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
    """An argument of an unsupported type, such as a pandas DataFrame in place of Spark's."""


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


class UnusablePathError(StorageError):
    """A path is refused until somebody changes it: its rights, its kind, or where its links lead."""


class TransactionError(HudiError, RuntimeError):
    """A write failed; none of it is visible."""


class ConflictError(TransactionError):
    """Another writer changed the same file groups first."""


class RecordIndexError(HudiError, RuntimeError):
    """The record index cannot be used: it is missing, stale, or does not fit the request."""


class LockError(TransactionError):
    """The table lock could not be taken in time."""


class PendingWriteError(HudiError, RuntimeError):
    """A pending write lies in an incremental range; a reader that went past it would miss its rows for ever."""


class UndoneWriteError(HudiError, RuntimeError):
    """An incremental range begins at a write that was taken back: its reader has rows that the table no longer has.

    Attributes:
        begin: the newest write before it that still counts, `earliest` where there is none.
    """

    def __init__(self, message: str, begin: str) -> None:
        super().__init__(message)
        self.begin = begin


class AfterCommitError(HudiError, RuntimeError):
    """A write is committed, but a step after the commit, such as the sync to a metastore, failed.

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
    """A split id or page token was not issued by this service, or has expired."""


class MetastoreError(ServiceError):
    """The Hive Metastore refused a request or was not reachable."""


class LateTableError(ServiceError):
    """The storage of a table does not respond; other tables are still served."""


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """Up to three known names most similar to an unknown one, best first; case does not matter.

    Args:
        name: the unknown name.
        known: the known names.
        likeness: least similarity, 1 for equal names; see `difflib.SequenceMatcher.ratio`.
    """
    spelt = {each.lower(): each for each in known}
    best = difflib.get_close_matches(name.strip().lower(), spelt, 3, likeness)
    ratios = [difflib.SequenceMatcher(None, each, name.strip().lower()).ratio() for each in best]
    # beside an almost equal name, names that are only similar do not help
    return [spelt[each] for each, ratio in zip(best, ratios, strict=True) if 1 - ratio <= 2 * (1 - ratios[0])]


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Hint for a message about an unknown name: ` (did you mean a or b?)`, or empty; see `nearest`."""
    near = nearest(str(name), known, likeness)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def require(what: str, extra: str, *packages: str, how: str | None = None) -> None:
    """Check that packages are installed.

    Args:
        what: the command or feature that needs them.
        extra: the extra of `hudi-catalog` that installs them.
        packages: import names.
        how: how to install them, if not by the extra.

    Raises:
        MissingPackageError: one of them is not.
    """
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        command = how or f"pip install 'hudi-catalog[{extra}]'"
        raise MissingPackageError(f"{what} needs {', '.join(missing)}: {command}", name=missing[0])


def is_installed(package: str) -> bool:
    """Whether a package is installed, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # `sys.modules` has None in its place, which blocks its import
        return False
