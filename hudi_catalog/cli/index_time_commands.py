"""The commands that show entries of the record index, now, as of an instant, or between two: `lookup`, `changes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table as RichTable

from hudi_catalog.cli.arguments import Json, TablePath, counted
from hudi_catalog.cli.index_commands import ProgressThreads, print_facts
from table_format.table.client import TableClient

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 1000


def index_lookup(
    path: TablePath,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Record keys, as in _hoodie_record_key.")],
    *,
    as_of: Annotated[str | None, typer.Option("--as-of", help="Instant or time; now if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Show the file groups of record keys by the record index; exit code 1 if a key is not in the table."""
    from table_writer.record_index.key_changes import index_entries

    with ProgressThreads() as view:
        entries = index_entries(TableClient.open(path), keys, as_of, mapper=view, progress=view.begin_step)
    unknown = sorted(set(keys) - set(entries["key"].to_pylist()))
    print_facts({"entries": entries.to_pylist(), "unknown": unknown}, entry_lines(entries, unknown), as_json=as_json)
    if unknown:
        raise typer.Exit(1)


def index_changes(
    path: TablePath,
    begin: Annotated[str, typer.Argument(metavar="BEGIN", help="Instant or time, not part of the range.")],
    *,
    end: Annotated[
        str | None, typer.Option("--end", help="Instant or time, part of the range; now if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the record keys that writes of a range inserted, moved to other files, or deleted."""
    from table_writer.record_index.key_changes import changed_entries

    with ProgressThreads() as view:
        changes = changed_entries(TableClient.open(path), begin, end, mapper=view, progress=view.begin_step)
    print_facts(changes.to_pylist() if as_json else None, change_lines(changes), as_json=as_json)


def entry_lines(entries: pa.Table, unknown: list[str]) -> Iterator[RenderableType]:
    """Entries of the index as lines to print."""
    if entries.num_rows:
        yield _table(entries.to_pylist(), ("key", "partition", "file_id"))
    for key in unknown:
        yield f"{key} is not in the table"


def change_lines(changes: pa.Table) -> Iterator[RenderableType]:
    """Changes of the index as lines to print; the first thousand."""
    counts = Counter(changes["change"].to_pylist())
    yield ", ".join(counted(counts[kind], kind) for kind in ("insert", "move", "delete"))
    if changes.num_rows:
        rows = changes.slice(0, _SHOWN).to_pylist()
        for row in rows:
            row["from"] = _place(row["old_partition"], row["old_file_id"])
            row["to"] = _place(row["partition"], row["file_id"])
        yield _table(rows, ("change", "key", "from", "to"))
    if changes.num_rows > _SHOWN:
        yield f"and {changes.num_rows - _SHOWN:,} more; --json gives all"


def _place(partition: str | None, file_id: str | None) -> str:
    return "-" if file_id is None else "/".join(filter(None, (partition, file_id)))


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[name]) for name in columns))
    return table
