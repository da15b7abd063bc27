"""The write operations and what tells them apart."""

from __future__ import annotations

from enum import Enum

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
    """The rows' keys go; their other columns are not looked at."""
    INSERT_OVERWRITE = "insert_overwrite"
    """The partitions that the rows fall into are replaced by them."""
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    """All partitions are replaced."""
    DELETE_PARTITION = "delete_partition"
    """Whole partitions go."""

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
    """What becomes of a new row whose key is in the table already."""

    MERGE = "merge"
    ADD = "add"
    DROP = "drop"
    FAIL = "fail"


class SortMode(Enum):
    """How a bulk insert without buckets lays rows out in files; Apache's `hoodie.bulkinsert.sort.mode`."""

    NONE = "NONE"
    """Each of the DataFrame's partitions has files of its own, with the rows in the order in which they come."""
    GLOBAL_SORT = "GLOBAL_SORT"
    """Files follow each other by partition and record key; this needs a shuffle."""
    PARTITION_SORT = "PARTITION_SORT"
    """Each of the DataFrame's partitions has files of its own, which follow each other by partition and record key."""
