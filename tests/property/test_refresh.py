"""After any history of writes, a refreshed open table equals a newly opened one."""

import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import given, settings

from catalog import Table
from catalog.statistics.indexed_column import IndexedColumn
from tests.property.test_write_histories import OPTIONS, SCHEMA, STEPS, WRITES
from tests.support.local_writes import LocalTable

COLUMNS = {name: SCHEMA.field(name).type for name in ("id", "v", "ts")}
INDEXED = OPTIONS | {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
}


def seen(table: Table) -> dict[tuple[str, str], Any]:
    """Each file group's slice, with the statistics of all columns."""
    snapshot = table.snapshot()
    rows = snapshot.live_rows
    slices = snapshot.take_files(rows).to_pylist()
    known: list[dict[str, Any]] = [{} for _ in slices]
    for name, kind in COLUMNS.items():
        column = snapshot.indexed_column(name, kind)
        if isinstance(column, IndexedColumn):
            part = column.take(rows)
            stats = part.statistics
            values = (stats.lower, stats.upper, stats.null_count, stats.row_count, part.row_count)
            texts = [map(repr, array.to_pylist()) for array in values]
            for entry, *of in zip(known, part.present.tolist(), *texts, strict=True):
                entry[name] = of
    return {(s["partition"], s["file_id"]): (s, k) for s, k in zip(slices, known, strict=True)}


@given(STEPS)
@settings(max_examples=12, deadline=None)
def test_a_refreshed_table_is_a_fresh_one(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        local = LocalTable.create(path, SCHEMA, INDEXED)
        held, lazy = Table.open(path), Table.open(path)
        seen(held)
        seen(lazy)
        for number, (step, batch, _) in enumerate(steps):
            operation, options = WRITES.get(step, (step, {}))
            local.write(
                operation, pa.Table.from_pylist([{n: row[n] for n in SCHEMA.names} for row in batch], SCHEMA), options
            )
            fresh = seen(Table.open(path))
            assert seen(held.refresh()) == fresh
            # statistics that nobody asks for between two refreshes
            lazy.refresh()
            if number % 2:
                assert seen(lazy) == fresh
            assert len(held.scan("v > 3").plan().rows) == len(Table.open(path).scan("v > 3").plan().rows)
