"""Whether an engine reads a table's older files right, where a column's type was changed since they were written.

Hudi's readers convert; engines that open the files themselves do what `reading_rules` tell.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from numpy.typing import NDArray

from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.metastore.reading_rules import TRINO, ReadingRules
from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.errors import StorageError, UnsupportedTableError
from table_format.storage import Storage

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_THREADS: Final = 16
_MOST_KNOWN: Final = 1000


class StoredTypes:
    """Knows the columns of one table's files; those that one instant wrote have the same. Threads may share it.

    Args:
        rules: what the engine reads right that opens the files.
    """

    def __init__(self, rules: ReadingRules = TRINO) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._schemas: dict[str, pa.Schema] = {}
        self._wrong: dict[tuple[int, pa.Schema], dict[str, pa.DataType]] = {}

    def check(self, snapshot: Snapshot) -> None:
        """Refuse a snapshot with files that the engine would misread.

        Raises:
            UnsupportedTableError: there is such a file; the message names the column.
        """
        for instant, columns in self.misread(snapshot, snapshot.live_rows).items():
            for column, old in (columns or {}).items():
                raise UnsupportedTableError(
                    f"{snapshot.config.name}: column {column} is {snapshot.schema.field(column).type} now, and was "
                    f"{old} when files of {instant} were written, which {self._rules.engine} would read wrong; "
                    f"rewrite those files (clustering), {self._rules.otherwise}"
                )

    def misread(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, dict[str, pa.DataType] | None]:
        """The columns that the engine would misread in base files.

        Args:
            snapshot: of the table.
            rows: positions of slices.

        Returns:
            By instant that wrote files of those slices: the stored types of such columns, None where its files could
            not be looked at.
        """
        with self._lock:
            first = _first_rows(snapshot, rows)
            self._load(snapshot, first)
            stored = {instant: self._schemas.get(instant) for instant in first}
            return {
                instant: None if schema is None else self._wrong_columns(schema, snapshot.data_schema)
                for instant, schema in stored.items()
            }

    def _wrong_columns(self, stored: pa.Schema, wanted: pa.Schema) -> dict[str, pa.DataType]:
        key = (id(stored), wanted)  # one object for equal schemas, and it stays
        if key not in self._wrong:
            if len(self._wrong) >= _MOST_KNOWN:
                self._wrong.clear()
            before = {field.name.lower(): field.type for field in stored}
            old = {field: before.get(field.name.lower()) for field in wanted}
            self._wrong[key] = {
                field.name: kind
                for field, kind in old.items()
                if kind is not None and not self._rules.reads_right(kind, field.type)
            }
        return self._wrong[key]

    def _load(self, snapshot: Snapshot, first: Mapping[str, int]) -> None:
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


def _first_rows(snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, int]:
    """For each instant that wrote one of the base files, the position of one of its files."""
    files = snapshot.take_files(rows)
    rows = rows[valid_mask(one_chunk(files.column("path")))]  # the others are log files alone
    encoded: Any = one_chunk(files.column("instant").filter(files.column("path").is_valid())).dictionary_encode()
    codes, first = np.unique(to_numpy(encoded.indices), return_index=True)
    instants: list[Any] = encoded.dictionary.to_pylist()
    return {str(instants[code]): int(rows[at]) for code, at in zip(codes, first, strict=True)}


def _schema_of(storage: Storage, path: str) -> pa.Schema | None:
    """The columns of a file; None when it cannot be read, of which whoever reads it will say more."""
    try:
        with storage.open_input(path) as stream:
            return pq.read_schema(stream).remove_metadata()
    except (StorageError, pa.ArrowException, OSError):
        return None
