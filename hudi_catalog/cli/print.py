"""How the command line prints tables, their history and their rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from catalog.amounts import bytes_text
from catalog.catalog import TableEntry
from catalog.history import HistoryEntry
from catalog.rows.json_rows import json_values
from catalog.snapshots.snapshot import Snapshot
from catalog.table import Table
from table_format.errors import HudiError
from table_format.keys.partition_buckets import EXPRESSIONS

_LONGEST_CELL = 40
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def tables_json(entries: Sequence[TableEntry]) -> list[dict[str, Any]]:
    """The tables of a warehouse, for JSON output."""
    return [
        {
            "name": entry.name,
            "path": entry.path,
            "uri": entry.uri,
            "table_type": entry.config.table_type if entry.config else None,
            "version": entry.config.version if entry.config else None,
            "record_key_fields": list(entry.config.record_key_fields) if entry.config else [],
            "partition_fields": list(entry.config.partition_fields) if entry.config else [],
            "metadata_partitions": list(entry.config.metadata_partitions) if entry.config else [],
            "problem": entry.problem,
        }
        for entry in entries
    ]


def tables_table(entries: Sequence[TableEntry]) -> RichTable:
    """The tables of a warehouse, to print."""
    table = _table("table", "type", "version", "record key", "partitioned by", "metadata table", "folder")
    for entry in entries:
        config = entry.config
        if config is None or entry.problem is not None:
            table.add_row(entry.name, Text(entry.problem or "", style="red"), "", "", "", "", entry.path)
            continue
        table.add_row(
            entry.name,
            config.table_type.lower().replace("_", " "),
            str(config.version),
            ", ".join(config.record_key_fields) or "-",
            ", ".join(config.partition_fields) or "-",
            ", ".join(config.metadata_partitions) or "-",
            entry.path or ".",
        )
    return table


def show_json(table: Table, as_of: str | None) -> dict[str, Any]:
    """Facts about a table, for JSON output."""
    config, snapshot = table.config, table.snapshot(as_of)
    return {
        "name": config.name,
        "database": config.database or None,
        "uri": table.client.storage.uri,
        "table_type": config.table_type,
        "version": config.version,
        "record_key_fields": list(config.record_key_fields),
        "partition_fields": list(config.partition_fields),
        "ordering_fields": list(config.ordering_fields),
        "key_generator": config.key_generator.value,
        "merge_mode": config.merge_mode,
        "index_type": config.index_type,
        "bucket_count": config.bucket_count,
        "bucket_rules": config.raw.get(EXPRESSIONS) or None,
        "bucket_file_size": config.bucket_file_size,
        "bucket_hash_fields": list(config.bucket_hash_fields or ()) or None,
        "metadata_partitions": list(config.metadata_partitions),
        "instant": snapshot.instant,
        "commits": len(snapshot.timeline.writes),
        "partitions": len(snapshot.partitions),
        "files": len(snapshot.live_rows),
        "log_files": _log_files(snapshot),
        "bytes": int(snapshot.sizes.sum()),
        "schema": [{"name": field.name, "type": str(field.type)} for field in snapshot.schema],
        "properties": dict(config.raw),
    }


def _log_files(snapshot: Snapshot) -> int:
    logs: Any = snapshot.files.column("logs")
    return int(pc.sum(pc.list_value_length(logs)).as_py() or 0)


def _files(facts: dict[str, Any]) -> str:
    logs = facts["log_files"]
    return f"{facts['files']:,} file slices with {logs:,} log files" if logs else f"{facts['files']:,} files"


def show_lines(table: Table, as_of: str | None) -> Iterator[RenderableType]:
    """Facts about a table, as lines to print."""
    facts = show_json(table, as_of)
    yield Text.assemble((facts["name"], "bold"), "  ", (facts["uri"], "dim"))
    grid = RichTable(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    buckets = (
        f"{facts['bucket_count']} buckets by {', '.join(facts['bucket_hash_fields'] or facts['record_key_fields'])}"
    )
    if facts["bucket_rules"]:
        buckets += f"; by partition {facts['bucket_rules']}"
    if facts["bucket_file_size"]:
        buckets += f"; file groups of up to {bytes_text(facts['bucket_file_size'])}"
    rows = {
        "type": f"{facts['table_type'].lower().replace('_', ' ')}, table version {facts['version']}",
        "record key": ", ".join(facts["record_key_fields"]) or "made by Hudi",
        "partitioned by": ", ".join(facts["partition_fields"]) or "nothing",
        "newest wins by": ", ".join(facts["ordering_fields"]) or "commit time",
        "merge mode": facts["merge_mode"].lower().replace("_", " "),
        "index": buckets if facts["bucket_count"] else facts["index_type"] or "not recorded in hoodie.properties",
        "metadata table": ", ".join(facts["metadata_partitions"]) or "none",
        "instant": facts["instant"] or "no commit yet",
        "holds": f"{_files(facts)} in {facts['partitions']:,} partitions, {bytes_text(facts['bytes'])}",
    }
    for name, text in rows.items():
        grid.add_row(name, text)
    yield grid
    columns = _table("column", "type")
    for field in facts["schema"]:
        columns.add_row(Text(field["name"], style="dim" if field["name"].startswith("_hoodie_") else ""), field["type"])
    yield columns


def history_table(entries: Sequence[HistoryEntry]) -> RichTable:
    """The history of a table, to print."""
    table = _table(
        "instant", "operation", "state", right=("inserted", "updated", "deleted", "files", "removed", "bytes")
    )
    for entry in entries:
        counts = (entry.rows_inserted, entry.rows_updated, entry.rows_deleted, entry.files_written, entry.files_removed)
        size = "" if entry.bytes_written is None else bytes_text(entry.bytes_written)
        done = entry.state == "COMPLETED"
        table.add_row(
            entry.instant,
            entry.operation.lower().replace("_", " "),
            Text(entry.state.lower(), style="" if done else "yellow"),
            *("" if count is None else f"{count:,}" for count in counts),
            size,
        )
    return table


def rows_table(rows: pa.Table) -> RenderableType:
    """Rows, to print; without Hudi's meta columns unless there are no others."""
    names = [name for name in rows.column_names if not name.startswith("_hoodie_")] or rows.column_names
    table = _table()
    cells = []
    for name in names:
        kind = rows.schema.field(name).type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
        try:
            cells.append([_cell(text) for text in json_values(rows.column(name)).to_pylist()])
        except HudiError:
            cells.append([Text("?")] * rows.num_rows)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def _cell(text: str) -> Text:
    if text == "null":
        return Text("null", style="dim")
    # as it is, but control characters, which a terminal would obey, stay escaped as in JSON
    plain = _CONTROL.sub(lambda match: json.dumps(match[0])[1:-1], json.loads(text)) if text.startswith('"') else text
    return Text(plain if len(plain) <= _LONGEST_CELL else f"{plain[: _LONGEST_CELL - 1]}…")


def _table(*left: str, right: Sequence[str] = ()) -> RichTable:
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table
