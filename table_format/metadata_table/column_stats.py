"""The `column_stats` partition: column statistics by file, decoded by columns and merged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Column, from_numpy, one_chunk, schema_of, to_numpy, valid_mask
from table_format.codecs.avro_columns import UnionColumn, decode_columns
from table_format.codecs.avro_schema_tree import Node
from table_format.metadata_table import bounds
from table_format.metadata_table.bounds import ValueTypes
from table_format.metadata_table.keys import column_id
from table_format.metadata_table.records import KeyVersions, SourceRecords, decode_each, newest_versions
from table_format.metadata_table.sources import ShardSources

RAW_SCHEMA = schema_of(
    key=pa.binary(),
    file_name=pa.string(),
    column=pa.string(),
    min=pa.binary(),
    max=pa.binary(),
    value_count=pa.int64(),
    null_count=pa.int64(),
    total_size=pa.int64(),
    total_uncompressed_size=pa.int64(),
)
"""Statistics as stored, a row for each file and column.

`min` and `max` are the Avro bytes of the wrapped bound with its index in the union (null being 0); null for none.
"""

_ROOT = "ColumnStatsMetadata"

_COUNTS = {
    "value_count": "valueCount",
    "null_count": "nullCount",
    "total_size": "totalSize",
    "total_uncompressed_size": "totalUncompressedSize",
}

_TYPE_FIELDS = ("valueType.typeOrdinal", "valueType.additionalInfo")
_LONG = pa.int64()


def typed_schema(kind: pa.DataType) -> pa.Schema:
    """Schema of a column's statistics in the column's type."""
    return pa.schema(
        [("file_name", pa.string()), ("min", kind), ("max", kind), ("null_count", _LONG), ("value_count", _LONG)]
    )


def typed(sources: ShardSources, prefixes: Iterable[bytes], column: str, kind: pa.DataType) -> pa.Table:
    """Newest statistics of one column, in its type.

    Args:
        sources: of the records.
        prefixes: of the keys of the wanted records.
        column: the column.
        kind: its type.
    """

    def decode(records: SourceRecords) -> pa.Table:
        return _sound(_without_deleted(_decode_typed(records, column, kind)), kind)

    tables: list[pa.Table] = [typed_schema(kind).empty_table()]
    for prefix in prefixes:
        settled, disputed = sources.decoded(decode, prefix)
        tables += [*settled, merged(disputed, column, kind)]
    return pa.concat_tables(tables)


def merged(shards: Sequence[Sequence[SourceRecords]], column: str, kind: pa.DataType) -> pa.Table:
    """Newest statistics of one column, in its type, from records of which there may be several versions.

    Versions of one file's statistics are merged as in Hudi, by the widest bounds and the sum of the counts; if
    one version lacks a bound, the merged bound is unknown.
    """
    pieces = [piece for shard in shards for piece in shard]
    if not pieces:
        return typed_schema(kind).empty_table()
    rows = pa.concat_tables(decode_each(pieces, lambda piece: _decode_typed(piece, column, kind)))
    return _newest(rows, pa.chunked_array([piece.keys() for piece in pieces], pa.binary()), kind)


def typed_each(sources: ShardSources, columns: Sequence[str], kind: pa.DataType) -> Iterator[tuple[str, pa.Table]]:
    """As `typed` for several columns of one type, whose records are decoded together.

    Args:
        sources: of the records, all of which are read.
        columns: the columns.
        kind: their type.

    Yields:
        A column and its statistics, in the order of the columns.
    """
    ids = pa.array([column_id(column) for column in columns], pa.binary())
    names: Any = pa.array(columns, pa.string())
    pieces = [piece for shard in sources.everything() for piece in (_of_columns(one, ids) for one in shard)]

    def decode(piece: SourceRecords) -> pa.Table:
        return _decode_typed(piece, names.take(_columns_of(piece.keys(), ids)), kind)

    rows = pa.concat_tables([_typed_rows(kind).empty_table(), *decode_each(pieces, decode)])
    keys: Any = one_chunk(pa.chunked_array([piece.keys() for piece in pieces], pa.binary()))
    codes = to_numpy(_columns_of(keys, ids))
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(len(columns) + 1))
    for number, column in enumerate(columns):
        own = from_numpy(order[cuts[number] : cuts[number + 1]])
        yield column, _newest(rows.take(own), pa.chunked_array([keys.take(own)]), kind)


def _columns_of(keys: Any, ids: Any) -> Any:
    """The place of each record's column among some columns; null for others."""
    return pc.index_in(pc.binary_slice(keys, 0, len(ids[0].as_py())), value_set=ids)


def _of_columns(piece: SourceRecords, ids: Any) -> SourceRecords:
    chosen = valid_mask(_columns_of(piece.keys(), ids))
    if piece.schema is None:
        return replace(piece, deleted_keys=tuple(itertools.compress(piece.deleted_keys, chosen)))
    return replace(piece, entries=piece.entries.take(chosen))


def _newest(rows: pa.Table, keys: Any, kind: pa.DataType) -> pa.Table:
    versions = newest_versions(keys, to_numpy(one_chunk(rows["deleted"])))
    rows = rows.take(from_numpy(versions.live))
    return _sound(rows if versions.unique else _widened(rows, versions), kind)


def _without_deleted(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows["deleted"])) if pc.any(rows["deleted"]).as_py() else rows


def raw(shards: Sequence[Sequence[SourceRecords]], *, unify: bool = False) -> pa.Table:
    """Newest version of each file's statistics, as stored.

    Args:
        shards: pieces with the records, by shard.
        unify: leave out bounds and null counts in which versions differ, so that the result contradicts none of
            them.
    """
    tables = []
    for shard in shards:
        decoded = list(decode_each(shard, _decode_raw))
        if not decoded:
            continue
        rows = pa.concat_tables(decoded)
        versions = newest_versions(rows["key"], to_numpy(one_chunk(rows["deleted"])))
        last = versions.newest()
        newest = rows.take(from_numpy(last)).select(RAW_SCHEMA.names)
        if unify and not versions.unique:
            newest = _without_contradictions(newest, rows, versions, last)
        tables.append(newest)
    return pa.concat_tables([RAW_SCHEMA.empty_table(), *tables])


def _without_contradictions(newest: pa.Table, rows: pa.Table, versions: KeyVersions, last: Any) -> pa.Table:
    order = np.argsort(versions.codes[np.searchsorted(versions.live, last)])
    places = order[np.searchsorted(np.sort(versions.codes[np.searchsorted(versions.live, last)]), versions.codes)]
    for name in ("min", "max", "null_count", "value_count"):
        values = rows[name].take(from_numpy(versions.live))
        theirs = newest[name].take(from_numpy(places))
        same = pc.or_(pc.fill_null(pc.equal(values, theirs), False), pc.and_(pc.is_null(values), pc.is_null(theirs)))
        doubtful = np.zeros(newest.num_rows, dtype=np.bool_)
        doubtful[places[~to_numpy(one_chunk(same))]] = True
        blank = pc.if_else(from_numpy(doubtful), pa.scalar(None, newest[name].type), newest[name])
        newest = newest.set_column(newest.column_names.index(name), name, blank)
    return newest


def _names_types(schema: Node) -> bool:
    """Whether records declare the type of their bounds, as those of 1.1 and later may."""
    record = schema.child(_ROOT).optional
    return record is not None and any(name == "valueType" for name, _ in record.fields)


def _decode(piece: SourceRecords, fields: Sequence[str]) -> dict[str, Any]:
    entries = piece.entries
    paths = [f"{_ROOT}.{field}" for field in fields]
    decoded = decode_columns(
        entries.buffer, entries.value_starts, entries.value_lengths, piece.schema, paths, name=piece.name
    )
    return {field: decoded[path] for field, path in zip(fields, paths, strict=True)}


def _typed_rows(kind: pa.DataType) -> pa.Schema:
    return typed_schema(kind).append(pa.field("deleted", pa.bool_()))


def _decode_typed(piece: SourceRecords, column: Any, kind: pa.DataType) -> pa.Table:
    """The records in the type of their column, whose name is given, or the name of each record's."""
    schema = _typed_rows(kind)
    if piece.schema is None:
        count = len(piece.deleted_keys)
        blank: list[Any] = [pa.nulls(count, field.type) for field in schema]
        return pa.table([*blank[:-1], from_numpy(np.ones(count, dtype=np.bool_))], schema=schema)
    fields = ["fileName", "columnName", "minValue", "maxValue", "nullCount", "valueCount"]
    has_types = _names_types(piece.schema)
    decoded = _decode(piece, [*fields, "totalUncompressedSize", "isDeleted", *(_TYPE_FIELDS if has_types else ())])
    types = ValueTypes(*(decoded[field] for field in _TYPE_FIELDS)) if has_types else None
    # before versions are merged: a sum tells no longer which of them knew its part
    counts = pc.if_else(pc.greater_equal(decoded["valueCount"], 0), decoded["valueCount"], pa.scalar(None, _LONG))
    columns = [
        decoded["fileName"],
        *bounds.without_nan_traps(
            *(bounds.typed_bounds(decoded[name], kind, types) for name in ("minValue", "maxValue"))
        ),
        bounds.trusted_null_counts(decoded["nullCount"], counts, decoded["totalUncompressedSize"], kind),
        counts,
        decoded["isDeleted"].fill_null(True),
    ]
    rows = pa.table(columns, schema=schema)
    # Another column may have the same hash, however unlikely.
    of_column = pc.or_(pc.fill_null(pc.equal(decoded["columnName"], column), False), rows["deleted"])
    return (
        rows
        if pc.all(of_column).as_py() is not False
        else rows.set_column(rows.num_columns - 1, "deleted", pc.or_(rows["deleted"], pc.invert(of_column)))
    )


def _decode_raw(piece: SourceRecords) -> pa.Table:
    schema = RAW_SCHEMA.append(pa.field("deleted", pa.bool_()))
    if piece.schema is None:
        count = len(piece.deleted_keys)
        blank: list[Any] = [pa.nulls(count, field.type) for field in RAW_SCHEMA][1:]
        return pa.table([piece.keys(), *blank, from_numpy(np.ones(count, dtype=np.bool_))], schema=schema)
    decoded = _decode(piece, ["fileName", "columnName", "minValue", "maxValue", *_COUNTS.values(), "isDeleted"])
    columns = [
        piece.keys(),
        decoded["fileName"],
        decoded["columnName"],
        _encoded_bound(decoded["minValue"]),
        _encoded_bound(decoded["maxValue"]),
        *(decoded[name] for name in _COUNTS.values()),
        decoded["isDeleted"].fill_null(True),
    ]
    return pa.table(columns, schema=schema)


def _encoded_bound(column: Any) -> Column:
    if not isinstance(column, UnionColumn):
        return pa.nulls(len(column), pa.binary())
    encoded: Any = column.encoded()
    return pc.if_else(from_numpy(column.branches > 0), encoded, pa.scalar(None, pa.binary()))


def _widened(rows: pa.Table, versions: KeyVersions) -> pa.Table:
    """Merge the versions of each key, oldest first."""
    order = np.argsort(versions.codes, kind="stable")
    codes = versions.codes[order]
    firsts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    rank = np.arange(len(codes)) - np.repeat(firsts, np.diff(np.append(firsts, len(codes))))
    merged = rows.take(from_numpy(order[firsts]))
    for version in range(1, int(rank.max()) + 1):
        here = np.flatnonzero(rank == version)
        target = np.searchsorted(codes[firsts], codes[here])
        newer = np.zeros(len(firsts), dtype=np.int64)
        newer[target] = order[here]
        present = np.zeros(len(firsts), dtype=np.bool_)
        present[target] = True
        merged = _widen(merged, rows.take(from_numpy(newer)), from_numpy(present))
    return merged


def _widen(left: pa.Table, right: pa.Table, present: Column) -> pa.Table:
    columns: dict[str, Any] = {"file_name": left["file_name"]}
    empty_left, empty_right = _all_null(left), _all_null(right)
    for side, is_wider in (("min", pc.less), ("max", pc.greater)):
        # A version without values is ignored; one that has values and no bound makes the bound unknown.
        both = pc.and_(pc.is_valid(left[side]), pc.is_valid(right[side]))
        # `min_element_wise` knows neither booleans nor timestamps
        widest = pc.if_else(is_wider(left[side], right[side]), left[side], right[side])
        either = pc.if_else(both, widest, pa.scalar(None, left[side].type))
        joined = pc.if_else(empty_left, right[side], pc.if_else(empty_right, left[side], either))
        columns[side] = pc.if_else(present, joined, left[side])
    # a log file grew between its versions; a base file never does, and a retried task may have told of it twice
    grows = pc.starts_with(left["file_name"], ".")
    for name in ("null_count", "value_count"):
        agreed = pc.if_else(pc.equal(left[name], right[name]), left[name], pa.scalar(None, left[name].type))
        joined = pc.if_else(grows, pc.add(left[name], right[name]), agreed)
        columns[name] = pc.if_else(present, joined, left[name])
    columns["deleted"] = left["deleted"]
    return pa.table(columns)


def _all_null(rows: pa.Table) -> Any:
    return pc.fill_null(pc.equal(rows["null_count"], rows["value_count"]), False)


def _sound(rows: pa.Table, kind: pa.DataType) -> pa.Table:
    plain = {name: one_chunk(rows[name]) for name in rows.column_names}
    lower, upper = bounds.sound_lower(plain["min"]), bounds.sound_upper(plain["max"])
    columns = [plain["file_name"], lower, upper, plain["null_count"], plain["value_count"]]
    return pa.table(columns, schema=typed_schema(kind))
