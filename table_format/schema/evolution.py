"""Schema evolution: changes that a batch may make to a table's schema, and conforming older data to it.

Columns are matched by name. New columns go to the end and are nullable; a number may widen int → long → float →
double, as in Avro's promotions; strings and binary are interchangeable; a column missing from a batch is null.
Numbers and dates in files of a column that is now text are read as their texts; batches are not converted like this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.avro_schema_tree import UTC_MICROS
from table_format.errors import RecordError, SchemaError, did_you_mean
from table_format.keys.key_text import key_texts
from table_format.meta_columns import META_COLUMNS
from table_format.schema.nested import holds, is_list

# The stubs lag behind the functions and know no arrays of any type.
arrow: Any = pa
types = pa.types
_DECIMAL_BITS = 128  # the stored widths; narrower decimals are types of their own since pyarrow 18
# INT8 also as the type in which tables store small integers
_VECTOR_NUMBERS = {pa.float32(): "<f4", pa.float64(): "<f8", pa.int8(): "i1", pa.int32(): "i1"}
_PROMOTION_ORDER = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
_STORED_AS: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def storage_type(kind: pa.DataType) -> pa.DataType:  # noqa: PLR0911  one line a kind of type
    """The type in which a table stores an Arrow type: small integers as int, large strings and lists as normal ones.

    Types that tables cannot store are returned unchanged; writing their schema refuses them.
    """
    if isinstance(kind, pa.DictionaryType):
        return storage_type(kind.value_type)
    if isinstance(kind, pa.TimestampType):
        return UTC_MICROS if kind.tz else pa.timestamp("us")
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if isinstance(kind, pa.MapType):
        value: Any = _storage_field(kind.item_field).with_name("value")
        return _map_of(storage_type(kind.key_type), value)
    if isinstance(kind, pa.StructType):
        return pa.struct([_storage_field(kind.field(index)) for index in range(kind.num_fields)])
    if is_list(kind):
        return pa.list_(_storage_field(_element(kind)).with_name("element"))
    if types.is_decimal(kind) and kind.bit_width < _DECIMAL_BITS:
        return pa.decimal128(kind.precision, kind.scale)
    return _STORED_AS.get(kind, kind)


def storage_schema(schema: pa.Schema) -> pa.Schema:
    """A schema with every column's `storage_type`, without meta columns, all columns nullable."""
    fields = [_storage_field(field).with_nullable(nullable=True) for field in schema if field.name not in META_COLUMNS]
    refuse_duplicates(field.name for field in fields)
    return pa.schema(fields)


def merge_schemas(table: pa.Schema, batch: pa.Schema) -> pa.Schema:
    """The table's schema after a write of a batch.

    Args:
        table: user columns of the table.
        batch: columns of the batch; meta columns are ignored.

    Returns:
        The table's columns in their order, widened where the batch needs it, then the batch's new ones.

    Raises:
        SchemaError: a column changes its type in another way, or differs from a table's column in letter case only.
    """
    return pa.schema(_merge_fields(list(table), list(storage_schema(batch)), ""))


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Conform a table to a schema: columns by name, cast; missing columns are null.

    Raises:
        SchemaError: a column cannot be cast to the schema's type.
        RecordError: a value does not fit into the schema's type, or is null in a required column.
    """
    refuse_duplicates(table.column_names)
    columns = []
    for field in schema:
        position = table.schema.get_field_index(field.name)
        if position < 0:
            columns.append(arrow.nulls(len(table), field.type))
            continue
        column = table.column(position)
        if column.type != field.type:
            chunks = [_conform_array(chunk, field.type, field.name) for chunk in column.chunks]
            column = pa.chunked_array(chunks, field.type)
        refuse_nulls(field, column)
        columns.append(column)
    if not columns:
        return table.select([])
    return pa.Table.from_arrays(columns, schema=schema)


def refuse_unknown_fields(column: str, value: pa.DataType, stored: pa.DataType) -> None:
    """Refuse a value of structs with fields that the column's have not, or in other letter case: they would be lost.

    Args:
        column: for messages.
        value: type of the value.
        stored: type of the column.

    Raises:
        SchemaError: there is such a field.
    """
    if isinstance(value, pa.StructType) and isinstance(stored, pa.StructType):
        known = {field.name: field.type for field in _members(stored)}
        for field in _members(value):
            if field.name in known:
                refuse_unknown_fields(f"{column}.{field.name}", field.type, known[field.name])
            else:
                hint = did_you_mean(field.name, known)
                raise SchemaError(f"column {column!r} has no field {field.name!r}{hint}; its fields are {list(known)}")
    elif isinstance(value, pa.MapType) and isinstance(stored, pa.MapType):
        refuse_unknown_fields(f"{column}.value", value.item_type, stored.item_type)
    elif is_list(value) and is_list(stored):
        refuse_unknown_fields(f"{column}.element", _element(value).type, _element(stored).type)


def refuse_nulls(field: pa.Field[Any], column: pa.ChunkedArray[Any]) -> None:
    """Refuse nulls in a required column.

    Raises:
        RecordError: there are some.
    """
    if not field.nullable and column.null_count:
        raise RecordError(f"column {field.name!r} holds {column.null_count} nulls, but the table allows none")


def _merge_fields(table: list[pa.Field[Any]], batch: list[pa.Field[Any]], path: str) -> list[pa.Field[Any]]:
    wanted = {field.name: field for field in batch}
    known = {field.name.lower(): field.name for field in table}
    result = []
    for field in table:
        other = wanted.get(field.name)
        if other is None:
            result.append(field.with_nullable(nullable=True))
        else:
            result.append(field.with_type(_merge_types(field.type, other.type, path + field.name)))
    for field in batch:
        name = known.get(field.name.lower())
        if name is None:
            result.append(field.with_nullable(nullable=True))
        elif name != field.name:
            raise SchemaError(
                f"column {path + field.name!r} differs from the table's {path + name!r} in letter case only"
            )
    return result


def _merge_types(table: pa.DataType, batch: pa.DataType, path: str) -> pa.DataType:  # noqa: PLR0911  one line a rule
    if table == batch or types.is_null(batch):
        return table
    if types.is_null(table):
        return batch
    if isinstance(table, pa.StructType) and isinstance(batch, pa.StructType):
        return pa.struct(_merge_fields(_members(table), _members(batch), f"{path}."))
    if isinstance(table, pa.MapType) and isinstance(batch, pa.MapType) and table.key_type == batch.key_type:
        merged: Any = _merge_elements(table.item_field, batch.item_field, f"{path}.value")
        return _map_of(table.key_type, merged)
    if is_list(table) and is_list(batch):
        return pa.list_(_merge_elements(_element(table), _element(batch), f"{path}.element"))
    if table in _PROMOTION_ORDER and batch in _PROMOTION_ORDER:
        return max(table, batch, key=_PROMOTION_ORDER.index)
    if {table, batch} == {pa.string(), pa.binary()}:
        return table
    if _decimal_fits(batch, table):
        return table
    raise SchemaError(f"column {path!r} is {table} in the table and {batch} in the batch; cast the batch's column")


def _merge_elements(table: pa.Field[Any], batch: pa.Field[Any], path: str) -> pa.Field[Any]:
    merged = table.with_type(_merge_types(table.type, batch.type, path))
    return merged.with_nullable(nullable=table.nullable or batch.nullable)


def _decimal_fits(source: pa.DataType, target: pa.DataType) -> bool:
    if not isinstance(target, pa.Decimal128Type):
        return False
    digits = target.precision - target.scale
    if isinstance(source, pa.Decimal128Type):
        return bool(source.scale <= target.scale and source.precision - source.scale <= digits)
    return bool((source == pa.int32() and digits >= 10) or (source == pa.int64() and digits >= 19))


def _conform_array(array: Any, kind: pa.DataType, name: str) -> Any:  # noqa: PLR0911  one line a kind of type
    if array.type == kind:
        return array
    if isinstance(array, pa.ExtensionArray):
        return _conform_array(array.storage, kind, name)
    if array.null_count == len(array):
        return arrow.nulls(len(array), kind)
    if isinstance(array, pa.DictionaryArray):
        return _conform_array(_decoded(array, name), kind, name)
    if isinstance(kind, pa.StructType) and isinstance(array.type, pa.StructType):
        return _conform_struct(array, kind, name)
    if isinstance(kind, pa.MapType) and isinstance(array.type, pa.MapType):
        return _conform_map(array, kind, name)
    if is_list(kind) and is_list(array.type):
        return _conform_list(array, kind, name)
    if is_list(kind) and types.is_fixed_size_binary(array.type):
        return _vectors(array, kind, name)
    return _cast(array, kind, name)


def _decoded(array: Any, name: str) -> Any:
    """The values of a dictionary array.

    Arrow decodes neither views nor values that hold dictionaries themselves: those are first brought to the type in
    which tables store them.
    """
    values = array.dictionary
    if types.is_nested(values.type) or types.is_dictionary(values.type) or _is_view(values.type):
        return _conform_array(values, storage_type(values.type), name).take(array.indices)
    return array.dictionary_decode()


def _is_view(kind: pa.DataType) -> bool:
    return types.is_string_view(kind) or types.is_binary_view(kind)


def _conform_struct(array: Any, kind: pa.StructType, name: str) -> Any:
    members = []
    for field in _members(kind):
        if array.type.get_field_index(field.name) < 0:
            members.append(arrow.nulls(len(array), field.type))
        else:
            members.append(_conform_array(pc.struct_field(array, field.name), field.type, f"{name}.{field.name}"))
    return arrow.StructArray.from_arrays(members, fields=_members(kind), mask=pc.is_null(array))


def _conform_list(array: Any, kind: pa.DataType, name: str) -> Any:
    values = _conform_array(pc.list_flatten(array), _element(kind).type, f"{name}.element")
    return arrow.ListArray.from_arrays(_offsets(array), values, type=kind, mask=pc.is_null(array))


def _vectors(array: Any, kind: pa.DataType, name: str) -> Any:
    """Vectors of Hudi 1.2, stored in files as the little-endian bytes of their numbers."""
    number = _element(kind).type
    stored = np.dtype(_VECTOR_NUMBERS.get(number, "V0"))
    if not stored.itemsize or array.type.byte_width % stored.itemsize:
        raise SchemaError(f"column {name!r} is {array.type} in the data, which is not converted to {kind}")
    fresh = array.take(pa.array(np.arange(len(array))))  # its buffer begins with the first value
    per_row = array.type.byte_width // stored.itemsize
    offsets = np.arange(len(array) + 1, dtype=np.int32) * per_row
    numbers = pa.array(np.frombuffer(fresh.buffers()[1], stored, len(array) * per_row)).cast(number)
    return arrow.ListArray.from_arrays(pa.array(offsets), numbers, type=kind, mask=pc.is_null(array))


def _conform_map(array: Any, kind: pa.MapType[Any, Any, Any], name: str) -> Any:
    # Taking every row gives new buffers, in which null maps have no entries.
    fresh = _with_stored_entries(array, name).take(pa.array(np.arange(len(array))))
    keys = _conform_array(fresh.keys, kind.key_type, f"{name}.key")
    items = _conform_array(fresh.items, kind.item_type, f"{name}.value")
    return arrow.MapArray.from_arrays(_map_offsets(fresh), keys, items, type=kind)


def _with_stored_entries(array: Any, name: str) -> Any:
    """Maps of views, which Arrow takes no rows of, with keys and values in the types in which tables store them."""
    if not holds(array.type, _is_view):
        return array
    kind: Any = storage_type(array.type)
    keys = _conform_array(array.keys, kind.key_type, name)
    items = _conform_array(array.items, kind.item_type, name)
    return arrow.MapArray.from_arrays(_map_offsets(array), keys, items, type=kind)


def _map_offsets(array: Any) -> Any:
    """Where the entries of each map begin among `array.keys`; null for null maps."""
    raw = np.frombuffer(memoryview(array.buffers()[1]), np.int32)[array.offset : array.offset + len(array) + 1]
    return pa.array(raw, mask=np.append(pc.is_null(array).to_numpy(zero_copy_only=False), False))


def _offsets(array: Any) -> Any:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))), pa.int32())


def _cast(array: Any, kind: pa.DataType, name: str) -> Any:
    _check_castable(array.type, kind, name)
    if kind == pa.string() and _has_text(array.type):
        return key_texts(array, name)
    # Avro's promotion of integers to floating point rounds; all other casts must be exact.
    rounds = types.is_floating(kind) and types.is_integer(array.type)
    try:
        return pc.cast(array, kind, safe=not rounds)
    except pa.ArrowInvalid as error:
        raise RecordError(f"column {name!r}: a value does not fit into the table's type {kind}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise SchemaError(f"column {name!r}: {array.type} cannot be cast to the table's {kind}") from error


def _check_castable(source: pa.DataType, target: pa.DataType, name: str) -> None:
    """Allow only casts that keep a value's meaning: no text to number, no fraction to text, no added time zone.

    Files may have numbers and dates in a text column: Hudi promotes them, and time columns of its timestamp-based
    key generator, which it declares as text, stay numbers in the files.
    """
    stored = storage_type(source)
    both = {stored, target}
    if target == pa.string() and _has_text(stored):
        return
    if both <= {pa.string(), pa.binary()} or (stored in _PROMOTION_ORDER and target in _PROMOTION_ORDER):
        return
    if stored == storage_type(target) or types.is_null(source):
        return
    if isinstance(target, pa.Decimal128Type) and (isinstance(stored, pa.Decimal128Type) or types.is_integer(stored)):
        return
    raise SchemaError(f"column {name!r} is {source} in the data and {target} in the table, which is not converted")


def _has_text(kind: pa.DataType) -> bool:
    """Whether columns of a type may become text; Hudi writes such a value as in a record key, as Spark casts it."""
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_date(kind)


def _storage_field(field: pa.Field[Any]) -> pa.Field[Any]:
    comment = (field.metadata or {}).get(b"comment")
    bare = field.with_type(storage_type(field.type)).remove_metadata()
    return bare.with_metadata({"comment": comment}) if comment else bare


def _members(kind: pa.StructType) -> list[pa.Field[Any]]:
    return [kind.field(index) for index in range(kind.num_fields)]


def _element(kind: Any) -> pa.Field[Any]:
    element: pa.Field[Any] = kind.value_field
    return element


def _map_of(key: pa.DataType, value: Any) -> pa.DataType:
    result: pa.DataType = pa.map_(key, value)
    return result


def refuse_duplicates(names: Iterable[str]) -> None:
    """Refuse names of columns that differ in letter case only, or not at all.

    Raises:
        SchemaError: there are two.
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise SchemaError(f"columns {seen[name.lower()]!r} and {name!r} have the same name; drop or rename one")
        seen[name.lower()] = name
