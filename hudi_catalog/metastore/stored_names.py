"""Columns that a table's older files hold under another name, or not as they are now, after renames and drops."""

from __future__ import annotations

from catalog.snapshot.snapshot import Snapshot


def differing_names(snapshot: Snapshot, instant: str) -> list[str]:
    """The columns that readers by name, for whom case is nothing, would get wrong in the files of an instant.

    Those that it lacks are none.

    Args:
        snapshot: of the table.
        instant: that wrote the files.

    Raises:
        UnsupportedTableError: columns were renamed or dropped, and nothing tells which ones the files have.
    """
    history = snapshot.schema_history
    if history is None:
        return []
    names = snapshot.data_schema.names
    same = history.same_names(instant, names)
    stored = {column.name.lower() for column in history.stored_schema(instant).columns}
    physical = history.physical_names(instant, names)
    return [name for name in names if name not in same and (physical[name] is not None or name.lower() in stored)]
