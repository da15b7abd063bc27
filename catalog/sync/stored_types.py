"""Whether Trino reads a table's older files right, where a column's type was changed since they were written.

Hudi's readers convert. Trino's Parquet reader (476) widens whole numbers and decimals of one scale; other changes it
gets wrong in silence, or fails at. Of a decimal whose scale was changed, or that was a whole number, a filter drops
rows that match, for statistics are compared unscaled; a whole number read as a float is taken for a float's bits.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from catalog.snapshot import Snapshot
from table_format.arrow_numpy import one_chunk, to_numpy
from table_format.errors import StorageError, UnsupportedTableError
from table_format.storage import Storage

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_THREADS: Final = 16


class StoredTypes:
    """Knows the columns of one table's files; those that one instant wrote have the same. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: dict[str, pa.Schema] = {}

    def check(self, snapshot: Snapshot) -> None:
        """Refuse a snapshot with files that Trino would misread.

        Raises:
            UnsupportedTableError: there is such a file; the message names the column.
        """
        with self._lock:
            self._load(snapshot)
            checked: set[int] = set()
            for instant in _first_rows(snapshot):
                stored = self._schemas.get(instant)
                if stored is None or id(stored) in checked:
                    continue
                checked.add(id(stored))
                _check(snapshot, instant, stored)

    def _load(self, snapshot: Snapshot) -> None:
        first = _first_rows(snapshot)
        rows = {instant: row for instant, row in first.items() if instant not in self._schemas}
        if not rows:
            return
        paths: list[Any] = snapshot.take_files(np.array([*rows.values()], np.int64)).column("path").to_pylist()
        storage = snapshot.client.storage
        with ThreadPoolExecutor(min(_THREADS, len(paths)), thread_name_prefix="hudi-types") as pool:
            found = pool.map(lambda path: _schema_of(storage, path), paths)
            for instant, schema in zip(rows, found, strict=True):
                if schema is not None:
                    self._schemas[instant] = self._same(schema)

    def _same(self, schema: pa.Schema) -> pa.Schema:
        """One object for equal schemas, of which a table has a few."""
        known = {id(one): one for one in self._schemas.values()}.values()
        return next((one for one in known if one.equals(schema)), schema)


def reads_right(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Trino reads values that a file holds in one type as those of another.

    >>> reads_right(pa.int32(), pa.int64()), reads_right(pa.int32(), pa.float32())
    (True, False)
    """
    types = pa.types
    old, new = _plain(stored), _plain(wanted)
    if isinstance(old, pa.StructType) and isinstance(new, pa.StructType):
        before = {old.field(i).name.lower(): old.field(i).type for i in range(old.num_fields)}
        after = [new.field(i) for i in range(new.num_fields)]
        right = all(reads_right(before.get(field.name.lower(), field.type), field.type) for field in after)
    elif isinstance(old, pa.MapType) and isinstance(new, pa.MapType):
        right = reads_right(old.key_type, new.key_type) and reads_right(old.item_type, new.item_type)
    elif types.is_list(old) and types.is_list(new):
        right = reads_right(old.value_type, new.value_type)
    elif isinstance(old, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        right = old.scale == new.scale and old.precision <= new.precision
    elif types.is_integer(old) and types.is_integer(new):
        right = old.bit_width <= new.bit_width
    else:
        both_times = types.is_timestamp(old) and types.is_timestamp(new)
        right = both_times or old == new or (_is_text(old) and _is_text(new))
    return bool(right)


def _plain(kind: pa.DataType) -> Any:
    """The type without what Arrow adds to it for its own use."""
    if isinstance(kind, pa.DictionaryType):
        return _plain(kind.value_type)
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_type)
    return kind


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _first_rows(snapshot: Snapshot) -> dict[str, int]:
    """For each instant that wrote a base file, the position of one of its files."""
    rows = snapshot.live_rows
    encoded: Any = one_chunk(snapshot.take_files(rows).column("instant")).dictionary_encode()
    codes, first = np.unique(to_numpy(encoded.indices), return_index=True)
    instants: list[Any] = encoded.dictionary.to_pylist()
    return {str(instants[code]): int(rows[at]) for code, at in zip(codes, first, strict=True)}


def _schema_of(storage: Storage, path: str | None) -> pa.Schema | None:
    """The columns of a file; None when it cannot be read, of which whoever reads it will say more."""
    if path is None:
        return None
    try:
        with storage.open_input(path) as stream:
            return pq.read_schema(stream).remove_metadata()
    except (StorageError, pa.ArrowException, OSError):
        return None


def _check(snapshot: Snapshot, instant: str, stored: pa.Schema) -> None:
    before = {field.name.lower(): field.type for field in stored}
    for field in snapshot.data_schema:
        old = before.get(field.name.lower())
        if old is not None and not reads_right(old, field.type):
            raise UnsupportedTableError(
                f"{snapshot.config.name}: column {field.name} is {field.type} now, and was {old} when files of "
                f"{instant} were written, which Trino would read wrong; rewrite those files (clustering), or read the "
                "table through `hudi-catalog serve trino`"
            )
