"""What a table must hold after a history of writes: a dictionary, computed without the product."""

from typing import Any

import pyarrow as pa

from tests.engines.kinds import Kind, Row, Step


def partition_of(kind: Kind, row: Row) -> tuple[Any, ...]:
    """The values that decide the partition; the null and the empty value are one."""
    fields = kind.options.get("hoodie.datasource.write.partitionpath.field", "")
    return tuple(row[name] or None if isinstance(row[name], str) else row[name] for name in fields.split(",") if name)


def apply(kind: Kind, state: dict[tuple[Any, ...], Row], step: Step) -> None:
    """Change the dictionary as the write changes the table (event-time ordering by `ts`)."""
    if step.operation == "delete_partition":
        doomed = {partition.split("=", 1)[1] for partition in step.partitions}
        for key in [key for key in state if key[0] in doomed]:
            del state[key]
        return
    if step.operation == "insert_overwrite":
        touched = {partition_of(kind, row) for row in step.rows}
        for key in [key for key, row in state.items() if partition_of(kind, row) in touched]:
            del state[key]
    for row in step.rows:
        key = (*partition_of(kind, row), *(row[name] for name in kind.key))
        if step.operation == "delete":
            state.pop(key, None)
        elif key not in state or row["ts"] >= state[key]["ts"]:
            state[key] = row


def expected(kind: Kind, steps: list[Step]) -> list[Row]:
    state: dict[tuple[Any, ...], Row] = {}
    for step in steps:
        apply(kind, state, step)
    return list(state.values())


def comparable(rows: list[Row], names: list[str]) -> list[str]:
    """Rows as texts in one order; a column that a row lacks is null, maps are sorted, NaN equals NaN."""
    return sorted(repr([_plain(row.get(name)) for name in names]) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((k, _plain(v)) for k, v in value.items())
    if isinstance(value, list):
        items = [_plain(v) for v in value]
        return sorted(items, key=repr) if items and all(isinstance(v, tuple) for v in value) else items
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tzinfo"):
        return value.replace(tzinfo=None).isoformat()
    return value


def user_rows(table: pa.Table) -> list[Row]:
    return table.select([name for name in table.column_names if not name.startswith("_hoodie_")]).to_pylist()
