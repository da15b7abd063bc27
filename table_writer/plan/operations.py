"""The write operations and how they differ."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn

from table_format.errors import OptionError, did_you_mean
from table_format.instant import Action


class Operation(Enum):
    """What a write does with its rows; the values are Apache's names in options and, in capitals, in commits."""

    UPSERT = "upsert"
    """New keys are inserted, known ones updated by the table's merge rule."""
    INSERT = "insert"
    """Rows are added; what happens to known keys is an option."""
    BULK_INSERT = "bulk_insert"
    """Rows are added as they are, duplicates too."""
    DELETE = "delete"
    """Records with the rows' keys are deleted; other columns are ignored."""
    INSERT_OVERWRITE = "insert_overwrite"
    """The partitions that the rows fall into are replaced by them."""
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    """All partitions are replaced."""
    DELETE_PARTITION = "delete_partition"
    """Whole partitions are deleted."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        names = [known.value for known in cls]
        raise OptionError(f"there is no operation {value!r}{did_you_mean(str(value), names)}; there are {names}")

    @property
    def commit_name(self) -> str:
        """The operation type in commit metadata."""
        return self.name

    @property
    def action(self) -> str:
        """The timeline's action."""
        return Action.REPLACECOMMIT if self.replaces else Action.COMMIT

    @property
    def replaces(self) -> bool:
        """Whether file groups are taken out of the table rather than rewritten."""
        return self in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE, Operation.DELETE_PARTITION)


class Duplicates(Enum):
    """What happens to a new row whose key is in the table already."""

    MERGE = "merge"
    ADD = "add"
    DROP = "drop"
    FAIL = "fail"


class SortMode(Enum):
    """How a bulk insert without buckets lays rows out in files; Apache's `hoodie.bulkinsert.sort.mode`."""

    NONE = "NONE"
    """Each partition of the DataFrame is written to its own files, in the order of its rows."""
    GLOBAL_SORT = "GLOBAL_SORT"
    """Files follow each other by partition and record key; this needs a shuffle."""
    PARTITION_SORT = "PARTITION_SORT"
    """Each partition of the DataFrame is written to its own files, sorted by partition and record key."""
