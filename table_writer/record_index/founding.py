"""Making the metadata table's partition `record_index`, empty or of base files that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from table_format.config.partition_metadata import ensure_partition_metadata
from table_format.instant import Action
from table_format.metadata_table import layout as names
from table_format.record_index.layout import IndexLayout
from table_format.storage import Storage
from table_writer.metadata import instants
from table_writer.record_index.commit import found_group


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A base file of an index that is being built.

    Attributes:
        group: ordinal of its file group in `IndexLayout.groups`.
        path: where it lies now, in the table's storage.
        size: bytes.
        rows: entries, at least one.
    """

    group: int
    path: str
    size: int
    rows: int


def found_index(storage: Storage, layout: IndexLayout, files: Sequence[BuiltFile], time: str) -> None:
    """Make all file groups of an index in one deltacommit of the metadata table, and move base files into them.

    Nobody reads the index before it is listed. Callers hold the table's lock; what a dead attempt left is gone.

    Args:
        storage: of the data table.
        layout: of the index.
        files: base files; file groups without one are empty.
        time: the init instant; see `metadata_table.layout.init_instant`.
    """
    instants.start(storage, time, Action.DELTACOMMIT)
    ensure_partition_metadata(storage, f"{names.FOLDER}/{names.RECORD_INDEX}", time)
    groups = layout.groups
    for group in groups:
        found_group(storage, group, time)
    stats = []
    for file in files:
        path = names.base_file_path(names.RECORD_INDEX, groups[file.group], time)
        storage.move(file.path, path)
        stats.append(instants.base_file_stat(names.RECORD_INDEX, path, file.size, file.rows))
    instants.complete(storage, time, Action.DELTACOMMIT, instants.commit_content(stats, "BULK_INSERT"))


def add_groups(storage: Storage, groups: Sequence[str], time: str) -> None:
    """Found further file groups, by their ids, in one deltacommit of the metadata table."""
    instants.start(storage, time, Action.DELTACOMMIT)
    for group in groups:
        found_group(storage, group, time)
    instants.complete(storage, time, Action.DELTACOMMIT, instants.commit_content([], "BULK_INSERT"))
