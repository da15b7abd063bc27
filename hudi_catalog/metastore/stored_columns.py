"""Columns that older files hold under another name or type, and which of them an engine reads correctly.

A table's files keep the names and types that columns had when they were written. An engine that opens the files itself,
by the names and types in its metastore, may then fail, return wrong values or skip rows. The rules hold what was
measured:

- Trino (476) widens integers and decimals of one scale. On a decimal whose scale was changed, or that was an integer, a
  filter drops matching rows, since statistics are compared unscaled; an integer read as a float is taken for a float's
  bits.
- Hive (4.0.1) compares a filter by the type in the file: for `c < 4294967297`, or `c > 0.1`, a file of ints, or of
  floats, may return no rows, because the literal is truncated to that type. Reading without filters widens numbers
  correctly, except ints as doubles, which are converted through floats, and decimals of another scale. Unsigned numbers
  beyond the signed range become null, text as bytes fails, and 96-bit timestamps are shifted by a time zone, as are
  instants that the table has as clock times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache
from catalog.snapshots.snapshot import Snapshot
from table_format.codecs.arrow_numpy import one_chunk, to_numpy, valid_mask
from table_format.errors import StorageError, UnsupportedTableError
from table_format.storage import Storage

types = pa.types

_INT, _LONG, _FLOAT, _DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()


@dataclass(frozen=True)
class ReadingRules:
    """Which stored types an engine reads correctly as which others.

    Attributes:
        engine: its name, for messages.
        otherwise: alternative to rewriting files that it would misread, for messages.
        plain: whether values of one non-nested type are read correctly as another.
    """

    engine: str
    otherwise: str
    plain: Callable[[pa.DataType, pa.DataType], bool]

    def reads_right(self, stored: pa.DataType, wanted: pa.DataType) -> bool:
        """Whether the engine reads values stored in one type correctly as another.

        Struct fields are matched by name, missing ones are null; a struct without any matching field is unsupported.

        >>> TRINO_RULES.reads_right(pa.int32(), pa.int64()), TRINO_RULES.reads_right(pa.int32(), pa.float32())
        (True, False)
        """
        old, new = _value_type(stored), _value_type(wanted)
        if isinstance(old, pa.StructType) and isinstance(new, pa.StructType):
            before = {old.field(i).name.lower(): old.field(i).type for i in range(old.num_fields)}
            after = [new.field(i) for i in range(new.num_fields)]
            known = [(before[field.name.lower()], field.type) for field in after if field.name.lower() in before]
            right = bool(known) and all(self.reads_right(*pair) for pair in known)
        elif isinstance(old, pa.MapType) and isinstance(new, pa.MapType):
            right = self.reads_right(old.key_type, new.key_type) and self.reads_right(old.item_type, new.item_type)
        elif types.is_list(old) and types.is_list(new):
            right = self.reads_right(old.value_type, new.value_type)
        else:
            right = self.plain(old, new)
        return right


def _value_type(kind: pa.DataType) -> Any:
    """The type without Arrow's own variants (dictionary, large, fixed-size lists)."""
    if isinstance(kind, pa.DictionaryType):
        return _value_type(kind.value_type)
    if types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(kind.value_type)
    if types.is_large_string(kind):
        return pa.string()
    return pa.binary() if types.is_large_binary(kind) else kind


def _trino(old: Any, new: Any) -> bool:
    if isinstance(old, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        return _more_digits(old, new)
    if types.is_integer(old) and types.is_integer(new):
        return bool(old.bit_width <= new.bit_width)
    both_times = types.is_timestamp(old) and types.is_timestamp(new)
    return both_times or old == new or (_is_text(old) and _is_text(new))


def _hive_alone(old: Any, new: Any) -> bool:
    if types.is_timestamp(old) and types.is_timestamp(new):
        # 96-bit timestamps have nanoseconds here; old Parquet libraries do not mark them as instants
        return old.unit in ("ms", "us") and (old.tz == new.tz or old.tz is None)
    if isinstance(old, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        return _more_digits(old, new)
    if types.is_unsigned_integer(old) or types.is_null(old):
        return False
    return bool(old == new or (_is_bytes(old) and (types.is_string(new) or types.is_binary(new))))


def _hive(old: Any, new: Any) -> bool:
    """With our storage handler, which keeps filters from the Parquet reader."""
    if types.is_signed_integer(old) and types.is_signed_integer(new):
        return bool(old.bit_width <= new.bit_width)
    return (old, new) in _HIVE_PROMOTIONS or _hive_alone(old, new)


_HIVE_PROMOTIONS: Final = ((_INT, _FLOAT), (_LONG, _FLOAT), (_LONG, _DOUBLE), (_FLOAT, _DOUBLE))


def _more_digits(old: pa.Decimal128Type, new: pa.Decimal128Type) -> bool:
    return bool(old.scale == new.scale and old.precision <= new.precision)


def _is_bytes(kind: Any) -> bool:
    return bool(types.is_binary(kind) or types.is_fixed_size_binary(kind))


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind))


TRINO_RULES: Final = ReadingRules("Trino", "or read the table through `hudi-catalog serve trino`", _trino)
HIVE_RULES: Final = ReadingRules("Hive", "or leave hoodie.catalog.hive.materialize at true", _hive)
"""With our storage handler."""

HIVE_WITHOUT_HANDLER_RULES: Final = ReadingRules(
    "Hive", "or register the table with the storage handler (handler format)", _hive_alone
)
"""When Hive itself opens and filters the files."""


def differing_names(snapshot: Snapshot, instant: str) -> list[str]:
    """Columns that a case-insensitive reader by names would misread in the files of an instant.

    Columns missing from the files are not among them.

    Args:
        snapshot: of the table.
        instant: of the write.

    Raises:
        UnsupportedTableError: columns were renamed or dropped and the schema of the files is unknown.
    """
    history = snapshot.schema_history
    if history is None:
        return []
    names = snapshot.data_schema.names
    same = history.same_names(instant, names)
    stored = {column.name.lower() for column in history.stored_schema(instant).columns}
    physical = history.physical_names(instant, names)
    return [name for name in names if name not in same and (physical[name] is not None or name.lower() in stored)]


_THREADS: Final = 16
_MOST_KNOWN: Final = 1000


class StoredTypes:
    """Column types of one table's files, which are the same for all files of an instant; thread-safe.

    Args:
        rules: of the engine that opens the files.
    """

    def __init__(self, rules: ReadingRules = TRINO_RULES) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._schemas: dict[str, pa.Schema] = {}
        self._wrong: LruCache[tuple[int, pa.Schema], dict[str, pa.DataType]] = LruCache(_MOST_KNOWN)

    def check(self, snapshot: Snapshot) -> None:
        """Refuse a snapshot with files that the engine would misread.

        Raises:
            UnsupportedTableError: such a file exists; the message names the column.
        """
        for instant, columns in self.misread(snapshot, snapshot.live_rows).items():
            for column, old in (columns or {}).items():
                raise UnsupportedTableError(
                    f"{snapshot.config.name}: column {column} is {snapshot.schema.field(column).type} now, and was "
                    f"{old} when files of {instant} were written, which {self._rules.engine} would misread; "
                    f"rewrite those files (clustering), {self._rules.otherwise}"
                )

    def misread(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, dict[str, pa.DataType] | None]:
        """The columns of base files that the engine would misread.

        Args:
            snapshot: of the table.
            rows: positions of slices.

        Returns:
            By the instant that wrote the files: the stored types of such columns, None if its files cannot be read.
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
        key = (id(stored), wanted)  # equal schemas are one object, which is kept
        wrong = self._wrong.get(key)
        if wrong is None:
            before = {field.name.lower(): field.type for field in stored}
            old = {field: before.get(field.name.lower()) for field in wanted}
            wrong = {
                field.name: kind
                for field, kind in old.items()
                if kind is not None and not self._rules.reads_right(kind, field.type)
            }
            self._wrong.put(key, wrong)
        return wrong

    def _load(self, snapshot: Snapshot, first: Mapping[str, int]) -> None:
        rows = {instant: row for instant, row in first.items() if instant not in self._schemas}
        if not rows:
            return
        paths: list[Any] = snapshot.take_files(np.array([*rows.values()], np.int64)).column("path").to_pylist()
        storage = snapshot.client.storage
        with ThreadPoolExecutor(min(_THREADS, len(paths)), thread_name_prefix="hudi-types") as pool:
            schemas = pool.map(lambda path: _schema_of(storage, path), paths)
            for instant, schema in zip(rows, schemas, strict=True):
                if schema is not None:
                    self._schemas[instant] = self._same(schema)

    def _same(self, schema: pa.Schema) -> pa.Schema:
        """One object for equal schemas, of which a table has few."""
        known = {id(one): one for one in self._schemas.values()}.values()
        return next((one for one in known if one.equals(schema)), schema)


def _first_rows(snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, int]:
    """For each instant that wrote some of the base files, the position of one of its files."""
    files = snapshot.take_files(rows)
    rows = rows[valid_mask(one_chunk(files.column("path")))]  # the others have log files only
    encoded: Any = one_chunk(files.column("instant").filter(files.column("path").is_valid())).dictionary_encode()
    codes, first = np.unique(to_numpy(encoded.indices), return_index=True)
    instants: list[Any] = encoded.dictionary.to_pylist()
    return {str(instants[code]): int(rows[at]) for code, at in zip(codes, first, strict=True)}


def _schema_of(storage: Storage, path: str) -> pa.Schema | None:
    """The schema of a file; None if it cannot be read, which its reader will report."""
    try:
        with storage.open_input(path) as stream:
            return pq.read_schema(stream).remove_metadata()
    except (StorageError, pa.ArrowException, OSError):
        return None
