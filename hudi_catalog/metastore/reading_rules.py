"""What engines that open Parquet files themselves read right: which values of one type as those of another.

A table's files keep the types that columns had when they were written. An engine that goes by the types of its own
metastore may then fail, or read values that never were, or leave rows out. The rules hold what was measured:

- Trino (476) widens whole numbers and decimals of one scale. Of a decimal whose scale was changed, or that was a whole
  number, a filter drops rows that match, for statistics are compared unscaled; a whole number read as a float is taken
  for a float's bits.
- Hive (4.0.1) holds a filter against the type in the file: of `c < 4294967297`, or `c > 0.1`, a file of ints, or of
  floats, may give no rows, because the literal is cut to that type. Reading alone, without filters, widens numbers
  rightly, but for ints as doubles, which go by way of floats, and for decimals of another scale. Unsigned numbers
  beyond the signed ones become null, text as bytes fails, and 96-bit timestamps are moved by a time zone, as instants
  are that the table has as clock times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

types = pa.types

_INT, _LONG, _FLOAT, _DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()


@dataclass(frozen=True)
class ReadingRules:
    """The types of values that an engine reads right as others.

    Attributes:
        engine: its name, for messages.
        otherwise: what to do about files that it would misread, other than to rewrite them; for messages.
        plain: whether values of one type without members are read right as those of another.
    """

    engine: str
    otherwise: str
    plain: Callable[[pa.DataType, pa.DataType], bool]

    def reads_right(self, stored: pa.DataType, wanted: pa.DataType) -> bool:
        """Whether the engine reads values that a file holds in one type as those of another.

        Members of structs go by name, and those that the file lacks are null; what becomes of a struct that lacks
        all of them is not known.

        >>> TRINO.reads_right(pa.int32(), pa.int64()), TRINO.reads_right(pa.int32(), pa.float32())
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
    """The type without what Arrow adds to it for its own use."""
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
        # 96-bit ones are of nanoseconds here; files of old Parquet libraries do not say that they hold instants
        return old.unit in ("ms", "us") and (old.tz == new.tz or old.tz is None)
    if isinstance(old, pa.Decimal128Type) and isinstance(new, pa.Decimal128Type):
        return _more_digits(old, new)
    if types.is_unsigned_integer(old) or types.is_null(old):
        return False
    return bool(old == new or (_is_bytes(old) and (types.is_string(new) or types.is_binary(new))))


def _hive(old: Any, new: Any) -> bool:
    """As read by our storage handler, which keeps filters from the reader."""
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


TRINO: Final = ReadingRules("Trino", "or read the table through `hudi-catalog serve trino`", _trino)
HIVE: Final = ReadingRules("Hive", "or leave hoodie.catalog.hive.materialize at true", _hive)
"""With our storage handler."""
HIVE_ALONE: Final = ReadingRules("Hive", "or register the table with the storage handler (handler format)", _hive_alone)
"""As it opens and filters the files of a table of its own."""
