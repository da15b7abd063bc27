"""When a Parquet file is not spliced but written anew as a whole."""

from __future__ import annotations

import re

from table_format.base_file.footer import BaseFileFooter

# Before 1.8, parquet-java wrote wrong statistics of strings (PARQUET-251) and delta encodings that readers treat by
# the file's creator (PARQUET-246), which is one for all row groups.
_OLD_JAVA = re.compile(r"parquet-mr(?: version 1\.[0-7](?:\D|$)|\s*$| version 0)")


class CannotSplice(Exception):  # noqa: N818 - a signal to whoever called, who writes the file anew; no error of users
    """The file, or the edit, is not one that surgery can do for certain; the file is to be written anew.

    Attributes:
        reason: why, for the log.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def why_not(footer: BaseFileFooter) -> str | None:
    """Why a file cannot be spliced at all, as far as pyarrow's view of its footer tells; None when it may be.

    It is cheap, and saves the look at the rows. `splice` looks closer and may still refuse.
    """
    metadata = footer.metadata
    if metadata.num_row_groups == 0:
        return "the file has no row groups"
    if old_java(metadata.created_by or ""):
        return f"readers treat files of {metadata.created_by!r} otherwise"
    names = footer.schema.names
    if len(set(names)) != len(names):
        return "two columns have one name"
    if metadata.num_columns == 0:
        return "the file has no columns"
    return None


def old_java(created_by: str) -> bool:
    """Whether the creator is a release of parquet-java whose files readers treat in another way."""
    return _OLD_JAVA.match(created_by) is not None
